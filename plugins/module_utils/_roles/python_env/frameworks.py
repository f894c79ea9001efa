# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of frameworks, Python, libtpu and PyTorch fit together. No I/O.

Read from the wheels on PyPI (their names, Requires-Python and Requires-Dist) in November 2026. A
new release of a framework needs a row here; until then its predecessor's row applies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """One release, and what it needs. It applies to later ones, too, until the next row."""

    version: str
    # The first and the last minor version of Python with wheels.
    pythons: tuple[int, int]
    # The versions of libtpu for exactly this release; empty if they are not fixed.
    libtpu: str = ""
    # The lowest and the highest version of PyTorch.
    torch: tuple[str, str] = ("", "")


RELEASES: dict[str, tuple[Release, ...]] = {
    "jax": (
        # The first release whose libtpu is on PyPI.
        Release("0.4.36", (10, 13)),
        Release("0.5.3", (10, 13), libtpu="0.0.11"),
        Release("0.6.2", (10, 13), libtpu="0.0.17"),
        Release("0.7.0", (11, 13), libtpu="0.0.19"),
        Release("0.8.0", (11, 14), libtpu="0.0.24"),
        Release("0.9.0", (11, 14), libtpu="0.0.34"),
        Release("0.9.2", (11, 14), libtpu="0.0.37"),
        Release("0.10.0", (11, 14), libtpu="0.0.40"),
        Release("0.10.2", (11, 14), libtpu="0.0.42"),
        Release("0.11.0", (12, 14), libtpu="0.0.44"),
        Release("0.12.0.1", (12, 15), libtpu="0.0.50"),
    ),
    # Its metadata does not name PyTorch, but it loads only with the one that it was built with.
    "torch_xla": (
        Release("2.8.0", (10, 13), libtpu="0.0.17", torch=("2.8.0", "2.8.0")),
        Release("2.8.1", (10, 13), libtpu="0.0.17", torch=("2.8.0", "2.8.0")),
        Release("2.9.0", (10, 13), libtpu="0.0.21", torch=("2.9.0", "2.9.0")),
    ),
    "torch_tpu": (Release("0.2.0", (11, 14), torch=("2.11.0", "2.15.0")),),
}
FRAMEWORKS = (*RELEASES, "none")
# The defaults of the role python_env.
DEFAULT_PYTHON = "3.11"
# The minor versions of Python 3 that uv, deadsnakes or conda-forge provide.
PYTHONS = (8, 15)
DEFAULT_VERSIONS = {"jax": "0.10.2", "torch_xla": "2.9.0", "torch_tpu": "0.2.0"}
# The packages of PyTorch's own index, in builds for the CPU.
TORCH_FAMILY = ("torch", "torchvision", "torchaudio")
# libtpu's name before it was on PyPI; if both are installed, the later one wins.
GONE = "libtpu-nightly"


@dataclass(frozen=True)
class Misfit:
    """Two declared values that do not fit together."""

    key: str
    value: str
    message: str
    remedy: str


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key for a version, from its leading numbers."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def minor_of(python: str) -> int:
    """Return 11 for 3.11 and 3.11.2."""
    return int(python.split(".")[1])


def release_of(framework: str, version: str) -> Release | None:
    """Return the row that applies to a version; None if it is older than all rows."""
    found = None
    for release in RELEASES.get(framework, ()):
        if version_key(release.version) <= version_key(version):
            found = release
    return found


def torch_range(framework: str, version: str) -> tuple[str, str]:
    """Return the range of PyTorch for a framework; empty if any fits."""
    if framework not in ("torch_xla", "torch_tpu"):
        return ("", "")
    release = release_of(framework, version)
    if release is None:
        return ("", "")
    if framework == "torch_xla" and version_key(release.version) != version_key(version):
        return (version, version)
    return release.torch


def framework_lines(framework: str, version: str, torch: str, accelerator: str) -> list[str]:
    """Return the packages of a framework for this accelerator."""
    on_tpu = accelerator == "tpu"
    if framework == "none":
        return []
    if framework == "jax":
        return [f"jax{'[tpu]' if on_tpu else ''}=={version}"]
    least, most = torch_range(framework, version)
    wanted = torch or (least if least == most else "")
    first = f"torch=={wanted}" if wanted else f"torch>={least},<={most}" if least else "torch"
    if framework == "torch_xla":
        return [first, f"torch_xla{'[tpu]' if on_tpu else ''}=={version}"]
    return [first, f"torch_tpu=={version}"] if on_tpu else [first]


def misfits(
    framework: str, version: str, python: str, torch: str, pinned: Mapping[str, str]
) -> list[Misfit]:
    """Return what does not fit together; `pinned` are packages with exactly one version."""
    found = []
    if GONE in pinned:
        remedy = "Remove it: libtpu comes with the framework"
        found.append(Misfit("packages", GONE, "is the old name of libtpu, and hides it", remedy))
    if torch and framework != "torch_tpu":
        remedy = "Remove it, or add torch to packages"
        found.append(Misfit("torch_version", torch, "is for torch_tpu only", remedy))
    if framework == "none":
        return found
    release = release_of(framework, version)
    rows = RELEASES[framework]
    if release is None:
        remedy = f"Use {rows[0].version} or a newer one"
        message = f"is older than any {framework} known to get its libtpu from the index"
        return [*found, Misfit("framework_version", version, message, remedy)]
    least, most = release.pythons
    # A release that is newer than the table may have wheels for a newer Python.
    open_end = release is rows[-1] and version_key(version) > version_key(release.version)
    if minor_of(python) < least or (minor_of(python) > most and not open_end):
        others = [
            row.version for row in rows if row.pythons[0] <= minor_of(python) <= row.pythons[1]
        ]
        remedy = f"Declare python 3.{least} to 3.{most}"
        if others:
            remedy += f", or framework_version {others[-1]}"
        message = f"has no {framework} {version}"
        found.append(Misfit("python", python, message, remedy))
    lowest, highest = torch_range(framework, version)
    if lowest:
        span = lowest if lowest == highest else f"{lowest} to {highest}"
        key = "torch_version" if torch else "packages"
        value = torch or pinned.get("torch", "")
        number = version_key(value.split("+")[0])
        if value and not version_key(lowest) <= number <= version_key(highest):
            message = f"is a torch that does not go with {framework} {version}"
            found.append(Misfit(key, value, message, f"Use torch {span}"))
    libtpu = pinned.get("libtpu", "")
    if libtpu and wrong_libtpu(framework, version, {"libtpu": libtpu}):
        message = f"is a libtpu that {framework} {version} was not made for"
        remedy = f"Remove it: {framework} brings {release.libtpu}"
        found.append(Misfit("packages", libtpu, message, remedy))
    return found


def fits_libtpu(wanted: str, version: str) -> bool:
    """Return whether a version of libtpu is the wanted one or a patch of it (0.0.42.1)."""
    return version == wanted or version.startswith(f"{wanted}.")


def wrong_libtpu(framework: str, version: str, installed: Mapping[str, str]) -> str:
    """Return how the installed libtpu differs from the wanted one; empty if it fits."""
    release = release_of(framework, version)
    if release is None or not release.libtpu or "libtpu" not in installed:
        return ""
    if version_key(release.version) != version_key(version):
        return ""
    if fits_libtpu(release.libtpu, installed["libtpu"]):
        return ""
    return f"libtpu is {installed['libtpu']} instead of {release.libtpu}"
