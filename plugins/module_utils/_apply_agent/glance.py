# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer a request at once if nothing has changed since the last look.

Most requests find nothing to do, and most of their time is Python's: this file imports only what is
built into it. It compares, and decides nothing: whatever is not the same is left to `stamp`. A
changed file has another ctime, and so has a folder with another entry; no user can set that.
"""

from __future__ import annotations

import marshal
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    Facts = Optional[Tuple[int, ...]]
    # The rights to look with: uid, gid and groups; None is root.
    Rights = Optional[Tuple[int, int, Tuple[int, ...]]]

# As Place has it.
KEPT = "/var/lib/tpu-fleet/apply/glance"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NETWORK = ("nfs", "nfs4", "fuse.gcsfuse", "fuse")
UNITS = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager")
# Units that apply the roles or a sync, and exist only meanwhile.
_OURS = ("tpu-fleet-apply.", "tpu-fleet-venv@", "tpu-fleet-self-setup.", "tpu-fleet-sync-")
# A run's unit, and the file by which `tpu-fleet stop` keeps it stopped.
_RUN, STOPPED = "tpu-fleet-run@", "/var/lib/tpu-fleet/runs/{}/stopped.json"
_AT_REST = ("inactive", "deactivating")
# What a clock may differ from that of the file system.
_FRESH = 2_000_000_000
# Limits for the paths of one user, and for systemctl.
SECONDS = 10.0
_RUN_WORDS = (b'  "state": ', b'  "reason": ', b'  "boot_id": ')
# The request begins with a hash of all that matters of it.
_ASKS = b'"asks": "'


def facts_of(path: str) -> Facts:
    """Return what changes whenever a file or folder does; None if there is none."""
    try:
        there = os.lstat(path)
    except OSError:
        return None
    return (
        there.st_mode,
        there.st_uid,
        there.st_gid,
        there.st_dev,
        there.st_ino,
        there.st_size,
        there.st_ctime_ns,
    )


def text_of(path: str) -> str:
    """Return the first bytes of a file of the kernel."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, 1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)


def _whole(path: str) -> bytes:
    """Return a file of any length; empty if it cannot be read."""
    data = b""
    try:
        with open(path, "rb", 0) as stream:
            while part := stream.read(1 << 16):
                data += part
    except OSError:
        return b""
    return data


def run_words(path: str) -> bytes:
    """Return the lines of a run's status that say whether it runs; empty without a status.

    The agent writes each value of the status on a line of its own, indented by two spaces; other
    values, such as the step, change all the time.
    """
    return b"\n".join(line for line in _whole(path).splitlines() if line.startswith(_RUN_WORDS))


def mounted() -> List[List[str]]:
    """Return source, place, kind and options of each mount."""
    lines = _whole("/proc/self/mounts").decode("utf-8", "replace").splitlines()
    return [line.split(" ")[:4] for line in lines]


def mounts() -> Dict[str, str]:
    """Return the mounts that stay; others come and go with processes, logins and first uses."""
    found = {}
    for source, point, kind, options in mounted():
        if source.startswith("/dev/") or kind in NETWORK:
            writable = "ro" if "ro" in options.split(",") else "rw"
            found[point] = f"{source} {kind} {writable}"
    return found


def units(patterns: Sequence[str]) -> Dict[str, str]:
    """Return the state of each unit."""
    return states(_output([*UNITS, *patterns]))


def states(listed: str) -> Dict[str, str]:
    """Return the state of each unit from the output of systemctl list-units."""
    said = {}
    for line in listed.splitlines():
        words = line.split()
        # A unit whose file was removed stays listed while it is in the state failed.
        if len(words) >= 4 and words[1] != "not-found" and not words[0].startswith(_OURS):
            said[words[0]] = (words[1], words[2])
    found = {}
    for name, (loaded, active) in said.items():
        stem = name[: -len(".service")] if name.endswith(".service") else ""
        if stem and (f"{stem}.timer" in said or f"{stem}.socket" in said):
            # A service with a timer starts and ends with it; one with a socket, with connections.
            active = "failed" if active == "failed" else "at times"
        elif stem.startswith(_RUN):
            active = _of_run(stem[len(_RUN) :], active)
        found[name] = f"{loaded} {active}"
    return found


def _of_run(run: str, active: str) -> str:
    """Return the state of a run's unit, which a stop and a start by `tpu-fleet` leave as it is."""
    is_kept = facts_of(STOPPED.format(run)) is not None
    return "as wanted" if active in (_AT_REST if is_kept else ("active",)) else active


def _output(argv: Sequence[str]) -> str:
    reading, writing = os.pipe()
    try:
        # pylint: disable-next=ansible-bad-function
        child = os.posix_spawnp(
            argv[0],
            list(argv),
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            ],
        )
    except OSError:
        os.close(reading)
        os.close(writing)
        return ""
    os.close(writing)
    data = b""
    try:
        while select.select([reading], [], [], SECONDS)[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                return data.decode("utf-8", "replace")
            data += part
        os.kill(child, 9)
        return ""
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def keep(
    agent: str,
    asks: str,
    answer: bytes,
    paths: Sequence[Tuple[Rights, Dict[str, Facts]]],
    seen: Dict[str, Any],
    started_ns: int,
    kept: str = KEPT,
) -> None:
    """Keep an answer for the next time that the same is asked.

    `seen` has texts, runs, mounts and units as the look found them, which began at `started_ns`. A
    path that was changed about then may have been changed after the look: the next look keeps it.
    """
    times = [facts[-1] for _rights, found in paths for facts in found.values() if facts]
    if max(times, default=0) > started_ns - _FRESH:
        return
    data = {"agent": agent, "asks": asks, "answer": answer, "paths": list(paths), **seen}
    part = f"{kept}.{os.getpid()}"
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(file, "wb") as out:
        out.write(marshal.dumps(data))
    os.replace(part, kept)  # noqa: PTH105 - pathlib takes longer to import than all this


def answer(agent: str, request: bytes, kept: str = KEPT) -> bytes:
    """Return the answer to a request if it is the same as before; else nothing."""
    at = request.find(_ASKS, 0, 64)
    if at < 0:
        return b""
    at += len(_ASKS)
    try:
        with open(kept, "rb", 0) as stream:
            # Only root can write it. json takes longer to import than all this.
            known = marshal.loads(stream.readall())  # noqa: S302
        asked = request[at : at + 64].decode("ascii")
        if known["agent"] != agent or known["asks"] != asked or not _is_same(known):
            return b""
        found: bytes = known["answer"]
    except (OSError, ValueError, EOFError, TypeError, KeyError):
        return b""
    return found


def _is_same(known: Dict[str, Any]) -> bool:
    return (
        all(text_of(path) == text for path, text in known["texts"].items())
        and all(run_words(path) == words for path, words in known["runs"].items())
        and mounts() == known["mounts"]
        and all(_are_same(rights, found) for rights, found in known["paths"])
        and units(known["patterns"]) == known["units"]
    )


def _are_same(rights: Rights, found: Dict[str, Facts]) -> bool:
    if rights is None:
        return all(facts_of(path) == facts for path, facts in found.items())
    # A user's folder may hang: a process looks that can be left.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            uid, gid, groups = rights
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            if _are_same(None, found):
                os.write(writing, b"=")
        finally:
            os._exit(0)
    os.close(writing)
    try:
        if not select.select([reading], [], [], SECONDS)[0]:
            os.kill(child, 9)
            return False
        return os.read(reading, 2) == b"="
    finally:
        os.close(reading)
        os.waitpid(child, 0)
