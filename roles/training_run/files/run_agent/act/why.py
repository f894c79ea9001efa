"""Send what this worker shows of a run to `tpu-fleet why`, in the pieces of a run's reader."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from ..decide import bounds
from . import evidence, hang
from .definitions import load
from .hand import Hand

BEGINNING = "tpu-fleet-run-reader"  # a login may print something before this
DEFINITIONS = Path("/etc/tpu-fleet/runs")
NOT_DECLARED = 3
"""The exit code where the worker has no such run."""
_PIECE = 1 << 18
_LIFE = 30  # seconds; no caller waits longer
_HAND_SECONDS = 3.0  # for an answer from the folders of the run's user


NOT_NOTED = 4
"""The exit code where the worker has no note of a hang of the run."""
NOTED = "--hang"


def main(words: list[str]) -> int:
    """Send the evidence of a run, and the text for people.

    `words` are its name and a folder, and NOTED for what was noted when it hung last.
    """
    signal.alarm(_LIFE)
    try:
        return _sent(words)
    finally:
        signal.alarm(0)


def _sent(words: list[str]) -> int:
    noted, words = NOTED in words, [word for word in words if word != NOTED]
    place = Path(words[1]) if len(words) > 1 else DEFINITIONS
    path = place / f"{words[0]}.json"
    if not path.is_file():
        print(f"it has no run {words[0]}", file=sys.stderr)
        return NOT_DECLARED
    config = load(path)
    hand = Hand(config.user, _HAND_SECONDS)
    try:
        found = hang.newest(config, hand) if noted else evidence.gather(config, hand)
    finally:
        hand.close()
    if found is None:
        print("no hang of it is noted", file=sys.stderr)
        return NOT_NOTED
    _send(found)
    return 0


def packed(found: evidence.Found) -> bytes:
    """Return all of it, within the bounds: a character of the text can take six bytes."""
    text = found.text
    while True:
        data = json.dumps({"evidence": found.evidence, "text": text}).encode("ascii")
        if len(data) <= bounds.ANSWER or not text:
            return data
        text = text[: len(text) // 2]


def _send(found: evidence.Found) -> None:
    data = packed(found)
    out = sys.stdout.buffer
    out.write(BEGINNING.encode() + b"\n")
    for at in range(0, len(data), _PIECE):
        part = data[at : at + _PIECE]
        out.write(json.dumps({"bytes": len(part)}).encode() + b"\n" + part)
    out.flush()
