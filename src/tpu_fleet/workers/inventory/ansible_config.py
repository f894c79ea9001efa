"""Find Ansible's inventory without starting Ansible, which takes a second."""

from __future__ import annotations

import configparser
import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_VARIABLES = ("group_vars", "host_vars")


def inventory_sources(environment: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return the sources from which Ansible reads its inventory in a folder."""
    told = environment.get("ANSIBLE_INVENTORY")
    base = folder
    if not told:
        config = _config_file(environment, folder)
        parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
        if config:
            parser.read(config)
            base = config.parent
        told = parser.get("defaults", "inventory", fallback="/etc/ansible/hosts")
    return tuple(
        os.path.realpath(base / Path(os.path.expandvars(source.strip())).expanduser())
        for source in told.split(",")
        if source.strip()
    )


def state_of(environment: Mapping[str, str], sources: Sequence[str]) -> Path:
    """Return the folder for what is known of the fleet that these sources identify."""
    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:12]
    state = environment.get("TPU_FLEET_STATE_DIR") or "~/.local/state/tpu-fleet"
    return Path(state).expanduser() / "watch" / digest


def stamp_of(sources: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """Return what changes with each change of a file in which a fleet is declared; it reads none.

    Those are the files of the sources, and the folders with variables beside them.
    """
    found = []
    for source in map(Path, sources):
        beside = [] if source.is_dir() else [source.parent / name for name in _VARIABLES]
        for file in (file for place in (source, *beside) for file in _files(place)):
            with contextlib.suppress(OSError):
                seen = os.stat(file)  # noqa: PTH116 - of a path as text
                times = (seen.st_mtime_ns, seen.st_ctime_ns)
                found.append((file, seen.st_ino, seen.st_size, *times))
    return found


def _files(place: Path) -> Iterator[str]:
    """Yield a file, or all below a folder, as Ansible reads them: also where links lead."""
    if not place.is_dir():
        yield str(place)
    met = set()
    for folder, folders, names in os.walk(place, followlinks=True):
        # A link may lead back to where it is.
        if os.path.realpath(folder) in met:
            folders.clear()
            continue
        met.add(os.path.realpath(folder))
        folders.sort()
        yield from (f"{folder}/{name}" for name in sorted(names))


def without_fleet(environment: Mapping[str, str], folder: Path) -> str:
    """Return what is missing if Ansible would find no inventory; empty if it finds one."""
    sources = inventory_sources(environment, folder)
    if any(map(os.path.exists, sources)):
        return ""
    return (
        f"There is no fleet here: {', '.join(sources)} does not exist. Go to the folder of your"
        " fleet, or name its inventory in ANSIBLE_INVENTORY. `tpu-fleet init` creates a fleet."
    )


def _config_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    told = environment.get("ANSIBLE_CONFIG", "")
    first = [Path(told).expanduser()] if told else []
    if told and Path(told).is_dir():
        first = [Path(told) / "ansible.cfg"]
    places = [*first, folder / "ansible.cfg", Path("~/.ansible.cfg").expanduser()]
    return next(
        (place for place in (*places, Path("/etc/ansible/ansible.cfg")) if place.is_file()), None
    )
