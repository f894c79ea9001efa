"""Write plugins/module_utils/_roles/python_env/framework_rows.py: what goes with each framework.

`make frameworks` calls this. It reads the names and the metadata of all wheels in the index that
uv uses ($UV_DEFAULT_INDEX, else pip's own), by parts of files: nothing is installed.
"""

from __future__ import annotations

import io
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.uv_wheel import (
    usual_index,
)
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "plugins/module_utils/_roles/python_env/framework_rows.py"
# The package that has the wheels for each Python and processor, and the extra that brings libtpu.
PARTS = {
    "jax": ("jaxlib", "tpu"),
    "torch_xla": ("torch_xla", "tpu"),
    "torch_tpu": ("torch_tpu", ""),
}
PROCESSORS = ("aarch64", "x86_64")
# The minor versions of Python 3 that are looked for.
PYTHONS = range(8, 20)
HEAD = '''# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes with each release of a framework. Written by `make frameworks` from the index.

The columns are those of `frameworks.Release`.
"""

from __future__ import annotations

from typing import Any

'''


@dataclass
class Package:
    """The releases of a package: their wheels for Linux, and the text of their metadata."""

    wheels: dict[str, list[str]] = field(default_factory=dict)
    metadata: Callable[[str], str] = lambda _version: ""
    requires_python: dict[str, str] = field(default_factory=dict)

    def versions(self) -> list[str]:
        """Return the releases, the oldest first."""
        return sorted(self.wheels, key=Version)


Index = Callable[[str], Package]


class Ranges(io.RawIOBase):
    """A file at an address, read by parts; the server has to know ranges."""

    def __init__(self, url: str) -> None:
        self._url, self._at, self._session = url, 0, requests.Session()
        self._size = int(self._part(0, 0).headers["Content-Range"].rpartition("/")[2])

    def _part(self, first: int, last: int) -> requests.Response:
        wanted = {"Range": f"bytes={first}-{last}"}
        answer = self._session.get(self._url, headers=wanted, timeout=60)
        answer.raise_for_status()
        if answer.status_code != requests.codes.partial:
            raise SystemExit(f"{self._url}: the index does not send parts of files")
        return answer

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file."""
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def tell(self) -> int:
        """Return the place in the file."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read what fits into the buffer."""
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        data = self._part(self._at, end - 1).content
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def metadata_of(url: str) -> str:
    """Return the METADATA of a wheel."""
    with zipfile.ZipFile(io.BufferedReader(Ranges(url), 1 << 16)) as wheel:
        name = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
        return wheel.read(name).decode()


def package(name: str) -> Package:
    """Return a package of the index, without yanked and preliminary releases."""
    index = (os.environ.get("UV_DEFAULT_INDEX") or usual_index()).rstrip("/")
    page = f"{index}/{name.replace('_', '-')}/"
    wanted = {"Accept": "application/vnd.pypi.simple.v1+json"}
    answer = requests.get(page, headers=wanted, timeout=60)
    answer.raise_for_status()
    found, places = Package(), {}
    for file in answer.json()["files"]:
        words = file["filename"].removesuffix(".whl").split("-")
        if not _is_taken(file) or Version(words[1]).is_prerelease:
            continue
        found.wheels.setdefault(words[1], []).append(file["filename"])
        found.requires_python[words[1]] = file.get("requires-python") or ""
        places.setdefault(words[1], urljoin(page, file["url"].partition("#")[0]))
    found.metadata = lambda version: metadata_of(places[version])
    return found


def _is_taken(file: Mapping[str, Any]) -> bool:
    """Return whether a file is a wheel for Linux that was not taken back."""
    name = file["filename"]
    fits = re.search(r"-(manylinux\w*_(x86_64|aarch64)[.\w]*|any)[.]whl$", name)
    return bool(fits) and not file.get("yanked")


