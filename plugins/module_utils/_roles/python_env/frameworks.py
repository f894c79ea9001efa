# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of frameworks, Python, libtpu and PyTorch fit together. No I/O.

`make frameworks` writes the rows, from the index. A release that has no row is newer than this
table, or between two rows: what it needs is not known, so nothing is refused, and
`unknown_release` is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .framework_rows import ROWS


@dataclass(frozen=True)
class Release:
    """One release, and what it needs."""

    version: str
    # The first and the last minor version of Python 3 with wheels, of it and of its libtpu.
    pythons: tuple[int, int]
    # The lowest and the highest version of libtpu, of which any patch fits; empty if it is open.
    libtpu: tuple[str, str]
    # The lowest and the highest version of PyTorch.
    torch: tuple[str, str]
    # The processors with wheels, and those of machines with chips, for which libtpu has them too.
    processors: tuple[str, ...]
    tpu_processors: tuple[str, ...]


RELEASES: dict[str, tuple[Release, ...]] = {
    framework: tuple(Release(*row) for row in rows) for framework, rows in ROWS.items()
}
FRAMEWORKS = (*RELEASES, "none")
# The defaults of the role python_env.
DEFAULT_PYTHON = "3.12"
# The minor versions of Python 3 that uv, deadsnakes or conda-forge provide.
PYTHONS = (8, 15)
DEFAULT_VERSIONS = {"jax": "0.12.0.1", "torch_xla": "2.9.0", "torch_tpu": "0.2.0"}
# The first JAX whose processes show each other certificates; older ones ignore them.
OLDEST_WITH_MTLS = "0.11.2"
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
    """Return 12 for 3.12 and 3.12.1."""
    return int(python.split(".")[1])


def release_of(framework: str, version: str) -> Release | None:
    """Return the row of a version; None if it has none."""
    wanted = version_key(version)
    rows = RELEASES.get(framework, ())
    return next((row for row in rows if version_key(row.version) == wanted), None)


def unknown_release(framework: str, version: str) -> str:
    """Return a warning about a release without a row that may exist; empty if it has one."""
    rows = RELEASES.get(framework, ())
    if not rows or release_of(framework, version) or _is_older(rows, version):
        return ""
    newest = rows[-1].version
    place = "newer than" if version_key(version) > version_key(newest) else "not among"
    return f"is {place} the releases of {framework} that are known here, up to {newest}"


def _is_older(rows: tuple[Release, ...], version: str) -> bool:
    return version_key(version) < version_key(rows[0].version)


def torch_range(framework: str, version: str) -> tuple[str, str]:
    """Return the range of PyTorch for a framework; empty if any fits, or it is not known."""
    release = release_of(framework, version)
    if release is None and framework == "torch_xla":
        return (version, version)
    return release.torch if release else ("", "")


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
    release, rows = release_of(framework, version), RELEASES[framework]
    if release is None and _is_older(rows, version):
        remedy = f"Use {rows[0].version} or a newer one"
        message = f"is older than any {framework} that gets its libtpu from the index"
        return [*found, Misfit("framework_version", version, message, remedy)]
    if release and not release.pythons[0] <= minor_of(python) <= release.pythons[1]:
        found.append(_wrong_python(release, rows, framework, python))
    lowest, highest = release.torch if release else ("", "")
    if lowest:
        key = "torch_version" if torch else "packages"
        value = torch or pinned.get("torch", "")
        number = version_key(value.split("+")[0])
        if value and not version_key(lowest) <= number <= version_key(highest):
            message = f"is a torch that does not go with {framework} {version}"
            found.append(Misfit(key, value, message, f"Use torch {span((lowest, highest))}"))
    libtpu = pinned.get("libtpu", "")
    if libtpu and wrong_libtpu(framework, version, {"libtpu": libtpu}):
        message = f"is a libtpu that {framework} {version} was not made for"
        brought = span(release.libtpu) if release else ""
        found.append(
            Misfit("packages", libtpu, message, f"Remove it: {framework} brings {brought}")
        )
    return found


def _wrong_python(
    release: Release, rows: tuple[Release, ...], framework: str, python: str
) -> Misfit:
    """Return the misfit of a Python, with the newest release that has it."""
    least, most = release.pythons
    minor = minor_of(python)
    others = [row.version for row in rows if row.pythons[0] <= minor <= row.pythons[1]]
    remedy = f"Declare python 3.{least} to 3.{most}"
    if others:
        remedy += f", or framework_version {others[-1]}"
    return Misfit("python", python, f"has no {framework} {release.version}", remedy)


def span(ends: tuple[str, str]) -> str:
    """Return a range in words."""
    least, most = ends
    if least == most:
        return least
    return f"{least} to {most}" if most else f"{least} or newer"


def fits_libtpu(wanted: tuple[str, str], version: str) -> bool:
    """Return whether a version of libtpu is in a range, or a patch of its end (0.0.42.1)."""
    least, most = wanted
    key = version_key(version)
    return key >= version_key(least) and (
        not most or key <= version_key(most) or version.startswith(f"{most}.")
    )


def wrong_libtpu(framework: str, version: str, installed: Mapping[str, str]) -> str:
    """Return how the installed libtpu differs from the wanted one; empty if it fits."""
    release = release_of(framework, version)
    if release is None or "libtpu" not in installed:
        return ""
    if fits_libtpu(release.libtpu, installed["libtpu"]):
        return ""
    return f"libtpu is {installed['libtpu']} instead of {span(release.libtpu)}"


def no_wheels(framework: str, version: str, accelerator: str, processor: str) -> str:
    """Return why a release is not to be had for a machine; empty if it is, or is not known.

    `processor` is the machine's, as `platform.machine()` names it.
    """
    release = release_of(framework, version)
    if release is None:
        return ""
    on_tpu = accelerator == "tpu"
    having = release.tpu_processors if on_tpu else release.processors
    if processor in having or (framework == "torch_tpu" and not on_tpu):
        return ""
    has_own = on_tpu and processor in release.processors
    remedy = ", accelerator: cpu" if has_own else ""
    return (
        f"{framework} {version} has no {'libtpu' if has_own else 'wheels'} for {processor}, only "
        f"for {', '.join(having)}. Declare a newer framework_version{remedy} or another machine."
    )
