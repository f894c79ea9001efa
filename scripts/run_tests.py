#!/usr/bin/env python3
"""Run the stages of the test suite in parallel lanes; print what failed and what took the time.

    scripts/run_tests.py check          lint, types, unit tests
    scripts/run_tests.py test           everything that CI runs
    scripts/run_tests.py STAGE ...      the named stages, also those that take too long for CI

Each stage logs to .work/tests/<stage>.log. A stage that cannot run has failed: there are no skips.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".work" / "tests"

# How ansible, molecule and pytest begin the line that says what went wrong.
FAILURE = re.compile(r"fatal:|UNREACHABLE!|\[ERROR\]|CRITICAL|^E  |^FAILED|^ERROR")
# What a stage says that is worth to be seen also when all is well: seeds, counts.
NOTE = "note: "


@dataclass(frozen=True)
class Stage:
    """One command of the suite; those of a lane run one after the other while there are others."""

    name: str
    lane: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


def pytest(*args: str) -> tuple[str, ...]:
    return ("pytest", "-q", "--durations=5", *args)


CHECK = (
    Stage("ruff", "quick", ("ruff", "check", ".")),
    Stage("format", "quick", ("ruff", "format", "--check", ".")),
    Stage("yamllint", "quick", ("yamllint", "--strict", ".")),
    Stage("mypy", "quick", ("mypy",)),
    # Without a clock: an example that takes long on a busy computer is no failure.
    Stage("unit", "quick", pytest("-n", "2", "--hypothesis-profile=ci", "tests/unit")),
    Stage("changelog", "lint", ("antsibull-changelog", "lint")),
    Stage(
        "ansible-lint",
        "lint",
        ("ansible-lint", "--offline"),
        # It checks playbooks with the inventory of ansible.cfg, whose cloud need not be up.
        {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_INVENTORY": str(ROOT / "tests" / "support" / "no_fleet.yml"),
        },
    ),
)

# Stories that are told elsewhere than in the stage of that name.
CAPACITY, RUNS = ("tests/stories/test_capacity.py",), ("tests/stories/test_runs.py",)
HEALING = ("tests/stories/test_after_the_end.py", "tests/stories/test_multislice.py")

# Two lanes for two cores: one lives on machines of the local cloud, the other begins by computing.
# Whoever is through with its own helps the other, so no stage may mind what runs beside it.
FULL = (
    Stage("machines", "machines", pytest("tests/integration/machines")),
    Stage("molecule", "machines", ("scripts/molecule",)),
    Stage("story", "machines", pytest("-x", "tests/e2e")),
    Stage("capacity", "machines", pytest(*CAPACITY)),
    # On a cloud of its own: whoever helps this lane may be at another of its stages.
    Stage(
        "runs",
        "machines",
        pytest("-x", *RUNS),
        {"TPU_FLEET_STORIES_PORT": "8478"},
    ),
    Stage("lab", "machines", pytest("-x", "tests/lab/test_lab.py")),
    Stage("nfs", "machines", pytest("-x", "tests/nfs")),
    *(replace(stage, lane="compute") for stage in CHECK),
    Stage(
        "api",
        "compute",
        # Most of them wait for something: three at a time take half as long as one.
        pytest(
            *("-n", "3", "--dist", "loadfile"),
            "tests/integration",
            "--ignore=tests/integration/machines",
            "--ignore=tests/integration/gcloud",
        ),
    ),
    # Each of its tests starts gcloud once, and mostly waits for it.
    Stage("gcloud", "compute", pytest("-n", "3", "tests/integration/gcloud")),
    Stage("property", "compute", pytest("-n", "2", "tests/property")),
    Stage("sanity", "compute", ("scripts/ansible-test", "sanity", "--requirements", "--venv")),
    Stage("package", "compute", ("scripts/check-package",)),
    # Here, for this lane has ended what only computes by then; on a cloud of its own.
    Stage(
        "stories",
        "compute",
        pytest("tests/stories", *(f"--ignore={one}" for one in (*CAPACITY, *RUNS, *HEALING))),
        {"TPU_FLEET_STORIES_PORT": "8476"},
    ),
)

# What is too long for each run of CI.
MORE = (
    # On a cloud of its own; its port is in its fixture.
    Stage("hostile_user", "machines", pytest("tests/hostile_user")),
    # The unit tests of plugins once more, under each Python that ansible-core supports on machines.
    # In CI the stage sanity compiles and imports all of it under each of them.
    Stage(
        "ansible-units", "compute", ("scripts/ansible-test", "units", "--requirements", "--venv")
    ),
    Stage("molecule_by_hosts", "machines", ("scripts/molecule_by_hosts.py",)),
    # Twelve minutes, in most of which a watcher waits until slices rest, or are there again.
    Stage("healing", "machines", pytest(*HEALING), {"TPU_FLEET_STORIES_PORT": "8479"}),
    # Five fleets, each made anew. On a cloud of its own; its port is in its file.
    Stage("guides", "machines", pytest("tests/lab/test_guides.py")),
    Stage("sweeps", "machines", pytest("tests/sweeps")),
    # Ray, SkyPilot and dstack, which are 700 MB.
    Stage("clients", "compute", ("scripts/test-clients",)),
    # Four gigabytes to download for each machine, and three machines.
    Stage("torch_xla", "machines", pytest("-x", "tests/torch_xla")),
    Stage("drills", "machines", pytest("-x", "tests/drills")),
    Stage("chaos", "machines", pytest("-x", "tests/chaos")),
)


def telling(text: str) -> list[str]:
    """Return what to show of a failed stage's log: around its last failures, and its end.

    The end alone is often a report that only says where it stopped, and the first failures may be
    those that a play itself mended.
    """
    lines = text.splitlines()
    shown = set(range(max(0, len(lines) - 40), len(lines)))
    for number in [number for number, line in enumerate(lines) if FAILURE.search(line)][-8:]:
        shown.update(range(max(0, number - 4), min(len(lines), number + 12)))
    return [lines[number] for number in sorted(shown)]


def run(stage: Stage, results: dict[str, tuple[int, float]]) -> None:
    log = LOGS / f"{stage.name}.log"
    started = time.monotonic()
    environment = {
        **os.environ,
        **stage.env,
        "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
    }
    with log.open("wb") as out:
        code = subprocess.run(
            stage.argv, cwd=ROOT, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        ).returncode
    took = time.monotonic() - started
    results[stage.name] = (code, took)
    said = log.read_text(errors="replace")
    shown = telling(said) if code else [n for n in said.splitlines() if n.startswith(NOTE)]
    head = f"{'ok    ' if code == 0 else 'FAILED'} {stage.name:17} {took:7.1f} s"
    print("\n".join([head, *(f"    {line}" for line in shown)]), flush=True)


class Left:
    """The stages that nobody has begun."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = list(stages)
        self._lock = threading.Lock()

    def take(self, lane: str) -> Stage | None:
        """Return the next of a lane; when it is through, the last of the others."""
        with self._lock:
            own = [stage for stage in self._stages if stage.lane == lane]
            stage = next(iter(own or reversed(self._stages)), None)
            if stage:
                self._stages.remove(stage)
            return stage


def run_lane(lane: str, left: Left, results: dict[str, tuple[int, float]]) -> None:
    while stage := left.take(lane):
        run(stage, results)


def main(names: list[str]) -> int:
    known = {stage.name: stage for stage in (*FULL, *MORE)}
    if names == ["check"]:
        stages = CHECK
    elif names == ["test"]:
        stages = FULL
    else:
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            print(f"unknown stage {unknown}; stages: check, test, {', '.join(known)}")
            return 2
        stages = tuple(known[name] for name in names)
    LOGS.mkdir(parents=True, exist_ok=True)
    results: dict[str, tuple[int, float]] = {}
    started, left = time.monotonic(), Left(stages)
    threads = [
        threading.Thread(target=run_lane, args=(lane, left, results))
        for lane in sorted({stage.lane for stage in stages})
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [name for name, (code, _) in results.items() if code]
    missing = [stage.name for stage in stages if stage.name not in results]
    print(f"\n{len(stages)} stages in {time.monotonic() - started:.0f} s; logs in {LOGS}")
    for name in failed + missing:
        print(f"failed: {name}")
    print(f"{len(results) - len(failed)} passed, {len(failed) + len(missing)} failed")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
