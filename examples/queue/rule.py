"""Stop the arms of a sweep that are worse than half of those that are as far: successive halving.

A rule for `fleet_queue.on_result`. It reads how far all arms are, and prints those to stop. A rung
is 100 to 199 steps, 200 to 399, 400 to 799, ...: of the arms whose last step is in the same rung,
also those that ended there, one that runs is stopped if its loss is above their median. Copy this
file into the folder of your code, and change in it what is better.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import defaultdict
from typing import Any

FIRST, LEAST = 100, 3
"""Steps at which the first rung begins, and the arms in a rung before one is stopped there."""


def worse(arms: list[dict[str, Any]]) -> dict[str, str]:
    """Return the arms that run and are not worth their end, each with the reason."""
    rungs: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for arm in arms:
        if arm["loss"] is not None and (arm["step"] or 0) >= FIRST:
            rungs[FIRST * 2 ** int(math.log2(arm["step"] / FIRST))].append(arm)
    found = {arm["name"]: "diverged" for arm in arms if arm["diverged"]}
    for rung, there in rungs.items():
        median = statistics.median(arm["loss"] for arm in there)
        for arm in there if len(there) >= LEAST else ():
            if arm["loss"] > median:
                found[arm["name"]] = f"{arm['loss']:.4g} is above {median:.4g} after {rung} steps"
    running = {arm["name"] for arm in arms if arm["state"] == "running"}
    return {name: why for name, why in found.items() if name in running}


if __name__ == "__main__":
    for name, why in worse(json.load(sys.stdin)["arms"]).items():
        print(name, why)
