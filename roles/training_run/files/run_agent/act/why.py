"""Print what this worker shows of a run, for `tpu-fleet why`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import evidence
from .definitions import load
from .hand import Hand

DEFINITIONS = Path("/etc/tpu-fleet/runs")


def main(words: list[str]) -> int:
    """Print the evidence of a run, and the text for people, as JSON on one line."""
    place = Path(words[1]) if len(words) > 1 else DEFINITIONS
    config = load(place / f"{words[0]}.json", secrets=False)
    hand = Hand(config.user)
    try:
        found = evidence.gather(config, hand)
    finally:
        hand.close()
    print(json.dumps({"evidence": found.evidence, "text": found.text}))
    sys.stdout.flush()
    return 0
