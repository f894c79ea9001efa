"""Build virtual environments with uv, with the rights of their owners. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import pwd
import re
import shutil
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..._host.as_user import (
    PATH,
    SECONDS,
    TimeLimitError,
    UserError,
    account_of,
    as_user,
    confined,
    foreign,
    run,
)
from ..._host.doing import report
from ..._host.open_paths import TooMuchError, is_mentioned
from ..._host.state import STATE_DIR, as_json, read_text, write_atomically
from ..._host.unpack import link_target

# The apply agent catches it, and may import only this module.
from ..._host.work import Failed as Failed  # pylint: disable=useless-import-alias
from ..._host.work import new_account
from . import uv_wheel
from .conflict import declared_twice
from .frameworks import no_wheels
from .plan import (
    VenvSpec,
    asked_lines,
    cuda_packages,
    installed_packages,
    is_away,
    is_direct,
    is_linked,
    is_no_name,
    lacks_version,
    lock_lines,
    must_be_built,
    netrc_line,
    pyproject,
    split_torch,
    torch_names,
    tries_for,
    unmet,
    versions,
)

T = TypeVar("T")
# This folder belongs to root and has the records of environments and builds.
RECORDS = Path(STATE_DIR) / "venvs"
# This user builds and owns root's environments, so no package's code runs as root.
BUILDER = "tpu-fleet-build"
# Marks a folder while it is built, so that interrupted builds are recognised.
BUILDING = ".tpu-fleet-building"
# Time limits: for a call of uv or of an environment's Python, and to remove its files.
TOOL_SECONDS = 2 * 3600.0
TREE_SECONDS = 900.0
MOST_TOLD = 32_000_000
FIRST_PAUSE = 5.0
# A shared cache may need this long to start, because all workers of a slice begin together.
SHARED_SECONDS = 60.0
SHARED_PAUSE = 1.0
# Importing shows that the wheels fit this machine. It must not touch a chip that another process
# uses, and torch_tpu loads libtpu on import, so PyTorch is imported in its place.
PROBE = """
import importlib, importlib.util, json, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
for name in sys.argv[2].split():
    if not importlib.util.find_spec(name):
        raise ImportError(name + " is not there")
print(".".join(map(str, sys.version_info[:3])))
"""
# Compile modules, but not the tests of packages: a quarter of all, which uv would compile, too.
COMPILE = """
import compileall, re, site
tests = re.compile("/site-packages/.*/tests?/")
for folder in site.getsitepackages():
    compileall.compile_dir(folder, quiet=2, workers=0, rx=tests)
"""
# torch_xla is linked with the library of its Python: "" if the loader finds it, otherwise the path
# of this Python's own library.
LIBRARY = """
import ctypes, os, sys
name = "libpython%d.%d.so.1.0" % sys.version_info[:2]
own = os.path.join(sys.base_prefix, "lib", name)
try:
    ctypes.CDLL(name)
    print(name, "")
except OSError:
    print(name, own if os.path.exists(own) else "missing")
"""
PROBED = {
    "jax": ("jax", ""),
    "torch_xla": ("torch torch_xla", ""),
    "torch_tpu": ("torch", "torch_tpu"),
    "none": ("", ""),
}


def _text(said: bytes) -> str:
    return said.decode("utf-8", "replace")


# Accounts by uid whose work timed out: they can stop all that is done as them.
too_slow: dict[int, str] = {}


def acting(account: pwd.struct_passwd, work: Callable[[], T], seconds: float = SECONDS) -> T:
    """Run work with an account's rights; fail at once if earlier work of it timed out."""
    refuse_slow(account)
    try:
        return as_user(account, work, seconds=seconds)
    except TimeLimitError as error:
        note_slow(account, str(error))
        raise Failed(str(error)) from error
    except UserError as error:
        raise Failed(str(error)) from error


