"""Kernel settings that machines need, restored when the last cloud is removed."""

from __future__ import annotations

from pathlib import Path

from .layout import SHARED_RUN, Layout, locked, read_json, write_json

# Every systemd takes several inotify instances, and all machines share root's.
WANTED = {
    "fs.inotify.max_user_instances": 8192,
    "fs.inotify.max_user_watches": 1048576,
    "net.ipv4.ip_forward": 1,
}
_SAVED = SHARED_RUN / "sysctl.json"
_LOCK = SHARED_RUN / "lock"


def raises(current: dict[str, int], wanted: dict[str, int]) -> dict[str, int]:
    """Return the settings that are too low, with the needed values."""
    return {name: value for name, value in wanted.items() if current.get(name, value) < value}


def _path(name: str) -> Path:
    return Path("/proc/sys") / name.replace(".", "/")


def apply() -> None:
    """Raise the settings that are too low, and record their old values."""
    with locked(_LOCK):
        current = {name: int(_path(name).read_text()) for name in WANTED}
        changes = raises(current, WANTED)
        if changes:
            saved = read_json(_SAVED) or {}
            write_json(_SAVED, {**{name: current[name] for name in changes}, **saved})
            for name, value in changes.items():
                _path(name).write_text(str(value))


def restore(layout: Layout) -> None:
    """Restore the settings, unless another cloud is up."""
    with locked(_LOCK):
        others = [p for p in SHARED_RUN.iterdir() if p.is_dir() and p != layout.run_dir]
        if not others:
            for name, value in (read_json(_SAVED) or {}).items():
                _path(name).write_text(str(value))
            _SAVED.unlink(missing_ok=True)
