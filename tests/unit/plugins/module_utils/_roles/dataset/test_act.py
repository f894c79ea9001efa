"""What the role has staged on a machine, and what it refuses before it changes anything."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.dataset_place import Place
from ansible_collections.tpu.fleet.plugins.module_utils._roles.dataset import act, plan
from ansible_collections.tpu.fleet.plugins.module_utils._roles.dataset.act import Stager

ME = pwd.getpwuid(os.getuid())


class Machine:
    """A machine in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[list[str]] = []
        self.says = "SubState=running\n"

    def run(self, words: list[str], **_more: Any) -> tuple[int, str, str]:
        self.commands.append(words)
        return 0, self.says, ""

    def stager(self, *entries: dict[str, Any], check: bool = False, **more: Any) -> Stager:
        settings = {
            "datasets": [{"slices": [], **entry} for entry in entries],
            "slice": "pair",
            "slice_hosts": ["10.0.0.2", "10.0.0.3"],
            "worker_index": 0,
            "zone": "us-central1-a",
            "port": 310,
            "hub_url": "https://hub",
            "key": "the key",
            **more,
        }
        return Stager(settings, self.run, check)

    def entry(self, name: str = "set", size: int = 1 << 20, **more: Any) -> dict[str, Any]:
        path = str(self.folder / "data" / name)
        return {"name": name, "from": "gs://lab-{region}/a", "size": size, "path": path, **more}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("CONFIG", "KEY", "UNIT_FILE", "RECORD"):
        path = str(tmp_path / name.lower())
        monkeypatch.setattr(plan, name, path)
        if hasattr(act, name):
            monkeypatch.setattr(act, name, path)
    monkeypatch.setattr(act, "account_of", lambda name: ME if name != "bob" else None)
    # The folders of pytest belong to the user of the tests, and are in /tmp.
    monkeypatch.setattr(act, "foreign", lambda path: "/mnt" if "mnt" in str(path) else None)
    return Machine(tmp_path)


def test_it_writes_what_the_agent_reads_once(machine: Machine) -> None:
    stager = machine.stager(machine.entry(), machine.entry("other", slices=["solo"]))
    assert stager.problems() == []
    names = [Path(path).name for path in stager.apply()]
    assert len(names) == 4
    config = json.loads(Path(plan.CONFIG).read_text())
    (dataset,) = config["datasets"]
    assert (dataset["source"], dataset["size"]) == ("gs://lab-us-central1/a", 1 << 20)
    assert "the key" not in Path(plan.CONFIG).read_text()
    assert Path(plan.KEY).stat().st_mode & 0o777 == 0o600
    assert ["systemctl", "daemon-reload"] in machine.commands
    again = machine.stager(machine.entry())
    assert (again.apply(), again.changes) == ([], [])


def test_an_agent_that_has_ended_starts_again_for_what_went(machine: Machine) -> None:
    stager = machine.stager(machine.entry())
    assert not stager.must_restart()
    machine.says = "SubState=exited\n"
    assert stager.must_restart()
    content = stager.datasets[0]["id"]
    place = Place(stager.datasets[0]["path"])
    place.prepare(ME, None)
    place.whole(content).mkdir()
    place.switch(content)
    assert not stager.must_restart()


def test_check_mode_changes_nothing_and_says_so(machine: Machine) -> None:
    stager = machine.stager(machine.entry(), check=True)
    assert len(stager.apply()) >= 3
    assert not Path(plan.CONFIG).exists()
    assert machine.commands == []


def test_what_is_no_longer_declared_is_removed_if_the_role_made_it(machine: Machine) -> None:
    machine.stager(machine.entry(), machine.entry("kept")).apply()
    for name in ("set", "kept", "mine"):
        place = Place(str(machine.folder / "data" / name))
        place.folder.mkdir(parents=True)
        place.path.symlink_to(place.link)
    Path(plan.UNIT_FILE).touch()
    machine.stager(machine.entry("kept")).apply()
    assert sorted(path.name for path in (machine.folder / "data").iterdir()) == [
        ".kept.dataset", ".mine.dataset", "kept", "mine",
    ]  # fmt: skip
    assert ["systemctl", "stop", act.UNIT] in machine.commands
    machine.stager().apply()
    assert ["systemctl", "disable", "--now", act.UNIT] in machine.commands
    left = {Path(path).name for path in (plan.CONFIG, plan.KEY, plan.UNIT_FILE, plan.RECORD)}
    assert not left & {path.name for path in machine.folder.iterdir()}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"path": "/mnt/data"}, "path = '/mnt/data': /mnt can be changed by other users than root"),
        ({"user": "bob"}, "user = 'bob' is not a user of this host"),
        ({"size": 1 << 60}, "set size = 1073741824.0 GiB: 1073741824.0 GiB are to come to"),
    ],
)
def test_what_is_refused(machine: Machine, more: dict[str, Any], says: str) -> None:
    (problem,) = machine.stager(machine.entry(**more)).problems()
    assert says in problem


def test_something_else_at_the_path_stays(machine: Machine) -> None:
    path = machine.folder / "data" / "set"
    path.mkdir(parents=True)
    (problem,) = machine.stager(machine.entry()).problems()
    assert problem.startswith(f"fleet_datasets: set: path = '{path}' is there already, and no data")


def test_what_is_there_already_needs_no_more_room(machine: Machine) -> None:
    entry = machine.entry(size=1 << 60)
    stager = machine.stager(entry)
    content = stager.datasets[0]["id"]
    place = Place(entry["path"])
    place.prepare(ME, None)
    place.whole(content).mkdir()
    place.switch(content)
    assert stager.problems() == []


def test_before_a_disk_is_mounted_its_room_is_not_known(machine: Machine) -> None:
    entry = machine.entry(size=1 << 60)
    assert machine.stager(entry, check=True).problems() == []
