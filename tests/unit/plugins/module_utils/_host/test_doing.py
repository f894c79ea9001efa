"""What modules report while they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.doing import report


def test_a_report_is_an_event_of_the_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = tmp_path / "events"
    monkeypatch.setenv("TPU_FLEET_EVENTS", str(events))
    report("waits: a")
    report("waits: b")
    said = [json.loads(line) for line in events.read_text().splitlines()]
    assert said == [{"event": "doing", "what": f"waits: {one}"} for one in "ab"]


def test_without_a_file_nothing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_FLEET_EVENTS", str(tmp_path / "no" / "events"))
    report("x")
    monkeypatch.delenv("TPU_FLEET_EVENTS")
    report("x")
    assert list(tmp_path.iterdir()) == []