def refuse_slow(account: pwd.struct_passwd) -> None:
    """Raise Failed for an account whose earlier work exceeded its time limit."""
    if account.pw_uid in too_slow:
        raise Failed(too_slow[account.pw_uid])


def why_slow(owner: str) -> str:
    """Return how work of an owner took too long; empty if it did not."""
    account = account_of(owner)
    return too_slow.get(account.pw_uid, "") if account else ""


def note_slow(account: pwd.struct_passwd, why: str) -> None:
    """Record that an account's work timed out; root's own work cannot be stopped by users."""
    if account.pw_uid != 0:
        too_slow.setdefault(account.pw_uid, why)


_creating = threading.Lock()


def account_for(owner: str, *, create: bool = True) -> pwd.struct_passwd:
    """Return the account that builds an owner's environments, and that owns the files."""
    me = pwd.getpwuid(os.geteuid())
    found = account_of(owner)
    if found is None:
        raise Failed(f"user = {owner!r} is not a user of this host.")
    if found.pw_uid != 0 or me.pw_uid != 0:
        return found
    with _creating:
        builder = account_of(BUILDER)
        if builder is None and create:
            done = run(new_account(BUILDER), {"PATH": PATH}, seconds=60)
            builder = account_of(BUILDER)
            if builder is None:
                why = _text(done.err)
                raise Failed(f"Cannot add the user {BUILDER}: useradd ends with {done.code}. {why}")
    return builder or me


@dataclass(frozen=True)
class Site:
    """The path of an environment, and the accounts that work there."""

    path: Path
    # Owns the files of the environment.
    owner: pwd.struct_passwd
    # Creates the folders and links beside it.
    keeper: pwd.struct_passwd


def site_of(path: Path, owner: str, *, create: bool = True) -> Site:
    """Return who works at a path; root itself only where users cannot change the path."""
    account = account_for(owner, create=create)
    strange = foreign(str(path.parent))
    if strange is None:
        return Site(path, account, pwd.getpwuid(os.geteuid()))
    if account.pw_uid == 0 or account.pw_name == BUILDER:
        raise Failed(
            f"path = {str(path)!r} cannot hold an environment of root's, because others can change "
            f"{strange}. Declare its user, or another path."
        )
    return Site(path, account, account)


