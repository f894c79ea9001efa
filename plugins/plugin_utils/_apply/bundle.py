# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle for hosts that apply their roles themselves, equal bytes for equal content."""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .._core.kept import kept

ROOT = Path(__file__).resolve().parents[3]
# The parts of the collection that a host needs; inventory and the controller's lookups stay here.
PARTS = (
    *("plugins/callback", "plugins/filter", "plugins/module_utils", "plugins/modules", "roles"),
    # What the filters of roles import.
    "plugins/plugin_utils/_roles",
)
ACTIONS = ("plugins/action/first_boot.py", "plugins/action/host_doctor.py")
# On the host, and only there, it is the action plugin of the modules without another one.
IN_PROCESS = "plugins/plugin_utils/_core/in_process.py"
RUNTIME = "meta/runtime.yml"
NAMES = (RUNTIME, "galaxy.yml")
# Left out of roles, because no run of a role needs it.
_LEFT_OUT = ("README.md", ".mypy_cache", "__pycache__", ".pytest_cache", ".ruff_cache")
_PACKAGE = "tpu_fleet_apply"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)

File = tuple[bytes, bool]
"""The content of a file, and whether it can be run."""


@functools.cache
def agent() -> bytes:
    """Return the agent as one file that Python can run."""
    folder = ROOT / "plugins" / "module_utils" / "_apply_agent"
    files = {f"{_PACKAGE}/{path.name}": path.read_bytes() for path in folder.glob("*.py")}
    # os._exit, because a thread may still wait for something that is no longer needed.
    start = f"import os\n\nfrom {_PACKAGE}.program import main\n\nos._exit(main())\n"
    files["__main__.py"] = start.encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return packed.getvalue()


# What a worker needs to take a version of a code tree, below module_utils.
SYNC_ROOMS = ("_sync", "_apply_agent", "_core", "_host", "_schema")
SYNC_ROLES = ("code_checkout", "git_access", "training_run")
SYNC_PACKAGE = "tpu_fleet_sync"


@functools.cache
def sync_program(root: Path = ROOT) -> bytes:
    """Return the worker's side of `tpu-fleet sync`, packed; a worker unpacks and keeps it."""
    house = root / "plugins" / "module_utils"
    rooms = [house / name for name in SYNC_ROOMS]
    rooms += [house / "_roles" / name for name in SYNC_ROLES]
    paths = [path for room in rooms for path in room.glob("*.py")]
    paths += (house / "_roles").glob("*.py")
    packed = io.BytesIO()
    # Not compressed, because its hash is needed each time, and its bytes only once.
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{SYNC_PACKAGE}/__init__.py", _LONG_AGO), b"")
        for path in sorted(paths):
            name = f"{SYNC_PACKAGE}/{path.relative_to(house).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), path.read_bytes())
    return packed.getvalue()


@functools.cache
def collection(root: Path = ROOT) -> bytes:
    """Return the collection as an archive that ANSIBLE_COLLECTIONS_PATH can name when unpacked."""
    files = {name: _read(f"{root}/{name}") for name in sorted(_files(root))}
    parts = [Path(__file__).read_bytes()]
    for name, (content, is_program) in files.items():
        parts += [f"{name} {is_program}".encode(), content]
    # To pack it takes a tenth of what a whole `site` does that finds nothing to do.
    return kept(f"collection {root}", parts, lambda: _packed(files))


def _read(path: str) -> File:
    """Return the content of a file, and whether it can be run."""
    # Unbuffered, because it is read at once.
    with open(path, "rb", buffering=0) as file:
        return file.read(), bool(os.fstat(file.fileno()).st_mode & 0o100)


def _packed(files: Mapping[str, File]) -> bytes:
    """Return an archive of these files."""
    packed = io.BytesIO()
    # Without times and owners, which differ between checkouts. Better compression would take twice
    # as long and save a twentieth of the size.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=4, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, (content, is_program) in files.items():
            if name == RUNTIME:
                content += _routes(files).encode()
            there = f"plugins/action/{Path(name).name}" if name == IN_PROCESS else name
            entry = tarfile.TarInfo(f"ansible_collections/tpu/fleet/{there}")
            entry.size = len(content)
            entry.mode = 0o755 if is_program else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _files(root: Path) -> Iterator[str]:
    """Yield the paths of the files, relative to the root."""
    for part in PARTS:
        for folder, folders, names in os.walk(root / part):
            folders[:] = set(folders).difference(_LEFT_OUT)
            inside = folder[len(f"{root}/") :]
            yield from (f"{inside}/{name}" for name in names if name not in _LEFT_OUT)
    beside = (*ACTIONS, IN_PROCESS, *NAMES)
    yield from (name for name in beside if (root / name).is_file())


def _routes(names: Iterable[str]) -> str:
    """Return meta/runtime.yml, which maps each module to the action plugin of its name."""
    modules = {Path(name).stem for name in names if Path(name).match("plugins/modules/*.py")}
    own = {Path(name).stem for name in ACTIONS}
    route = {"redirect": f"tpu.fleet.{Path(IN_PROCESS).stem}"}
    routes = dict.fromkeys(sorted(modules - own - {"__init__"}), route)
    return f"\nplugin_routing: {json.dumps({'action': routes})}\n"
