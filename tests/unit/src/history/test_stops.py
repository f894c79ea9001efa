"""The stops of runs, as the state folder of the fleet has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.stops import FILE, read_stops
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import (
    list_path,
    list_text,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet

from tpu_fleet.history.stops import folder_of, note
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.hosts import NO_CONFIG, Known


def run(host: str, by: str = "", name: str = "digits") -> Run:
    slice_name, _w, worker = host.partition("-w")
    status = RunStatus(name, state="stopped" if by else "running", stopped_by=by)
    return Run(host, slice_name, int(worker or 0), status.state, status, 0.0)


def test_a_stop_is_kept_until_the_run_is_seen_started(tmp_path: Path) -> None:
    note(tmp_path, [run("pair-w0"), run("pair-w1", "eve@x"), run("solo", "bob@y", "words")])
    assert read_stops(tmp_path) == {"pair": {"digits": "eve@x"}, "solo": {"words": "bob@y"}}
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    # The slice is gone, or its workers do not answer: nothing is known of its runs.
    note(tmp_path, [run("solo", "bob@y", "words")])
    assert read_stops(tmp_path)["pair"] == {"digits": "eve@x"}
    note(tmp_path, [run("pair-w0"), run("pair-w1")])
    assert read_stops(tmp_path) == {"solo": {"words": "bob@y"}}


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    note(tmp_path, [run("pair-w0")])
    assert not (tmp_path / FILE).exists()
    note(tmp_path, [run("pair-w0", "eve@x")])
    before = (tmp_path / FILE).stat().st_ino
    note(tmp_path, [run("pair-w0", "eve@x")])
    assert (tmp_path / FILE).stat().st_ino == before


@pytest.mark.parametrize("by", ["{{ lookup('pipe', 'id') }}", "a b", "x" * 101])
def test_what_a_worker_says_is_a_name_or_not_kept(tmp_path: Path, by: str) -> None:
    note(tmp_path, [run("pair-w0", by)])
    assert read_stops(tmp_path) == {"pair": {"digits": "an unknown person"}}


def test_the_folder_is_that_of_the_ssh_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path))
    fleet = Fleet({}, {}, ("/fleet/inventory",))
    assert folder_of(Known(tmp_path / "ssh_config", fleet)) == tmp_path
    assert folder_of(Known(NO_CONFIG, fleet)) is None
    path = list_path(fleet.inventory, {"TPU_FLEET_STATE_DIR": str(tmp_path)})
    path.parent.mkdir()
    path.write_text(list_text(fleet, tmp_path / "state/ssh_config"))
    assert folder_of(Known(NO_CONFIG, fleet)) == tmp_path / "state"
    note(None, [run("pair-w0", "eve@x")])
