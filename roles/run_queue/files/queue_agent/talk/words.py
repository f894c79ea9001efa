"""The words on the wire between the queue agents of a slice: whatever is odd is refused."""

from __future__ import annotations

import re
from typing import Any

from run_agent.talk.messages import Words, flag, one_of, text, whole

from ..decide.messages import BUILDS, PHASES, STATES, Order, Report

_SHA = re.compile("([0-9a-f]{64})?")


def _sha(value: Any) -> bool:
    return isinstance(value, str) and bool(_SHA.fullmatch(value))


QUEUE = Words(
    Report,
    {
        "worker": whole(0, 65535),
        "run": text(100),
        "claim": whole(0, 10**9),
        "state": one_of(*STATES),
        "problem": text(500),
        "final": flag,
        "tried": text(100),
        "tried_claim": whole(0, 10**9),
        "busy": text(500),
        "venv": text(100),
        "build": one_of(*BUILDS),
        "trouble": text(500),
    },
    Order,
    {
        "phase": one_of(*PHASES),
        "run": text(100),
        "definition": _sha,
        "claim": whole(0, 10**9),
        "failures": whole(0, 10**6),
        "venv": text(100),
    },
)
"""A worker reports which run it has; worker 0 orders which one all of them get."""
