# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core of hosts that reach no package index: its wheels, fetched once, and by us.

The same versions make the same bytes, whoever packs them.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..module_utils._core.errors import TpuError
from ..module_utils._host.pinned import ENGINES, requirements

# What is sent for each Python that a machine may have.
PINNED = {
    python: requirements(*ENGINES["3.11" if python == "3.11" else "3.12"])
    for python in ("3.11", "3.12", "3.13", "3.14")
}
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")

Fetch = Callable[[str, Path], None]


def wheels(folder: Path, fetch: Fetch | None = None) -> bytes:
    """Return all wheels as one archive; they are kept in a folder of this computer."""
    name = hashlib.sha256(repr((PINNED, PLATFORMS)).encode()).hexdigest()[:16]
    target = folder / f"wheels-{name}.tar"
    if not target.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as new:
            for python in PINNED:
                (fetch or _download)(python, Path(new))
            part = Path(new) / "packed"
            part.write_bytes(pack(sorted(Path(new).glob("*.whl"))))
            part.replace(target)
    return target.read_bytes()


def pack(paths: Sequence[Path]) -> bytes:
    """Pack files without times and owners; wheels are compressed already."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            entry = tarfile.TarInfo(path.name)
            content = path.read_bytes()
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _download(python: str, folder: Path) -> None:
    where = [word for name in PLATFORMS for word in ("--platform", name)]
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    argv += ["--only-binary", ":all:", "--python-version", python, *where, "--dest", str(folder)]
    pins = folder / f"pinned-{python}.txt"
    pins.write_text(PINNED[python], encoding="utf-8")
    # No module here could run it; the index is that of whoever runs Ansible.
    # pylint: disable-next=ansible-bad-function
    done = subprocess.run(
        [*argv, "--require-hashes", "--requirement", str(pins)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=False,
    )
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        told = " ".join(done.stderr.split())[-400:]
        raise TpuError(
            f"The packages of fleet_apply_environment: carried cannot be fetched here: {told}",
            remedy="Install pip beside Ansible, and see that this computer reaches an index.",
        )
