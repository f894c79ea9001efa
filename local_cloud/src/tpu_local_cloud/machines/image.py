"""The machines' base image: Ubuntu if images can be pulled, otherwise Debian by mmdebstrap.

It has two layers in a cache that all clouds of this computer share: a tar file with the
distribution's packages, which takes a minute, and the unpacked root file system with our files and
perhaps this computer's Python, which takes seconds. Both are named after a hash of their sources.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .base import MachineError
from .engine import Engine
from .host import HostFacts, Progress, run
from .inherit import apt_files, authorities, environment, own_sources, settings_files
from .layout import IMAGE_CACHE, locked
from .pythons import Build, own_build

GUEST = Path(__file__).parent / "guest"
# A short name: the engine's configuration decides which registry it means.
UBUNTU = "ubuntu:22.04"
# Packages to boot and reach a machine, and those of an Ubuntu server image, from its metapackages
# ubuntu-server and ubuntu-standard.
PACKAGES = (
    *("byobu", "ca-certificates", "curl", "dbus", "hostname", "htop", "iproute2", "iptables"),
    *("iputils-ping", "kmod", "less", "libnss-myhostname", "libpam-systemd", "lsof", "netbase"),
    *("nftables", "openssh-server", "procps", "python3", "python3-apt", "rsync", "sudo"),
    *("systemd", "systemd-sysv", "tmux", "tzdata", "udev"),
)
_SLIM = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
# With file capabilities, because ping would otherwise need root.
_TAR = ("--numeric-owner", "--xattrs", "--xattrs-include=*")


@dataclass(frozen=True)
class Base:
    """Where the distribution's packages come from."""

    kind: str
    """`debian` (this computer's own package sources) or `pull` (an image reference)."""
    source: str
    """The release's code name, or the reference."""
    packages: tuple[str, ...] = PACKAGES

    @property
    def key(self) -> str:
        """Return the name of the base's tar file."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def tar(self) -> Path:
        """Return the base's tar file."""
        return IMAGE_CACHE / "bases" / f"{self.key}.tar"


def candidates(wanted: str, facts: HostFacts) -> list[Base]:
    """Return the bases to try for an `--image` option, best first."""
    ubuntu = Base("pull", UBUNTU)
    own = [Base("debian", facts.codename)] if facts.family == "debian" and facts.codename else []
    if wanted == "ubuntu":
        return [ubuntu]
    if wanted == "debian":
        return own
    if wanted != "auto":
        return [Base("pull", wanted)]
    return [ubuntu, *own]


def _guest_files() -> dict[str, bytes]:
    """Return our own files, by their path in the machine."""
    files = {}
    for path in sorted((GUEST / "files").rglob("*")):
        if path.is_file():
            files[str(path.relative_to(GUEST / "files"))] = path.read_bytes()
    for path in sorted(GUEST.glob("*.py")):
        files[f"usr/local/lib/tpu-vm/guest/{path.name}"] = path.read_bytes()
    return files


def _additions() -> dict[str, bytes]:
    own = authorities()
    files = _guest_files()
    for name, data in own.items():
        files[f"usr/local/share/ca-certificates/{name}"] = data
    for name, text in settings_files(environment(bool(own), os.environ)).items():
        files[name] = text.encode()
    return files


def _python_for(base: Base) -> Build | None:
    """Return the Python that machines get beside their own: only for this computer's release."""
    return own_build(Path.home(), os.environ) if base.kind == "debian" else None


