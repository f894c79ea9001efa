"""What the watcher keeps beside its memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import run_status
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.stops import read_stops

from tpu_fleet.watch.ground import Settings
from tpu_fleet.watch.hosts import HostSeen
from tpu_fleet.watch.note import Notes

SAID = {
    **{"project": "p", "api_endpoint": "", "fleet": {"owner": "managed"}},
    **{"notify": [], "runs": []},
}


def host(**status: Any) -> HostSeen:
    run = {"run": "digits", "state": "stopped", "attempt": 2, "run_id": "r", "boot_id": "b1"}
    return HostSeen(True, boot_id="b1", runs=(run_status(Words("w", {**run, **status})),))


def test_it_keeps_who_stopped_a_run_where_the_playbooks_find_it(tmp_path: Path) -> None:
    # Of the settings as the fleet file gives them: nothing else names the folder.
    settings = Settings.from_dict({**SAID, "state_dir": str(tmp_path)})
    notes = Notes(SimpleNamespace(history=tmp_path / "history.db"), "")  # type: ignore[arg-type]
    notes._note_stops(settings, {"pair": {"pair-w0": host(stopped_by="budget")}})
    assert read_stops(tmp_path) == {"pair": {"digits": "budget"}}
    # A slice that is gone says nothing, and one that is started is forgotten.
    notes._note_stops(settings, {"pair": {"pair-w0": HostSeen(reached=False)}})
    assert read_stops(tmp_path) == {"pair": {"digits": "budget"}}
    notes._note_stops(settings, {"pair": {"pair-w0": host(state="running")}})
    assert read_stops(tmp_path) == {}
