"""What a worker's runs have been through: new events and curves.

Sent as the watcher's and the page's question. The only argument is the request, in JSON:

    {"framed": true, "places": {RUN: PLACE}}

A place is what the answer before had; the answer has what came after it. With "framed" the answer
is that of `run_reader` to "list", otherwise that of `standing`; each run has "past" in addition.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from tpu_fleet.on_worker.as_user import UserError, account_of, as_user
from tpu_fleet.on_worker.event_files import curves
from tpu_fleet.on_worker.log_files import files_of, size_of, sum_before
from tpu_fleet.on_worker.log_places import newest_part, resume
from tpu_fleet.on_worker.run_reader import BEGINNING, listing, send
from tpu_fleet.on_worker.runs import LOG_LEAST, RunFiles
from tpu_fleet.on_worker.standing import standing

AT_ONCE = 96 * 1024  # bytes of a run's event log, of which each may take three in an answer
ALTOGETHER = 600 * 1024  # bytes of an answer
SECONDS = 3.0  # for a look into the folders of a run's user
ENOUGH = 6.0  # seconds after which no other user's folders are looked into: a share may hang
TEXT = 300  # characters of a value
LARGEST = 1e300
NUMBERS = 10  # entries of an event's numbers
SHOWN = (
    "at", "attempt", "event", "boot_id", "exit_code", "signal", "cause", "first_step", "step",
    "numbers", "peer", "seconds", "what", "behind", "user", "by", "reason", "why", "how", "program",
    "failed_worker", "when", "said", "parts", "counts", "inside", "version",
)  # fmt: skip


def known(place: Any) -> tuple[str, int, int]:
    """Return a place in an event log; one that was never given out is the beginning."""
    if isinstance(place, list) and len(place) == 3:
        name, offset, summed = place
        if isinstance(name, str) and isinstance(offset, int) and isinstance(summed, int):
            return name, max(0, offset), summed
    return "", 0, 0


def events_after(log: Path, place: Any, most: int = LOG_LEAST) -> tuple[list[dict[str, Any]], Any]:
    """Return the events after a place, of the last bytes of a log, and the place after them."""
    try:
        files = files_of(log)
    except OSError:
        return [], place
    if not files:
        return [], place
    try:
        begin = resume(files, *known(place), first=newest_part(files, most))
        at, offset = begin.file, begin.offset
        # What a full file does not hold any more is in the next one.
        while at < len(files) - 1 and offset >= size_of(files[at]):
            at, offset = at + 1, 0
        data = os.pread(files[at].descriptor, AT_ONCE, offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == AT_ONCE:
            end = len(data)  # not a line of the agent's
        offset += end
        return events_in(data[:end]), [files[at].name, offset, sum_before(files[at], offset)]
    finally:
        for one in files:
            os.close(one.descriptor)


def events_in(data: bytes) -> list[dict[str, Any]]:
    """Return the events of whole lines."""
    found = []
    for line in data.split(b"\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            said = {name: bounded(event.get(name)) for name in SHOWN}
            found.append({name: value for name, value in said.items() if value is not None})
    return found


def bounded(value: Any, whole: bool = True) -> Any:
    """Return a value of an event as it may be sent: None for what the agent does not write.

    The run's user can have written anything, such as numbers of a thousand digits.
    """
    if isinstance(value, str):
        return value[:TEXT]
    if isinstance(value, (int, float)):
        return value if abs(value) < LARGEST else None
    if whole and isinstance(value, dict):
        some = [(key[:TEXT], bounded(one, False)) for key, one in list(value.items())[:NUMBERS]]
        return {key: one for key, one in some if one is not None}
    return None


def of_user(status: dict[str, Any], places: Any) -> dict[str, Any]:
    """Look into the folders of a run's user, with that user's rights."""
    account = account_of(str(status.get("user") or ""))
    if account is None or (os.geteuid() and os.geteuid() != account.pw_uid):
        return {}
    named = (str(status.get(key) or "") for key in ("checkpoint_dir", "workdir"))
    folders = [folder for folder in named if folder]
    try:
        return as_user(
            account, lambda: curves(folders, places), seconds=SECONDS, most_bytes=ALTOGETHER // 2
        )
    except (UserError, OSError):
        return {}


def past_of(files: RunFiles, run: str, place: Any, hurry: bool = False) -> dict[str, Any]:
    """Return what is new of a run; in a hurry, of its event log alone."""
    before = place if isinstance(place, dict) else {}
    log = files.logs / run / "events.jsonl"
    events, at = events_after(log, before.get("events"), files.log_limit(run))
    status = files.status(run)
    # One worker is enough for what all of them do together.
    asked = status.get("worker") == 0 and not hurry
    told = of_user(status, before.get("files")) if asked else {}
    return {
        "events": events,
        "curves": told.get("points") or {},
        "place": {"events": at, "files": told.get("places") or before.get("files") or {}},
    }


def main() -> int:
    """Print what the worker says now, and what its runs have been through."""
    order = json.loads(sys.argv[1])
    files = RunFiles()
    framed = bool(order.get("framed"))
    told = listing(files) if framed else standing()
    size, begun = 0, time.monotonic()
    # In any order: the runs of one user must not always be the first.
    for one in random.sample(told["runs"], len(told["runs"])):
        run = str(one.get("run"))
        hurry = time.monotonic() - begun > ENOUGH
        past = past_of(files, run, (order.get("places") or {}).get(run), hurry)
        length = len(json.dumps(past))
        # What does not fit is in the answer to a later question.
        if size + length <= ALTOGETHER:
            size += length
            one["past"] = past
    if framed:
        print(BEGINNING, flush=True)
        send({}, json.dumps(told).encode())
    else:
        print(json.dumps(told))
    return 0
