"""The playbook drill, with a worker that always says the same: nothing is back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator import ROOT, Emulator
from hostile import DRILLED

Play = Callable[..., str]
WORKER = {
    "ansible_connection": "hostile",
    "ansible_become": False,
    "tpu_vm_name": "solo-0",
    "tpu_vm_worker_index": 0,
    "tpu_vm_worker_count": 1,
    "tpu_vm_zone": Emulator.zone,
}
FLEET: dict[str, Any] = {
    "fleet_allocations": "unrestricted",
    "fleet_slices": [{"name": "solo-0", "accelerator_type": "v4-8", "zone": Emulator.zone}],
    "fleet_runs": [{"name": "digits", "slices": ["solo-0"], "user": "root", "command": "true"}],
}


@pytest.fixture
def drill(cloud: Emulator, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run the playbook for drills of `digits`."""
    cloud.populate(1, prefix="solo", labels={"tpu-fleet": "managed"})
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "here.drill").write_text(json.dumps(DRILLED))
    monkeypatch.setenv("HOSTILE_ANSWERS", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_CONNECTION_PLUGINS", str(ROOT / "tests/cloud/hostile/connection"))
    monkeypatch.setenv("ANSIBLE_PIPELINING", "1")
    worker = {**WORKER, "tpu_vm_project": cloud.project}
    hosts = json.dumps({"tpu": {"hosts": {"here": worker}}})

    def run(*words: str, ok: bool, **variables: Any) -> str:
        told = {"fleet_run": "digits", "fleet_drill_timeout": "1s", "fleet_drill_settle": "0s"}
        more = ("-e", json.dumps({**told, **variables}))
        out = play(
            "ansible-playbook", "tpu.fleet.drill", *more, *words, fleet=FLEET, ok=ok, hosts=hosts
        )
        return " ".join(out.split())

    return run


def test_each_drill_has_its_row(drill: Play, tmp_path: Path) -> None:
    asked = ["maintenance", "kill", "partition", "preempt"]
    told = drill(ok=False, fleet_drills=asked, fleet_drill_confirm="digits")
    assert "digits did not survive: maintenance, kill, preempt. See the report above." in told
    page, data = sorted((tmp_path / "state/drills").iterdir(), reverse=True)
    rows = json.loads(data.read_text())["drills"]
    assert [row["drill"] for row in rows] == asked
    assert [row["verdict"] for row in rows] == ["not back", "not back", "skipped", "not back"]
    assert "not back after 1 s" in rows[1]["says"]
    assert str(page)[:-3] in told
    assert "| kill | not back |" in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600


def test_nothing_is_done_unless_it_is_meant(drill: Play, tmp_path: Path) -> None:
    assert 'fleet_drill_confirm: "x" is not the name' in drill(ok=False, fleet_drill_confirm="x")
    assert "fleet_run: there is no run 'digit'" in drill(ok=False, fleet_run="digit")
    assert "kills the program on here with signal 9" in drill("--check", ok=True)
    assert not (tmp_path / "state/drills").exists()
