"""Build virtual environments with uv, with the rights of their owners. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ._host_state import read_text, write_atomically
from ._venvs import (
    VenvSpec,
    asked_lines,
    cuda_packages,
    installed_packages,
    is_away,
    netrc_line,
    pyproject,
    split_torch,
    torch_names,
    unmet,
)

T = TypeVar("T")
STAMP = ".tpu-fleet.json"
# In a folder while it is built, so that one that was interrupted is known for what it is.
BUILDING = ".tpu-fleet-building"
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIRST_PAUSE = 5.0
# For so long a shared cache may come up: all workers of a slice begin at the same time.
SHARED_SECONDS = 60.0
SHARED_PAUSE = 1.0
# Importing shows that the wheels fit this machine. It must never touch a chip that somebody uses,
# and torch_tpu loads libtpu when it is imported: PyTorch has to do for it.
PROBE = """
import importlib, importlib.util, json, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
for name in sys.argv[2].split():
    if not importlib.util.find_spec(name):
        raise ImportError(name + " is not there")
print(".".join(map(str, sys.version_info[:3])))
"""
PROBED = {
    "jax": ("jax", ""),
    "torch_xla": ("torch torch_xla", ""),
    "torch_tpu": ("torch", "torch_tpu"),
    "none": ("", ""),
}


class Failed(Exception):
    """A step did not succeed."""


class Tools:
    """Runs uv, and what brings it and Python, against the indexes of this host."""

    def __init__(self, params: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        self.params = params
        self.warn = warn
        self.folder = Path(params["uv_dir"]) / params["uv_version"]
        self.uv = str(self.folder / "bin" / "uv")
        self.netrc = ""
        self.shared = ""
        self.did: list[str] = []

    # What the tools see

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Have logins in files, and the shared cache looked for, while something is built."""
        with tempfile.TemporaryDirectory(prefix="tpu-fleet-") as folder:
            # Others may pass, not look: each user has a file of their own in it.
            Path(folder).chmod(0o711)
            self.netrc = folder if self.params["index_credentials"] else ""
            self.shared = self._reachable(self.params["shared_cache_url"])
            try:
                yield
            finally:
                self.netrc = ""

    def _reachable(self, url: str) -> str:
        """Give the address of the shared cache when it answers, or soon does."""
        if not url:
            return ""
        # The cache is on the internal network, where no proxy leads.
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
                        f"The shared package cache at {url} is away ({error}): "
                        "asking the index itself."
                    )
                    return ""
            time.sleep(SHARED_PAUSE)

    def _index(self, name: str, url: str) -> str:
        """Give the address of an index: in the cache, unless it needs a login."""
        private = {entry["host"] for entry in self.params["index_credentials"]}
        if not self.shared or (url and urlsplit(url).hostname in private):
            return url
        return f"{self.shared}/{name}/"

    @property
    def torch_index(self) -> str:
        """Give the address of PyTorch's own index."""
        url = str(self.params["torch_index_url"])
        return self._index("torch", url) if url else ""

    def _netrc_of(self, user: pwd.struct_passwd) -> str:
        path = Path(self.netrc) / str(user.pw_uid)
        if not path.exists():
            lines = [
                netrc_line(entry["host"], entry["username"], entry["password"])
                for entry in self.params["index_credentials"]
            ]
            write_atomically(path, "".join(lines), mode=0o600, uid=user.pw_uid, gid=user.pw_gid)
        return str(path)

    def environment(self, user: pwd.struct_passwd) -> dict[str, str]:
        """Say what uv, pip and Python are to see when they run as a user."""
        params = self.params
        cache = params["cache_dir"] if user.pw_uid == 0 else f"{user.pw_dir}/.cache/uv"
        seen = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PATH": SAFE_PATH,
            "HOME": user.pw_dir,
            "UV_CACHE_DIR": cache,
            "UV_PYTHON_INSTALL_DIR": params["python_dir"],
            "UV_PYTHON_PREFERENCE": "system",
            "UV_COMPILE_BYTECODE": "1" if params["compile_bytecode"] else "0",
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
            # uv takes them as they are; pip wants to be told.
            seen["PIP_TRUSTED_HOST"] = " ".join(sorted(plain))
        if self.shared:
            known = (os.environ.get("NO_PROXY", ""), str(urlsplit(self.shared).hostname))
            seen["NO_PROXY"] = seen["no_proxy"] = ",".join(filter(None, known))
        if self.netrc:
            seen["NETRC"] = self._netrc_of(user)
        # Of a list of own builds the cache knows nothing.
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
        """Run a command and give its output."""
        who = user or pwd.getpwuid(0)
        rights: list[str] = []
        if who.pw_uid != os.geteuid():
            rights = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--init-groups"]
        # run_command cannot take an environment that is complete, and no folder that is gone.
        # pylint: disable-next=ansible-bad-function
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [*rights, *argv],
            cwd="/",
            env={**self.environment(who), **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            told = (done.stderr or done.stdout).strip().splitlines()
            raise Failed(f"{' '.join(argv[:3])} … failed: " + "\n".join(told[-25:]))
        return done.stdout

    def patiently(self, action: Callable[[], T], source: str = "package index") -> T:
        """Do what needs a package index, or another source, which may be away for a while."""
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
                if tries >= self.params["tries"]:
                    waited = round(time.monotonic() - began)
                    raise Failed(
                        f"The {source} did not answer in {tries} tries and {waited} seconds. "
                        f"Try again when it is back, or name another. {error}"
                    ) from error
            time.sleep(pause)
            pause *= 2

    # Having them

    def have_uv(self) -> None:
        """Install uv when it is not there."""
        if Path(self.uv).exists():
            return

        # Aside, as the half of a program that an interruption leaves would be taken for it.
        new = self.folder.with_name(f"{self.folder.name}.new")

        def install() -> None:
            self.run("python3", "-m", "venv", "--clear", str(new))
            python = str(new / "bin" / "python")
            wanted = f"uv=={self.params['uv_version']}"
            self.run(python, "-m", "pip", "install", "--quiet", "--no-input", wanted)

        self.patiently(install)
        os.sync()
        shutil.rmtree(self.folder, ignore_errors=True)
        new.rename(self.folder)
        self.did.append(f"installed uv {self.params['uv_version']}")

    def find_python(self, wanted: str) -> str | None:
        """Find a Python of a version on this host."""
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
        """Find the wanted Python; get it when the system has none."""
        found = self.find_python(wanted)
        if found:
            return found
        source = self.params["python_source"]
        try:
            if source == "conda":
                self.patiently(lambda: self._conda(wanted), "channel of conda")
            elif source == "uv":
                argv = (self.uv, "python", "install", "--no-bin", wanted)
                self.patiently(lambda: self.run(*argv), "source of uv's builds of Python")
            found = self.find_python(wanted)
            if not found:
                raise Failed(f"{source} gave none.")
        except (Failed, OSError) as error:
            raise Failed(
                f"This host has no Python {wanted}, and {source} could not give it one. It has "
                f"{self._pythons() or 'none'}. Declare one of these; or name a mirror "
                "(python_env_python_mirror, python_env_python_list) or another source "
                f"(python_env_python_source). {error}"
            ) from error
        self.did.append(f"installed Python {wanted}")
        return found

    def _conda(self, wanted: str) -> None:
        folder = Path(self.params["python_dir"]) / f"conda-{wanted}"
        # What was interrupted is in the way of another try.
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

    def __init__(self, tools: Tools, spec: VenvSpec, accelerator: str, source: str) -> None:
        self.tools = tools
        self.spec = spec
        self.accelerator = accelerator
        # The requirements file itself, for what it includes.
        self.requirements = source
        self.more = dict(spec.environment)

    def resolve(self, owner: pwd.struct_passwd) -> str:
        """Decide on one version of everything, also of what is not pinned."""
        tools = self.tools
        interpreter = tools.interpreter(self.spec.python)
        names = torch_names(self.spec, self.accelerator) if tools.torch_index else []

        def compiled() -> str:
            with tempfile.TemporaryDirectory(prefix="tpu-fleet-lock-") as name:
                folder = Path(name)
                folder.chmod(0o755)
                # pip is part of every environment; people expect it.
                asked = "".join(f"{line}\n" for line in asked_lines(self.spec, self.accelerator))
                (folder / "asked.txt").write_text(f"{asked}pip\n", encoding="utf-8")
                arguments = [str(folder / "asked.txt")]
                if names:
                    text = pyproject(names, tools.torch_index)
                    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
                    arguments.append(str(folder / "pyproject.toml"))
                if self.requirements:
                    arguments.append(self.requirements)
                if self.spec.constraints:
                    text = "".join(f"{line}\n" for line in self.spec.constraints)
                    (folder / "constraints.txt").write_text(text, encoding="utf-8")
                    arguments += ["--constraints", str(folder / "constraints.txt")]
                told = ("--quiet", "--no-header", "--no-annotate", "--python", interpreter)
                return tools.run(
                    tools.uv, "pip", "compile", *told, *arguments, user=owner, more=self.more
                )

        lock = tools.patiently(compiled)
        cuda = cuda_packages(lock)
        if tools.torch_index and not names and any(line.startswith("nvidia-") for line in cuda):
            raise Failed(
                f"This would bring CUDA's PyTorch, {len(cuda)} packages for graphics cards. Name "
                "torch in packages, so that it comes from python_env_torch_index_url."
            )
        return lock

    def build(self, lock: str, folder: Path, owner: pwd.struct_passwd) -> dict[str, Any]:
        """Build the environment, check it, and say what is in it."""
        tools = self.tools
        interpreter = tools.interpreter(self.spec.python)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            # Left over from a build that was interrupted.
            shutil.rmtree(folder)
        folder.mkdir(mode=0o755)
        (folder / BUILDING).touch()
        os.chown(folder, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
        argv = ("venv", "--quiet", "--allow-existing", "--python", interpreter, str(folder))
        tools.run(tools.uv, *argv, user=owner)
        own, rest = split_torch(lock) if tools.torch_index else ([], [])
        if not own:
            rest = lock.splitlines()
        if own:
            # First, so that nothing finds PyTorch missing and gets the one with CUDA.
            self._install(folder, owner, "torch.txt", own, from_torch=True)
        if rest:
            self._install(folder, owner, "lock.txt", rest)
        python = str(folder / "bin" / "python")
        imported, found = PROBED[self.spec.framework]
        if self.accelerator != "tpu":
            found = ""
        version = tools.run(python, "-I", "-c", PROBE, imported, found, user=owner).strip()
        packages = packages_in(folder)
        wrong = unmet(self.spec, self.accelerator, version, packages)
        if wrong:
            raise Failed("What was installed is not what was asked for: " + "; ".join(wrong))
        return {"python": version, "packages": packages, "interpreter": interpreter}

    def _install(
        self,
        folder: Path,
        owner: pwd.struct_passwd,
        name: str,
        lines: Sequence[str],
        *,
        from_torch: bool = False,
    ) -> None:
        """Install what a lock says, and nothing that it does not."""
        tools = self.tools
        path = folder / name
        write_atomically(path, "".join(f"{line}\n" for line in lines))
        # Files shared with the cache would let the owner change what others install.
        mode = "hardlink" if owner.pw_uid == 0 else "copy"
        told = ("--quiet", "--no-deps", "--link-mode", mode, "--python", f"{folder}/bin/python")

        def install() -> None:
            more = dict(self.more)
            if from_torch:
                more.update(UV_DEFAULT_INDEX=tools.torch_index, UV_INDEX="")
            argv = ("pip", "install", *told, "--requirements", str(path))
            tools.run(tools.uv, *argv, user=owner, more=more)

        tools.patiently(install)


def packages_in(folder: Path) -> dict[str, str]:
    """Read what is installed in an environment, without starting its Python."""
    found: dict[str, str] = {}
    for site in sorted(folder.glob("lib/python3*/site-packages")):
        found.update(installed_packages(entry.name for entry in site.iterdir()))
    return found


def uses(folder: str) -> bool:
    """Tell whether a process uses a folder."""
    needle = folder.encode()
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("maps", "cmdline", "environ"):
            with contextlib.suppress(OSError):
                if needle in (process / name).read_bytes():
                    return True
    return False


def target_of(path: Path) -> str | None:
    """Say where a link leads; nothing for what is no link."""
    # Path.readlink is not in Python 3.8.
    return os.readlink(path) if path.is_symlink() else None  # noqa: PTH115


def switch(path: Path, build: Path) -> str | None:
    """Turn the link to the build in one step; give the build that it led to."""
    last = target_of(path)
    if last == str(build):
        return last
    trial = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        trial.unlink()
    trial.symlink_to(build)
    trial.replace(path)
    for used in (last, str(build)):
        # The order in which builds were in use says which ones are worth keeping.
        with contextlib.suppress(OSError):
            os.utime(Path(used or "") / STAMP)
    return last


def stamped(folder: Path) -> dict[str, Any]:
    """Read what a folder was built as; nothing for one that is no complete build."""
    try:
        stamp = json.loads(read_text(folder / STAMP) or "{}")
    except ValueError:
        return {}
    # A build without its Python is one whose system was upgraded below it.
    return stamp if isinstance(stamp, dict) and (folder / "bin" / "python").exists() else {}


def builds_of(path: Path) -> list[Path]:
    """List the builds of an environment, the last used first."""
    found = [folder for folder in path.parent.glob(f".{path.name}-*") if (folder / STAMP).exists()]
    return sorted(found, key=lambda folder: (folder / STAMP).stat().st_mtime_ns, reverse=True)


def prune(path: Path, present: str | None, keep: int) -> list[str]:
    """Remove builds that are neither kept nor used; give what was removed."""
    removed = []
    before = [folder for folder in builds_of(path) if str(folder) != present]
    broken = [
        folder
        for folder in path.parent.glob(f".{path.name}-*")
        if (folder / BUILDING).exists() and not (folder / STAMP).exists()
    ]
    for folder in [*before[keep:], *broken]:
        if not uses(f"{folder}/"):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(str(folder))
    return removed
