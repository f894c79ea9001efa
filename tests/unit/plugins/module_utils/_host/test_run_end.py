"""The ends of runs, where all runs of a worker are listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_end import (
    ALTOGETHER,
    FEW,
    NARROW,
    Ends,
)


def write(logs: Path, run: str, lines: list[str], event: dict[str, Any] | None = None) -> None:
    (logs / run).mkdir(parents=True, exist_ok=True)
    (logs / run / "run.log").write_text("\n".join([*lines, ""]))
    (logs / run / "events.jsonl").write_text(json.dumps(event or {}) + "\n")


def failed(run: str = "a", **more: Any) -> dict[str, Any]:
    return {"run": run, "state": "failed", "serial": 1, "exit_code": 1, **more}


@pytest.mark.parametrize(
    ("status", "has"),
    [
        (failed(), True),
        (failed(state="restarting"), True),
        (failed(state="restarting", exit_code=None, signal=9), True),
        # Its worker was rebooted: its program says nothing of that.
        (failed(state="restarting", exit_code=None), False),
        (failed(state="running"), False),
        (failed(state="stopped"), False),
    ],
)
def test_which_runs_have_an_end(tmp_path: Path, status: dict[str, Any], has: bool) -> None:
    write(tmp_path, "a", ["ValueError: bad"])
    (found,) = Ends(tmp_path).added([status])
    assert ("tail" in found) is has
    assert found.get("tail", ["ValueError: bad"]) == ["ValueError: bad"]


def test_the_lines_of_the_worker_that_failed_come_before_those_here(tmp_path: Path) -> None:
    event = {"event": "run-failed", "reason": "4 failures", "tail": ["of worker 1"]}
    write(tmp_path, "a", ["of worker 0"], event)
    (found,) = Ends(tmp_path).added([failed()])
    assert (found["tail"], found["event"]["reason"]) == (["of worker 1"], "4 failures")


def test_an_end_is_few_narrow_lines_and_all_of_them_are_bounded(tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(200)]
    for name in names:
        write(tmp_path, name, ["x" * 5000] * 50)
    found = Ends(tmp_path).added([failed(name) for name in names])
    assert [one["run"] for one in found] == names
    ends = [one["tail"] for one in found if "tail" in one]
    assert {(len(end), len(end[0])) for end in ends} <= {(FEW, NARROW), (6, NARROW)}
    assert 10 < len(ends) < len(names)
    assert len(json.dumps(ends)) <= ALTOGETHER


def test_an_end_is_read_once_for_each_status(tmp_path: Path) -> None:
    write(tmp_path, "a", ["first"])
    ends = Ends(tmp_path)
    assert ends.added([failed()])[0]["tail"] == ["first"]
    write(tmp_path, "a", ["second"])
    assert ends.added([failed()])[0]["tail"] == ["first"]
    assert ends.added([failed(serial=2)])[0]["tail"] == ["second"]


def test_who_may_not_read_the_log_gets_the_status(tmp_path: Path) -> None:
    (found,) = Ends(tmp_path / "closed").added([failed()])
    assert found == {**failed(), "event": {}, "tail": []}