class Tools:
    """Runs uv and other tools, with the package indexes of this host."""

    def __init__(self, params: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        self.params = params
        self.warn = warn
        self.folder = Path(params["uv_dir"]) / params["uv_version"]
        self.uv = str(self.folder / "bin" / "uv")
        self.netrc = ""
        self.shared = ""
        self.did: list[str] = []
        self.temporary: dict[int, str] = {}
        self._making: dict[int, threading.Lock] = {}

    # What the tools see

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Write logins to files and look for the shared cache, while something is built."""
        with tempfile.TemporaryDirectory(prefix="tpu-fleet-") as folder:
            # Each user has a file in this folder; others can pass through but not list it.
            Path(folder).chmod(0o711)
            self.netrc = folder if self.params["index_credentials"] else ""
            self.shared = self._reachable(self.params["shared_cache_url"])
            try:
                yield
            finally:
                self.netrc = ""
                self._no_temporary()

    def _reachable(self, url: str) -> str:
        """Return the URL of the shared cache if it answers in time; otherwise an empty text."""
        if not url:
            return ""
        # The cache is on the internal network, which proxies do not reach.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + SHARED_SECONDS
        while True:
            try:
                with opener.open(f"{url}/health", timeout=5) as answer:
                    answer.read()
                return str(url)
            except (OSError, ValueError) as error:
                if time.monotonic() >= deadline:
                    self.warn(
                        f"The shared package cache at {url} does not answer ({error}): "
                        "asking the index itself."
                    )
                    return ""
            time.sleep(SHARED_PAUSE)

    def _index(self, name: str, url: str) -> str:
        """Return the URL of an index: through the cache, unless it needs a login."""
        private = {entry["host"] for entry in self.params["index_credentials"]}
        if not self.shared or (url and urlsplit(url).hostname in private):
            return url
        return f"{self.shared}/{name}/"

    @property
    def torch_index(self) -> str:
        """Return the URL of PyTorch's own index."""
        url = str(self.params["torch_index_url"] or "")
        return self._index("torch", url) if url else ""

    def _own_cache(self, user: pwd.struct_passwd) -> str:
        """Return root's or the builder's cache, which no other user enters.

        uv locks files in it, and any user who can open one could hold it.
        """
        parent = Path(self.params["cache_dir"])
        folder = parent / ("root" if user.pw_uid == 0 else BUILDER)
        with _creating:
            if not folder.is_dir():
                parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                strange = foreign(str(parent))
                if strange is not None:
                    raise Failed(f"cache_dir = {str(parent)!r}: others can change {strange}.")
                folder.mkdir(mode=0o700)
                os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
        return str(folder)

    def _temporary(self, user: pwd.struct_passwd) -> str:
        """Return a user's own folder for temporary files: uv locks files there, too."""
        # A lock for each user, because a user can stop what makes the folder.
        with _creating:
            mine = self._making.setdefault(user.pw_uid, threading.Lock())
        with mine:
            if user.pw_uid not in self.temporary:
                make = functools.partial(tempfile.mkdtemp, prefix="tpu-fleet-")
                self.temporary[user.pw_uid] = acting(user, make)
        return self.temporary[user.pw_uid]

    def _no_temporary(self) -> None:
        """Remove the folders for temporary files, as their users."""
        for uid, folder in self.temporary.items():
            remove = functools.partial(shutil.rmtree, folder, ignore_errors=True)
            # What stays is the user's own.
            with contextlib.suppress(Failed, OSError, KeyError):
                acting(pwd.getpwuid(uid), remove, TREE_SECONDS)
        self.temporary.clear()

    def _netrc_of(self, user: pwd.struct_passwd) -> str:
        path = Path(self.netrc) / str(user.pw_uid)
        if not path.exists():
            lines = [
                netrc_line(entry["host"], entry["user"], entry["password"])
                for entry in self.params["index_credentials"]
            ]
            write_atomically(path, "".join(lines), mode=0o600, uid=user.pw_uid, gid=user.pw_gid)
        return str(path)

    def environment(self, user: pwd.struct_passwd) -> dict[str, str]:
        """Return the environment variables for uv, pip and Python when they run as a user."""
        params = self.params
        cache, home = f"{user.pw_dir}/.cache/uv", user.pw_dir
        if user.pw_uid == 0:
            cache = self._own_cache(user)
        elif user.pw_name == BUILDER:
            cache = home = self._own_cache(user)
        seen = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PATH": PATH,
            "HOME": home,
            "USER": user.pw_name,
            "LOGNAME": user.pw_name,
            "UV_CACHE_DIR": cache,
            "TMPDIR": self._temporary(user),
            "UV_PYTHON_INSTALL_DIR": params["python_dir"],
            "UV_PYTHON_PREFERENCE": "system",
            "UV_COMPILE_BYTECODE": "0",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "JAX_PLATFORMS": "cpu",
            "PJRT_DEVICE": "CPU",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "TPU_SKIP_MDS_QUERY": "1",
        }
        if params["ca_bundle"]:
            seen.update(SSL_CERT_FILE=params["ca_bundle"], PIP_CERT=params["ca_bundle"])
        index = self._index("default", params["index_url"])
        if index:
            seen.update(UV_DEFAULT_INDEX=index, PIP_INDEX_URL=index)
        extra = " ".join(params["extra_index_urls"])
        if extra:
            seen.update(UV_INDEX=extra, PIP_EXTRA_INDEX_URL=extra)
        plain = {
            str(urlsplit(url).hostname)
            for url in (index, *params["extra_index_urls"])
            if url.startswith("http://")
        }
        if plain:
            # uv accepts http indexes; pip needs them listed.
            seen["PIP_TRUSTED_HOST"] = " ".join(sorted(plain))
        if self.shared:
            known = (os.environ.get("NO_PROXY", ""), str(urlsplit(self.shared).hostname))
            seen["NO_PROXY"] = seen["no_proxy"] = ",".join(filter(None, known))
        if self.netrc:
            seen["NETRC"] = self._netrc_of(user)
        # The cache does not have the builds of a user's own list.
        shares_pythons = self.shared and not params["python_list"]
        mirror = f"{self.shared}/pythons" if shares_pythons else params["python_mirror"]
        if mirror:
            seen["UV_PYTHON_INSTALL_MIRROR"] = mirror
        if params["python_list"]:
            seen["UV_PYTHON_DOWNLOADS_JSON_URL"] = params["python_list"]
        for more in (params["environment"], params["secret_environment"]):
            seen.update({key: str(value) for key, value in more.items()})
        return seen

    # Running them

    def run(
        self,
        *argv: str,
        user: pwd.struct_passwd | None = None,
        more: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command and return its output."""
        who = user or pwd.getpwuid(os.geteuid())
        environment = {**self.environment(who), **(more or {})}
        refuse_slow(who)
        try:
            done = run(
                confined(who, list(argv)),
                environment,
                seconds=TOOL_SECONDS,
                most_bytes=MOST_TOLD,
                uid=who.pw_uid,
            )
        except UserError as error:
            why = f"{' '.join(argv[:3])} …, run as {who.pw_name}: {error}"
            if isinstance(error, TimeLimitError):
                note_slow(who, why)
            raise Failed(why) from error
        if done.code != 0:
            lines = _text(done.err or done.out).strip().splitlines()
            raise Failed(f"{' '.join(argv[:3])} … failed: " + "\n".join(lines[-25:]))
        return _text(done.out)

    def patiently(self, action: Callable[[], T], source: str = "package index") -> T:
        """Run an action that needs an index or another source; retry while that is away."""
        began, pause, tries = time.monotonic(), FIRST_PAUSE, 0
        while True:
            try:
                return action()
            except Failed as error:
                if not is_away(str(error)):
                    raise
                if self.shared:
                    self.warn(f"The shared package cache at {self.shared} failed: {error}")
                    self.shared = ""
                    continue
                tries += 1
                if is_no_name(str(error)):
                    raise Failed(
                        f"The name of the {source} cannot be resolved. Correct its address, or set "
                        f"another (fleet_index_url, fleet_python_mirror). {error}"
                    ) from error
                if tries >= tries_for(str(error), self.params["tries"]):
                    waited = round(time.monotonic() - began)
                    raise Failed(
                        f"The {source} did not answer in {tries} tries and {waited} seconds. "
                        f"Try again when it is back, or set another. {error}"
                    ) from error
            time.sleep(pause)
            pause *= 2

    # Having them

    def have_uv(self) -> None:
        """Install uv if it is missing."""
        if Path(self.uv).exists():
            return
        # Installed beside its final place, so that an interruption leaves no partial program.
        new = self.folder.with_name(f"{self.folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        (new / "bin").mkdir(parents=True)
        version, me = self.params["uv_version"], pwd.getpwuid(os.geteuid())
        data = self.patiently(
            lambda: uv_wheel.program(
                version, self.environment(me), str(self.params.get("usual_index", ""))
            )
        )
        with (new / "bin" / "uv").open("wb") as out:
            out.write(data)
            os.fchmod(out.fileno(), 0o755)
            os.fsync(out.fileno())
        shutil.rmtree(self.folder, ignore_errors=True)
        new.rename(self.folder)
        self.did.append(f"installed uv {version}")

    def find_python(self, wanted: str) -> str | None:
        """Return a Python of this version on the host, or None."""
        if self.params["python_source"] == "conda":
            own = Path(self.params["python_dir"]) / f"conda-{wanted}" / "bin" / "python"
            if own.exists():
                return str(own)
        argv = ("python", "find", "--system", "--no-python-downloads", wanted)
        try:
            return self.run(self.uv, *argv).strip()
        except Failed:
            return None

    def interpreter(self, wanted: str) -> str:
        """Return the wanted Python; install it if the system has none."""
        found = self.find_python(wanted)
        if found:
            return found
        source = self.params["python_source"]
        try:
            if source == "conda":
                self.patiently(lambda: self._conda(wanted), "channel of conda")
            elif source == "uv":
                _lock_of_root(Path(self.params["python_dir"]))
                argv = (self.uv, "python", "install", "--no-bin", wanted)
                self.patiently(lambda: self.run(*argv), "source of uv's builds of Python")
            found = self.find_python(wanted)
            if not found:
                raise Failed(f"{source} provided none.")
        except (Failed, OSError) as error:
            raise Failed(
                f"python = {wanted!r}: this host has no Python {wanted}, and {source} could not "
                f"provide it. It has {self._pythons() or 'none'}. Declare one of these; or set a "
                "mirror (fleet_python_mirror, fleet_python_list) or another source "
                f"(fleet_python_source). {error}"
            ) from error
        self.did.append(f"installed Python {wanted}")
        return found

    def _conda(self, wanted: str) -> None:
        folder = Path(self.params["python_dir"]) / f"conda-{wanted}"
        # The rest of an interrupted installation would make the next one fail.
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        channel = self.params["conda_channel"]
        argv = ("create", "--yes", "--quiet", "--override-channels", "--channel", channel)
        self.run(self.params["conda"], *argv, "--prefix", str(folder), f"python={wanted}")

    def _pythons(self) -> str:
        with contextlib.suppress(Failed):
            told = self.run(
                self.uv, "python", "list", "--only-installed", "--output-format", "json"
            )
            names = {f"{item['version']} ({item['path']})" for item in json.loads(told)}
            return ", ".join(sorted(names))
        return ""


class Builder:
    """Builds one environment, with the rights of its owner."""

    def __init__(
        self,
        tools: Tools,
        spec: VenvSpec,
        accelerator: str,
        files: Mapping[str, str],
        index: Tools | None = None,
    ) -> None:
        self.tools = tools
        # Asks the index itself, for what no hash protects from another worker's cache.
        self.index = index or tools
        self.spec = spec
        self.accelerator = accelerator
        # The requirements file and its includes by path; the file itself is first.
        self.files = files
        self.more = dict(spec.environment)

    def _python(self) -> tuple[str, str]:
        """Return the Python, and its library if the loader would not find it.

        This comes first, because torch_xla with its dependencies is gigabytes.
        """
        interpreter = self.tools.interpreter(self.spec.python)
        if not is_linked(self.spec):
            return interpreter, ""
        name, _space, own = self.tools.run(interpreter, "-I", "-c", LIBRARY).strip().partition(" ")
        if own == "missing":
            package = name.partition(".so")[0]
            raise Failed(
                f"python = {self.spec.python!r}: torch_xla needs {name}, which this host's "
                f"{interpreter} does not have. Declare the package {package} in "
                "fleet_packages, or another version in python."
            )
        return interpreter, own

    def resolve(self, owner: pwd.struct_passwd, known: str = "") -> str:
        """Return a lock with one version and the hashes of each package, also of dependencies.

        `known` is a lock whose versions are kept.
        """
        lacking = no_wheels(
            self.spec.framework, self.spec.framework_version, self.accelerator, platform.machine()
        )
        if lacking:
            raise Failed(lacking)
        interpreter, _library = self._python()
        tools = self.index
        names = torch_names(self.spec, self.accelerator) if tools.torch_index else []

        report(f"resolves the packages of environment {self.spec.name}")

        def compiled() -> str:
            with tempfile.TemporaryDirectory(prefix="tpu-fleet-lock-") as name:
                folder = Path(name)
                _open_for(folder, owner)
                # Every environment gets pip, because users expect it.
                asked = "".join(f"{line}\n" for line in asked_lines(self.spec, self.accelerator))
                (folder / "asked.txt").write_text(f"{asked}pip\n", encoding="utf-8")
                arguments = [str(folder / "asked.txt")]
                if names:
                    text = pyproject(names, tools.torch_index)
                    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
                    arguments.append(str(folder / "pyproject.toml"))
                if self.files:
                    arguments.append(copies(self.files, folder))
                fixed = [*self.spec.constraints, *versions(known)]
                if fixed:
                    text = "".join(f"{line}\n" for line in fixed)
                    (folder / "constraints.txt").write_text(text, encoding="utf-8")
                    arguments += ["--constraints", str(folder / "constraints.txt")]
                told = ["--quiet", "--no-header", "--no-annotate", "--generate-hashes"]
                told += ["--python", interpreter]
                try:
                    return tools.run(
                        tools.uv, "pip", "compile", *told, *arguments, user=owner, more=self.more
                    )
                except Failed as error:
                    said = of_originals(str(error), self.files, folder)
                    where = declared_twice(said, self.spec, self.accelerator, self.files)
                    raise Failed(f"{said}{where}") from error

        lock = "".join(f"{line}\n" for line in lock_lines(tools.patiently(compiled)))
        cuda = cuda_packages(lock)
        if tools.torch_index and not names and any(line.startswith("nvidia-") for line in cuda):
            raise Failed(
                f"This would install CUDA's PyTorch, {len(cuda)} packages for graphics cards. Add "
                "torch to packages, so that it comes from fleet_torch_index_url."
            )
        return lock

    def build(self, lock: str, folder: Path, site: Site) -> dict[str, Any]:
        """Build the environment as its owner, check it, and return its stamp."""
        tools, owner = self.tools, site.owner
        interpreter, library = self._python()
        acting(site.keeper, lambda: _begin(folder, owner), TREE_SECONDS)
        argv = ("venv", "--quiet", "--allow-existing", "--python", interpreter, str(folder))
        tools.run(tools.uv, *argv, user=owner)
        if library:
            acting(owner, lambda: _load_at_start(folder, library))
        report(f"installs {len(lock_lines(lock))} packages into environment {self.spec.name}")
        own, rest = split_torch(lock) if tools.torch_index else ([], lock_lines(lock))
        if own:
            # First, so that no later package installs the PyTorch with CUDA as a dependency.
            self._install(folder, owner, own, from_torch=True)
        self._install(folder, owner, [line for line in rest if not is_direct(line)])
        self._install(folder, owner, [line for line in rest if is_direct(line)], hashes=False)
        python = str(folder / "bin" / "python")
        if tools.params["compile_bytecode"]:
            report(f"compiles the packages of environment {self.spec.name}")
            tools.run(python, "-I", "-c", COMPILE, user=owner)
        report(f"checks environment {self.spec.name}")
        imported, found = PROBED[self.spec.framework]
        if self.accelerator != "tpu":
            found = ""
        version = tools.run(python, "-I", "-c", PROBE, imported, found, user=owner).strip()
        if not re.fullmatch(r"\d+(\.\d+)+", version):
            raise Failed(f"{python} does not report its version.")
        packages = acting(owner, lambda: packages_in(folder))
        wrong = unmet(self.spec, self.accelerator, version, packages)
        if wrong:
            raise Failed("The installed packages differ from those asked for: " + "; ".join(wrong))
        acting(owner, lambda: folder.chmod(0o755))
        return {"python": version, "packages": packages, "interpreter": interpreter}

    def _install(
        self,
        folder: Path,
        owner: pwd.struct_passwd,
        lines: Sequence[str],
        *,
        from_torch: bool = False,
        hashes: bool = True,
    ) -> None:
        """Install exactly what a lock contains."""
        if not lines:
            return
        tools = self.tools if hashes else self.index
        # Copied, because hard links to the cache would let the owner change other users' files.
        mode = "hardlink" if owner.pw_uid == 0 or owner.pw_name == BUILDER else "copy"
        told = ["--quiet", "--no-deps", "--link-mode", mode, "--python", f"{folder}/bin/python"]
        if hashes:
            told.append("--require-hashes")

        def install(tools: Tools, *told: str) -> None:
            more = dict(self.more)
            if from_torch:
                more.update(UV_DEFAULT_INDEX=tools.torch_index, UV_INDEX="")
            with tempfile.TemporaryDirectory(prefix="tpu-fleet-lock-") as name:
                _open_for(Path(name), owner)
                wanted = Path(name, "lock.txt")
                wanted.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                argv = ("pip", "install", *told, "--requirements", str(wanted))
                try:
                    tools.run(tools.uv, *argv, user=owner, more=more)
                except Failed as error:
                    if not lacks_version(str(error)):
                        raise
                    # It was resolved there: of an index's servers, one may be behind the others.
                    time.sleep(FIRST_PAUSE)
                    tools.run(tools.uv, *argv, "--refresh", user=owner, more=more)

        if tools is not self.index:
            try:
                tools.patiently(lambda: install(tools, *told, "--no-build"))
                return
            except Failed as error:
                if not must_be_built(str(error)):
                    raise
        # What a build downloads has no hash.
        self.index.patiently(lambda: install(self.index, *told))


def _lock_of_root(folder: Path) -> None:
    """Have only root open the lock of a folder of Pythons, into which all users look."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = folder / ".lock"
    with contextlib.suppress(FileNotFoundError):
        if lock.lstat().st_mode & 0o077:
            lock.unlink()
    lock.touch(mode=0o600)


def _open_for(folder: Path, owner: pwd.struct_passwd) -> None:
    """Let only an owner read the contents of a folder that belongs to root."""
    os.chown(folder, -1, owner.pw_gid)
    folder.chmod(0o750)


def _begin(folder: Path, owner: pwd.struct_passwd) -> None:
    """As the keeper: create the empty folder of a build."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(folder):
        # Left by an interrupted build.
        shutil.rmtree(folder)
    # uv locks a file in it, so others enter it only when it is built.
    folder.mkdir(mode=0o700)
    (folder / BUILDING).touch()
    if owner.pw_uid != os.geteuid():
        os.chown(folder, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def _load_at_start(folder: Path, library: str) -> None:
    """As the owner: make an environment load its Python's library, which is not on the path."""
    for packages in folder.glob("lib/python3*/site-packages"):
        text = f"import ctypes; ctypes.CDLL({library!r})\n"
        (packages / "tpu_fleet_libpython.pth").write_text(text, encoding="utf-8")


# Includes in a requirements file that are files of this host.
INCLUDED = re.compile(r"(\s*(?:-[rc]|--requirements?|--constraints?)[\s=]+)(\S+)")


def included(line: str) -> str:
    """Return the file that a line of a requirements file includes; empty if it does not."""
    match = INCLUDED.match(line)
    return match[2] if match and "://" not in match[2] else ""


def _copies_of(files: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Return the path of each file's copy."""
    return {path: folder / f"requirements-{number}.txt" for number, path in enumerate(files)}


def of_originals(text: str, files: Mapping[str, str], folder: Path) -> str:
    """Name the files themselves in a message about their copies."""
    for path, copy in _copies_of(files, folder).items():
        text = text.replace(str(copy), path)
    return text


def copies(files: Mapping[str, str], folder: Path) -> str:
    """Write a requirements file and its includes as they were read; return its path."""
    copied = _copies_of(files, folder)
    for path, text in files.items():
        lines = []
        for line in text.splitlines():
            inner = included(line)
            there = os.path.normpath(Path(path).parent / inner) if inner else ""
            match = INCLUDED.match(line)
            if match and there in copied:
                lines.append(f"{match[1]}{copied[there]}")
            else:
                lines.append(line)
        copy = "".join(f"{line}\n" for line in lines)
        copied[path].write_text(copy, encoding="utf-8", errors="surrogateescape")
    return str(next(iter(copied.values())))


def packages_in(folder: Path) -> dict[str, str]:
    """Return the packages that are installed in an environment, without starting its Python."""
    found: dict[str, str] = {}
    for site in sorted(folder.glob("lib/python3*/site-packages")):
        found.update(installed_packages(entry.name for entry in site.iterdir()))
    return found


def uses(folder: str) -> bool:
    """Return whether a process uses a folder, or may: there can be too many to look at."""
    try:
        return is_mentioned(folder)
    except TooMuchError:
        return True


def target_of(path: Path) -> str | None:
    """Return a link's target; None if the path is not a link."""
    return link_target(path) if path.is_symlink() else None


def switch(path: Path, build: Path) -> None:
    """As the keeper: point the link to the build, atomically."""
    if target_of(path) == str(build):
        return
    trial = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        trial.unlink()
    trial.symlink_to(build)
    trial.replace(path)


# Root's records of builds


def _record_of(build: str) -> Path:
    return RECORDS / "builds" / f"{hashlib.sha256(build.encode()).hexdigest()[:24]}.json"


def note_build(stamp: Mapping[str, Any]) -> None:
    """Record a build, or that it is in use again."""
    record = _record_of(stamp["build"])
    record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomically(record, as_json(stamp))


def forget_build(build: str) -> None:
    """Remove the record of a build."""
    with contextlib.suppress(FileNotFoundError):
        _record_of(build).unlink()


def builds_of(path: str) -> list[dict[str, Any]]:
    """Return the recorded builds of an environment, the last used first."""
    found = []
    for record in (RECORDS / "builds").glob("*.json"):
        stamp = json.loads(read_text(record) or "{}")
        if stamp.get("path") == path:
            found.append((record.stat().st_mtime_ns, stamp))
    return [stamp for _used, stamp in sorted(found, key=lambda one: one[0], reverse=True)]


def is_whole(folder: Path) -> bool:
    """As the owner: return whether a build still has its Python, which an upgrade may remove."""
    return (folder / "bin" / "python").exists()


def prune(site: Site, present: str | None, keep: int) -> list[str]:
    """Remove builds that are neither kept nor used; return the removed ones."""
    known = [stamp["build"] for stamp in builds_of(str(site.path))]
    before = [build for build in known if build != present]
    all_known = {
        str(json.loads(read_text(record) or "{}").get("build"))
        for record in (RECORDS / "builds").glob("*.json")
    }
    left = acting(site.keeper, lambda: _left_over(site.path, all_known))
    removed = []
    for build in [*before[keep:], *left]:
        if not uses(f"{build}/"):
            _remove(site, build)
            removed.append(build)
    return removed


def _remove(site: Site, build: str) -> None:
    acting(site.keeper, lambda: shutil.rmtree(build, ignore_errors=True), TREE_SECONDS)
    forget_build(build)


def discard(site: Site, build: Path) -> None:
    """Remove the files of a failed build."""
    _remove(site, str(build))


def _left_over(path: Path, known: Collection[str]) -> list[str]:
    """As the keeper: return interrupted builds."""
    name = re.compile(rf"\.{re.escape(path.name)}-[0-9a-f]{{12}}(-\d+)?")
    return sorted(
        str(folder)
        for folder in path.parent.glob(f".{path.name}-*")
        if name.fullmatch(folder.name) and str(folder) not in known and (folder / BUILDING).exists()
    )
