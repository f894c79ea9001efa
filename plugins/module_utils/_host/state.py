"""The host's record of what was applied: /var/lib/tpu-fleet/state.json. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import struct
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .locks import locked

STATE_DIR = "/var/lib/tpu-fleet"
# The venvs of the roles' own programs; each role removes its own.
VENVS_OF_ROLES = "/opt/tpu-fleet/venvs/"
LOCKS = "locks"
"""The folder of root's locks, in the state directory."""
SCHEMA = 1
# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = "hhqqi4x"


def boot_id() -> str:
    """Return the id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def read_text(path: str | Path) -> str | None:
    """Return the text of a file; None if it does not exist."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None


def locker(path: str) -> int | None:
    """Find the process that has locked a file, without taking the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
    finally:
        os.close(descriptor)
    kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else int(pid)


def wait_for_end(pid: int, seconds: float) -> bool:
    """Wait until a process ends, without looking again and again; return whether it did in time.

    Return False at once where kernel or Python (before 5.3 and 3.9) cannot wait for a stranger.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (OSError, AttributeError):
        return False
    try:
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(seconds * 1000))
    finally:
        os.close(process)


def write_atomically(
    path: str | Path,
    content: str | bytes,
    *,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
) -> None:
    """Replace a file so that a reader sees the old or the new one, even after a power cut."""
    target = Path(path)
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=str(target.parent))
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchown(stream.fileno(), uid, gid)
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(name).replace(target)
        sync_folder(target.parent)
    except OSError as error:
        # The error names the target file, and not the temporary one.
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error
    finally:
        # After the rename, the temporary file no longer exists.
        if name:
            with contextlib.suppress(OSError):
                Path(name).unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a power cut, if the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def as_json(data: Any) -> str:
    """Return JSON that people can read and that can be compared."""
    return json.dumps(data, indent=2, sort_keys=True) + "\n"


def load(state_dir: str | Path = STATE_DIR) -> dict[str, Any]:
    """Return the state; empty if the file is missing or broken."""
    try:
        state = json.loads(read_text(Path(state_dir) / "state.json") or "{}")
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def updated(
    state: dict[str, Any],
    section: str,
    facts: dict[str, Any],
    identity: dict[str, Any] | None,
    now: str,
) -> dict[str, Any]:
    """Return the new state; it is equal to the old one if nothing has changed."""
    applied = dict(state.get("applied") or {})
    before = {key: value for key, value in (applied.get(section) or {}).items() if key != "at"}
    if before != facts or section not in applied:
        applied[section] = {**facts, "at": now}
    return {**state, **(identity or {}), "schema": SCHEMA, "applied": applied}


def record(
    section: str,
    facts: dict[str, Any],
    *,
    identity: dict[str, Any] | None = None,
    state_dir: str | Path = STATE_DIR,
    dry: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Record what was applied; return the state before and after."""
    folder = Path(state_dir)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if dry:
        state = load(folder)
        return state, updated(state, section, facts, identity, now)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with locked(folder / LOCKS / "state"):
        state = load(folder)
        after = updated(state, section, facts, identity, now)
        if after != state:
            write_atomically(folder / "state.json", as_json(after))
    return state, after