def _image_key(base: Base, additions: Mapping[str, bytes], python: Build | None) -> str:
    digest = hashlib.sha256(f"{base.key} {_TAR} {python.key if python else ''}".encode())
    digest.update((GUEST / "customise.sh").read_bytes())
    for name, data in sorted(additions.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    return digest.hexdigest()[:12]


class Images:
    """Builds images, and records which cloud uses which."""

    def __init__(self, engine: Engine, facts: HostFacts, progress: Progress) -> None:
        self._engine = engine
        self._facts = facts
        self._progress = progress

    def ensure(self, wanted: str, user: str, home: Path) -> Path:
        """Return the root file system for an `--image` option, created now if there is none.

        It is kept at least as long as its user's directory `home` exists.
        """
        with locked(IMAGE_CACHE / "lock"):
            base = self._base(candidates(wanted, self._facts), wanted)
            additions = _additions()
            python = _python_for(base)
            image = IMAGE_CACHE / "images" / _image_key(base, additions, python)
            closed(image.parent)
            if not (image / "complete").exists():
                self._progress("Unpacking the image and putting the guest agent in")
                self._customise(base, image, additions, python)
            for other in image.parent.glob("*"):
                if other != image and not live_users(other.glob("users/*")):
                    shutil.rmtree(other)
            (image / "users").mkdir(exist_ok=True)
            (image / "users" / user).write_text(str(home))
            return image / "rootfs"

    def _base(self, choice: list[Base], wanted: str) -> Base:
        for base in choice:
            if base.tar.exists():
                return base
        reasons = []
        for base in choice:
            base.tar.parent.mkdir(parents=True, exist_ok=True)
            try:
                if base.kind == "pull":
                    self._pull(base)
                else:
                    self._bootstrap(base)
            except MachineError as error:
                reasons.append(f"{base.source}: {error}")
                if base is not choice[-1]:
                    self._progress(
                        f"{base.source} is not available here; using {choice[-1].source}"
                    )
            else:
                return base
        raise MachineError(
            f"no base image for --image {wanted}. "
            + (" ".join(reasons) or "This computer has no Debian package sources.")
        )

    def _pull(self, base: Base) -> None:
        self._progress(f"Pulling the base image {base.source}")
        pulled = self._engine.podman("pull", "--quiet", base.source, timeout=300).split()[-1]
        with tempfile.TemporaryDirectory(dir=base.tar.parent) as scratch:
            root = Path(scratch) / "rootfs"
            root.mkdir()
            name = f"base-{base.key}"
            self._engine.podman("create", f"--name={name}", "--network=none", pulled, "true")
            archive = Path(scratch) / "image.tar"
            self._engine.podman("export", "--output", str(archive), name)
            self._engine.podman("rm", name)
            self._engine.podman("rmi", "--force", pulled)
            run(["tar", *_TAR, "-C", str(root), "-xpf", str(archive)])
            archive.unlink()
            for file, data in authorities().items():
                path = root / "usr/local/share/ca-certificates" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self._progress("Installing systemd, sshd and Python in it (about a minute)")
            excludes = "".join(f"path-exclude={pattern}\n" for pattern in _SLIM)
            (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(excludes)
            script = (
                "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && "
                f"apt-get install -qq --no-install-recommends {' '.join(base.packages)} && "
                "apt-get clean"
            )
            flags = ["--rm", "--network=host", "--no-hosts", "--security-opt=seccomp=unconfined"]
            self._engine.podman(
                "run", *flags, "--rootfs", str(root), "sh", "-c", script, timeout=900
            )
            _pack(root, base.tar)

    def _bootstrap(self, base: Base) -> None:
        if shutil.which("mmdebstrap") is None:
            raise MachineError("mmdebstrap is not installed")
        self._progress(
            f"Making a Debian base image ({base.source}) from this computer's package sources: "
            "one to two minutes, only this once"
        )
        sources = own_sources(apt_files(), base.source)
        if not sources:
            raise MachineError(f"/etc/apt names no package source for {base.source}")
        with tempfile.TemporaryDirectory(dir=base.tar.parent) as scratch:
            files = []
            for name, text in sources.items():
                path = Path(scratch) / name
                path.write_text(text)
                files.append(str(path))
            target = Path(scratch) / "base.tar"
            excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in _SLIM]
            run(
                [
                    "mmdebstrap",
                    "--quiet",
                    "--variant=minbase",
                    "--mode=root",
                    f"--include={','.join(base.packages)}",
                    "--dpkgopt=force-unsafe-io",
                    *excludes,
                    base.source,
                    str(target),
                    *files,
                ],
                timeout=1200,
            )
            target.replace(base.tar)

    def _customise(
        self, base: Base, image: Path, additions: Mapping[str, bytes], python: Build | None
    ) -> None:
        shutil.rmtree(image, ignore_errors=True)
        root = image / "rootfs"
        root.mkdir(parents=True)
        run(["tar", *_TAR, "-C", str(root), "-xpf", str(base.tar), "--exclude=./dev/*"])
        for name, data in additions.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if python:
            python.put_in(root)
        customise(root, GUEST / "customise.sh")
        (image / "complete").touch()


def closed(folder: Path) -> None:
    """Make a folder that other users of the computer cannot enter: images have setuid programs."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


def customise(root: Path, source: Path) -> None:
    """Run a script of the guest inside a root file system."""
    script = root / "customise.sh"
    shutil.copyfile(source, script)
    run(
        ["chroot", str(root), "sh", "/customise.sh"],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
    )
    script.unlink()


def release(user: str, keep: bool) -> None:
    """Release a cloud's image; an unused one is removed, unless kept."""
    with locked(IMAGE_CACHE / "lock"):
        for mark in IMAGE_CACHE.glob(f"images/*/users/{user}"):
            mark.unlink()
        if keep:
            return
        images = list(IMAGE_CACHE.glob("images/*"))
        unused = [image for image in images if not live_users(image.glob("users/*"))]
        for image in unused:
            shutil.rmtree(image)
        if unused == images:
            for folder in ("bases", "kernels"):
                shutil.rmtree(IMAGE_CACHE / folder, ignore_errors=True)


def live_users(marks: Iterable[Path]) -> list[Path]:
    """Return the marks of clouds whose state directory still exists."""
    return [mark for mark in marks if Path(mark.read_text()).is_dir()]


def _pack(root: Path, target: Path) -> None:
    scratch = target.with_suffix(".part")
    run(["tar", *_TAR, "-C", str(root), "-cpf", str(scratch), "."])
    scratch.replace(target)
