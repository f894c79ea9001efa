"""A newer Python for machines than their distribution has: this computer's own build of it.

Without it a machine downloads one, from a place that this computer may not reach.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .host import run

WANTED = "3.12"
# Where pyenv and uv keep their builds, below the home folder.
_FOLDERS = (
    ("PYENV_ROOT", ".pyenv", f"versions/{WANTED}.*"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", f"cpython-{WANTED}.*"),
)
_LEFT_OUT = ("test", "config-*", "idlelib", "lib2to3", "site-packages", "tkinter", "turtledemo")
_SAYS = "import ctypes, ssl, sys; print(*sys.version_info[:3], sep='.')"


@dataclass(frozen=True)
class Build:
    """A whole Python in a folder, which works at another place, too."""

    folder: Path
    version: str

    @property
    def key(self) -> str:
        """Return what the name of an image contains of it."""
        return f"{self.folder} {self.version}"

    def put_in(self, root: Path) -> None:
        """Copy it below /usr/local of a root file system.

        The program goes to sbin: there uv finds it, and Ansible does not, which needs the Python
        of the distribution, with the bindings of apt.
        """
        target = root / "usr/local"
        left_out = [f"--exclude=lib/python{WANTED}/{name}" for name in _LEFT_OUT]
        parts = [f"lib/python{WANTED}", f"include/python{WANTED}"]
        parts += [str(path.relative_to(self.folder)) for path in self._libraries()]
        pack = ["tar", "-C", str(self.folder), *left_out, "-c", *parts]
        unpack = ["tar", "-C", str(target), "--no-same-owner", "-x"]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packing:
            subprocess.run(unpack, stdin=packing.stdout, check=True)
        if packing.returncode:
            raise subprocess.CalledProcessError(packing.returncode, pack)
        program = self.folder / f"bin/python{WANTED}"
        run(["install", "-m", "755", str(program.resolve()), str(target / "sbin")])
        run(["ldconfig", "-r", str(root)])

    def _libraries(self) -> list[Path]:
        return sorted(self.folder.glob(f"lib/libpython{WANTED}.so*"))


def own_build(home: Path, variables: Mapping[str, str]) -> Build | None:
    """Return this computer's newest build, of pyenv or uv; None if it has none that works."""
    places = [(Path(variables.get(name) or home / own), match) for name, own, match in _FOLDERS]
    found = (Build(path, _version(path)) for at, match in places for path in at.glob(match))
    return _newest(build for build in found if build.version)


def _newest(builds: Iterable[Build]) -> Build | None:
    return max(builds, key=lambda one: [*map(int, one.version.split("."))], default=None)


def _version(folder: Path) -> str:
    """Return the version of the Python in a folder; empty if it does not run."""
    program = folder / f"bin/python{WANTED}"
    try:
        said = subprocess.run(
            [str(program), "-I", "-c", _SAYS],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