def tags(wheels: Iterable[str]) -> tuple[set[int], set[str]]:
    """Return the minor versions of Python 3 and the processors that wheels are for."""
    pythons: set[int] = set()
    processors: set[str] = set()
    for wheel in wheels:
        python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]
        own = re.fullmatch(r"cp3(\d+)", python)
        if own and abi == python:
            pythons.add(int(own[1]))
        elif abi == "none":
            pythons.update(PYTHONS)
        else:
            continue  # without the global lock, for example
        processors.update(one for one in PROCESSORS if platform == "any" or one in platform)
    return pythons, processors


def requirements(metadata: str, extra: str) -> dict[str, SpecifierSet]:
    """Return the versions that a wheel requires, with one of its extras."""
    lines = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    found: dict[str, SpecifierSet] = {}
    for wanted in map(Requirement, lines):
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            name = wanted.name.lower().replace("-", "_")
            found[name] = found.get(name, SpecifierSet()) & wanted.specifier
    return found


def ends(wanted: SpecifierSet) -> tuple[str, str]:
    """Return the lowest and the highest version of a requirement; empty where it has none."""
    exact = [one.version.removesuffix(".*") for one in wanted if one.operator == "=="]
    least = [one.version for one in wanted if one.operator == ">="]
    most = [one.version for one in wanted if one.operator == "<="]
    return ((exact or least or [""])[0], (exact or most or [""])[0])


def newest(versions: Iterable[str], wanted: SpecifierSet) -> str:
    """Return the newest version that fits; empty if none does."""
    return max((one for one in versions if wanted.contains(one)), key=Version, default="")


def torch_of(framework: str, version: str, wanted: SpecifierSet, index: Index) -> tuple[str, str]:
    """Return the lowest and the highest PyTorch.

    torch_xla does not name it: it loads only with the one of its minor version that it was built
    with, the newest that is not newer than itself.
    """
    if framework == "torch_xla":
        minor = ".".join(version.split(".")[:2])
        built = newest(index("torch").versions(), SpecifierSet(f"=={minor}.*,<={version}"))
        return (built, built)
    return ends(wanted)


def row(framework: str, version: str, index: Index) -> tuple[Any, ...] | None:
    """Return the row of a release; None if its libtpu is not in the index."""
    part, extra = PARTS[framework]
    own = index(framework)
    wanted = requirements(own.metadata(version), extra)
    if "libtpu" not in wanted or "libtpu_nightly" in wanted:
        return None
    body = version if part == framework else newest(index(part).versions(), wanted[part])
    chips = index("libtpu").wheels
    fitting = [wheel for one in wanted["libtpu"].filter(chips) for wheel in chips[one]]
    if not body or not fitting:
        return None
    pythons, processors = tags(index(part).wheels[body])
    chip_pythons, chip_processors = tags(fitting)
    allowed = SpecifierSet(own.requires_python[version])
    minors = [n for n in sorted(pythons & chip_pythons) if allowed.contains(f"3.{n}")]
    torch = torch_of(framework, version, wanted.get("torch", SpecifierSet()), index)
    return (
        version,
        (minors[0], minors[-1]),
        ends(wanted["libtpu"]),
        torch,
        tuple(sorted(processors)),
        tuple(sorted(processors & chip_processors)),
    )


def text(index: Index) -> str:
    """Write the whole file."""
    lines = ["ROWS: dict[str, tuple[tuple[Any, ...], ...]] = {\n"]
    for framework in PARTS:
        rows = [row(framework, version, index) for version in index(framework).versions()]
        lines.append(f'    "{framework}": (\n')
        lines += [f"        {written(one)},\n" for one in rows if one]
        lines.append("    ),\n")
    return "".join([HEAD, *lines, "}\n"])


def written(value: Any) -> str:
    """Write a value as ruff formats it."""
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(written, value))}{comma})"
    return f'"{value}"' if isinstance(value, str) else str(value)


def remembered(index: Index) -> Index:
    """Return an index that is asked once for each package."""
    known: dict[str, Package] = {}

    def ask(name: str) -> Package:
        if name not in known:
            known[name] = index(name)
        return known[name]

    return ask


if __name__ == "__main__":
    TARGET.write_text(text(remembered(package)), encoding="utf-8")
    sys.stdout.write(f"{TARGET.relative_to(ROOT)}\n")
