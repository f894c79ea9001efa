"""What `tpu-fleet history` prints."""

from __future__ import annotations

import json
import time
from pathlib import Path

import fleet_past
import pytest
from click.testing import CliRunner, Result

from tpu_fleet.commands.history import happenings, history, runs_table
from tpu_fleet.history.record import HISTORY
from tpu_fleet.history.story import Attempt, RunStory
from tpu_fleet.workers.inventory.ansible_config import inventory_sources, state_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fleet's folder, without Ansible and without a network."""
    env = {"ANSIBLE_INVENTORY": str(tmp_path / "inv"), "TPU_FLEET_STATE_DIR": str(tmp_path / "s")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return state_of(env, inventory_sources(env, Path.cwd()))


def said(*words: str) -> Result:
    return CliRunner().invoke(history, words)


def test_nothing_is_known_at_first(folder: Path) -> None:
    done = said()
    assert (done.exit_code, "Nothing is known yet" in done.output) == (0, True)


def test_runs_and_what_happened(folder: Path) -> None:
    fleet_past.made(folder / HISTORY, time.time(), days=1.0, every=1800.0).close()
    done = said()
    assert done.exit_code == 0, done.output
    for words in ("digits", "words", "alice", "GOODPUT", "program failed", "4 failures in"):
        assert words in done.output
    told = json.loads(said("--json").output)
    assert {run["run"] for run in told["runs"]} == {"digits", "words"}
    (digits,) = json.loads(said("--json", "digits").output)["runs"]
    assert digits["attempts"][-1]["ended"] is None
    assert 0.5 < digits["goodput"] < 1
    assert digits["seconds_down"] == pytest.approx(
        sum(one["down"] or 0 for one in digits["attempts"]), abs=0.1
    )


def test_a_run_that_is_not_there_is_named(folder: Path) -> None:
    fleet_past.made(folder / HISTORY, time.time(), days=0.2, every=1800.0).close()
    done = said("digit")
    assert (done.exit_code, done.output) == (
        1,
        "Error: There is no run or slice digit. Did you mean digits? "
        "There is digits, pair, solo, words.\n",
    )  # fmt: skip


def test_a_history_that_cannot_be_read_is_named(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / HISTORY).mkdir()
    done = said()
    assert done.exit_code == 1
    assert f"The history {folder / HISTORY} cannot be used" in done.output


def test_a_slice_has_its_runs_and_its_events(folder: Path) -> None:
    fleet_past.made(folder / HISTORY, time.time(), days=1.0, every=1800.0).close()
    told = json.loads(said("--json", "pair").output)
    assert {run["slice"] for run in told["runs"]} == {"pair"}
    assert {event["slice"] for event in told["events"]} == {"pair"}
    assert "solo" not in said("pair").output


def test_the_start_of_an_agent_is_no_news(folder: Path) -> None:
    fleet_past.made(folder / HISTORY, time.time(), days=2.0, every=1800.0).close()
    assert "agent-started" in said("--json").output
    assert "run agent started" not in said().output


def test_the_verdict_stands_first_and_the_newest_last(folder: Path) -> None:
    fleet_past.made(folder / HISTORY, time.time(), days=1.0, every=1800.0).close()
    lines = said().output.splitlines()
    assert lines[0].startswith("In 7 d: 1 run failed, ")
    assert "chip hours lost" in lines[0]
    assert "4 failures in 1 h" in lines[-1]
    verdict = json.loads(said("--json").output)["verdict"]
    assert verdict["failed"] == ["solo/words"]
    assert 0 < verdict["lost_chip_hours"] < verdict["chip_hours"]
    assert sum(verdict["ends"].values()) > 1


def test_only_what_is_newer_and_only_what_went_wrong(folder: Path) -> None:
    fleet_past.made(folder / HISTORY, time.time(), days=1.0, every=1800.0).close()
    everything, bad, new = (said(*words).output for words in ((), ("--bad",), ("--since", "1h")))
    assert "maintenance announced" in everything
    assert "maintenance announced" not in bad
    assert "program failed" in bad
    assert len(new.splitlines()) < len(everything.splitlines())
    assert new.startswith("In 1 h: 1 run failed")
    wrong = said("--since", "yesterday")
    assert (wrong.exit_code, "22:00" in wrong.output) == (2, True)


def test_what_a_person_restarted_is_no_interruption() -> None:
    kinds = ["changed", "stopped", "code", "crashed", ""]
    attempts = tuple(Attempt(n, n * 60.0, n * 60.0 + 50, kind) for n, kind in enumerate(kinds, 1))
    one = RunStory("pod", "digits", attempts=attempts)
    assert [attempt.kind for attempt in one.faults] == ["crashed"]
    table = runs_table([one])
    shown = dict(zip((column.title for column in table.columns), table.rows[0].cells, strict=False))
    assert (shown["ATTEMPTS"], shown["INTERRUPTED"]) == ("5", "1")
    assert [row.kind for row in happenings([one], [])] == ["note", "note", "note", "bad"]
