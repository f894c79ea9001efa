#!/usr/bin/env python3
"""What commands of tpu-fleet take that people type often, on a fleet of three machines.

    sudo .venv/bin/python benchmarks/commands.py [--repeat 5] [--record FILE]

Makes a local cloud of its own with the demo's fleet, two runs on three workers. CPU is that of the
command and all that it starts here, without the machines. TAB is what the shell waits for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from measure import ROOT, Cost, Line, interleaved, measured, medians, promises, record, table

sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(ROOT / "local_cloud/tests/support"))

from fleet import Fleet

MOST = {"--help": 0.1, "status": 0.8, "runs": 0.4}
"""CPU seconds."""
TABS = ("lo", "logs d", "logs --slice p", "exec --limit pair-", "status --j")
TAB_SECONDS = 0.15
"""Seconds that a person may wait after TAB."""


def tab(words: str, env: Mapping[str, str]) -> Cost:
    """Measure what a shell asks at TAB."""
    asked = {
        "COMP_WORDS": f"tpu-fleet {words}",
        "COMP_CWORD": str(len(words.split())),
        "_TPU_FLEET_COMPLETE": "bash_complete",
    }
    return measured(["tpu-fleet"], env={**env, **asked}, cwd=ROOT)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--record", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        fleet = Fleet(Path(name), {"fleet_allocations": "unrestricted"})
        # Bytecode is kept, as on a user's computer.
        fleet.env.pop("PYTHONDONTWRITEBYTECODE", None)
        fleet.up("--clock", "immediate")
        try:
            fleet.play("site.yml")
            rows = {
                f"tpu-fleet {word}": partial(measured, ["tpu-fleet", word], env=fleet.env, cwd=ROOT)
                for word in MOST
            }
            rows |= {f"TAB after {words}": partial(tab, words, fleet.env) for words in TABS}
            for run in rows.values():
                run()
            runs = interleaved(rows, asked.repeat)
        finally:
            fleet.down()
    lines = [
        Line(f"tpu-fleet {word}, CPU s", medians(runs[f"tpu-fleet {word}"]).cpu, most)
        for word, most in MOST.items()
    ]
    lines += [
        Line(f"TAB after {words}, s", medians(runs[f"TAB after {words}"]).wall, TAB_SECONDS)
        for words in TABS
    ]
    print(f"\nthree machines, medians of {asked.repeat}")
    print(table(runs, "tpu-fleet --help"))
    print(promises(lines))
    record(asked.record, "commands", runs, lines)


if __name__ == "__main__":
    main()
