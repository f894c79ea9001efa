"""How `tpu-fleet doctor` shows what the playbook found, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tpu_fleet.commands import doctor as command

GOOD: dict[str, Any] = {
    **{"host": "solo", "hosts": ["solo"], "check": "disk", "subject": "", "status": "ok"},
    **{"says": "", "remedy": ""},
}
BAD = {
    **GOOD,
    "check": "lock_file",
    "status": "fail",
    "says": "/x/lock belongs to [carol]",
    "remedy": "Run on the machine: sudo rm -f /x/lock",
}


def report(code: int, *rows: dict[str, Any]) -> dict[str, Any]:
    lines = ["fixed: solo: removed /x/lock (it was there)", "1 fail, 0 to look at"]
    status = ["ok", "warn", "fail"][code]
    return {"rows": rows, "fixed": [], "lines": lines, "status": status, "exit_code": code}


class Playbook:
    """Stands for the playbook: answers by a script, and remembers how it was called."""

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.reports = reports
        self.called: dict[str, Any] = {}

    def __call__(self, playbook: str, on_event: Any, **options: Any) -> int:
        self.called = options
        on_event({"event": "runner_on_ok", "event_data": {"task": "Another", "res": {}}})
        for found in self.reports:
            facts = {"ansible_facts": {"doctor_report": found}}
            on_event({"event": "runner_on_ok", "event_data": {"task": "A", "res": facts}})
        return 0


def run(monkeypatch: pytest.MonkeyPatch, playbook: Playbook, *words: str) -> Any:
    monkeypatch.setattr(command, "play", playbook)
    return CliRunner().invoke(command.doctor, list(words))


@pytest.mark.parametrize("code", [0, 1, 2])
def test_it_ends_as_bad_as_it_is(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert run(monkeypatch, Playbook(report(code, GOOD))).exit_code == code


def test_only_what_is_not_well_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, Playbook(report(2, GOOD, BAD))).output
    assert "lock_file" in shown
    assert "[carol]" in shown
    assert "sudo rm -f /x/lock" in shown
    assert "disk" not in shown
    assert "fixed: solo: removed /x/lock" in shown
    assert shown.strip().endswith("1 fail, 0 to look at")
    everything = run(monkeypatch, Playbook(report(2, GOOD, BAD)), "--all").output
    assert 0 < everything.index("lock_file") < everything.index("disk")


def test_many_workers_are_named_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    several = {**BAD, "hosts": ["pair-w0", "pair-w1", "pair-w2"]}
    assert "pair-w[0-2]  " in run(monkeypatch, Playbook(report(2, several))).output


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(run(monkeypatch, Playbook(report(2, GOOD, BAD)), "--json").output)
    assert [row["check"] for row in found["rows"]] == ["disk", "lock_file"]
    assert (found["status"], found["exit_code"]) == ("fail", 2)


def test_what_the_playbook_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    playbook = Playbook(report(0))
    run(monkeypatch, playbook, "--fix", "--limit", "pair-w1", "--timeout", "90")
    assert playbook.called["limit"] == "localhost,pair-w1"
    assert playbook.called["variables"] == {
        "doctor_fix": True,
        "doctor_fail_on": "never",
        "doctor_time_limit": 90.0,
    }


def test_a_playbook_that_does_not_come_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Playbook())
    assert result.exit_code == 2
    assert "did not finish" in result.output
