"""How workers are kept: the list of the commands, and the configuration of ssh."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import (
    groups_of,
    list_path,
    list_text,
    read_list,
    write_files,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import targets as ssh_targets
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, target_by

HOSTS: dict[str, Mapping[str, Any]] = {
    "pair-w0": {
        "ansible_host": "10.0.0.1",
        "ansible_user": "me",
        "tpu_vm_ssh_options": {"Port": 23, "UserKnownHostsFile": '"/a folder/known"'},
        "ansible_ssh_common_args": "-oPort=23 '-oUserKnownHostsFile=\"/a folder/known\"'",
        "ansible_ssh_private_key_file": "/a key",
    },
    "pair-w1": {"ansible_host": "10.0.0.2", "ansible_user": "me"},
}
GROUPS = {"tpu": ("pair-w0", "pair-w1"), "tpu_unavailable": ()}


def fleet_at(source: Path) -> Fleet:
    targets = {name: target_by(name, said.get) for name, said in HOSTS.items()}
    return Fleet(targets, GROUPS, (str(source),))


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path / "state"))
    return {
        "fleet_state_dir": str(tmp_path / "its own"),
        "fleet_ssh_user": "me",
        "fleet_ssh_private_key_file": "/a key",
    }


def write(variables: dict[str, Any], source: Path, only_look: bool = False) -> Any:
    hosts = {name: said.get for name, said in HOSTS.items()}
    return write_files(variables, lambda value: value, hosts, fleet_at(source), only_look)


def test_ssh_reads_what_is_written(variables: dict[str, Any], tmp_path: Path) -> None:
    written = write(variables, tmp_path / "inventory")
    assert written.path == tmp_path / "its own" / "ssh_config"
    assert written.path.stat().st_mode & 0o777 == 0o600
    words = ("ssh", "-G", "-F", str(written.path), "pair-w0")
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    assert {"hostname 10.0.0.1", "port 23", "user me", "identityfile /a key"} <= set(said)
    assert "userknownhostsfile /a folder/known" in [line.replace('"', "") for line in said]


def test_the_list_is_read_as_it_was_written(variables: dict[str, Any], tmp_path: Path) -> None:
    state = {"TPU_FLEET_STATE_DIR": str(tmp_path / "state")}
    source = tmp_path / "inventory"
    assert read_list([str(source)], state) is None
    assert write(variables, source, only_look=True).changed
    assert read_list([str(source)], state) is None
    assert write(variables, source).changed
    assert not write(variables, source).changed
    assert read_list([str(source)], state) == (fleet_at(source), tmp_path / "its own/ssh_config")
    assert list_path([str(source)], state).stat().st_mode & 0o777 == 0o600
    # Another fleet of this computer has another list, and a link to the inventory the same one.
    assert read_list([str(tmp_path / "other")], state) is None
    (tmp_path / "link").symlink_to(source)
    assert read_list([str(tmp_path / "link")], state) is not None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"targets": {"a": {"nonsense": 1}}}', "\xff"])
def test_a_list_that_is_none_is_missing(tmp_path: Path, text: str) -> None:
    state = {"TPU_FLEET_STATE_DIR": str(tmp_path)}
    path = list_path(["/inventory"], state)
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    assert read_list(["/inventory"], state) is None


def test_the_state_of_another_fleet_is_left_alone(
    variables: dict[str, Any], tmp_path: Path
) -> None:
    folder = Path(variables["fleet_state_dir"])
    folder.mkdir()
    (folder / "fleet").write_text("others in p\n")
    with pytest.raises(ValueError, match="keeps the state of another fleet"):
        write({**variables, "fleet_name": "managed in p"}, tmp_path / "inventory")
    assert [path.name for path in folder.iterdir()] == ["fleet"]


def test_groups_of_all_hosts_are_left_out() -> None:
    assert groups_of({"all": ["a"], "ungrouped": [], "tpu": ["a"]}) == {"tpu": ("a",)}


def test_a_thousand_workers_are_read_without_their_options(tmp_path: Path) -> None:
    """Counted, not timed: nothing of an ssh configuration is parsed."""
    [target] = [target_by("w", HOSTS["pair-w0"].get)]
    fleet = Fleet({f"w{number}": target for number in range(1000)}, {}, ("/inventory",))
    state = {"TPU_FLEET_STATE_DIR": str(tmp_path)}
    path = list_path(fleet.inventory, state)
    path.parent.mkdir()
    path.write_text(list_text(fleet, Path("/ssh_config")))
    assert len(json.loads(path.read_text())["targets"]) == 1000
    with mock.patch.object(ssh_targets, "_words") as words:
        found = read_list(["/inventory"], state)
    assert not words.called
    assert found is not None
    assert found[0] == fleet
