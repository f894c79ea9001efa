"""Which runs can be synced, and when what is known of them is read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.sync import declared
from tpu_fleet.workers.sync.declared import Declared, OnSlice, workers_of


def run(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "enabled": True, "code": "toy", "slices": ["pair"], **more}


RUNS = [
    run("digits"),
    run("words"),
    run("off", enabled=False),
    run("other", code="own"),
    run("shell", code=None),
    run("folder", code="/srv/code"),
]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["digit"], "There is no run digit. Did you mean digits? There is digits, words"),
        (["zzz"], "There is no run zzz. There is digits"),
        (["off"], "Run off has enabled: false"),
        (["shell"], "Run shell has no code in the fleet file"),
        (["folder"], "the folder /srv/code of its workers as code"),
        (["digits", "other"], "different code: digits has toy, other has own"),
    ],
)
def test_what_cannot_be_synced_is_named(names: list[str], words: str) -> None:
    with pytest.raises(click.ClickException) as error:
        declared._tree_of(declared._named(RUNS, names))
    assert words in error.value.message


def test_runs_of_one_tree_are_synced_together() -> None:
    assert declared._tree_of(declared._named(RUNS, ["digits", "words"])) == "toy"


def venv(**more: Any) -> dict[str, Any]:
    return {"name": "jax", "slices": [], "editable": [], "requirements": None, **more}


def test_files_of_environments_are_known() -> None:
    found = declared._requirements([venv(requirements="toy/env/jax.txt")], "pair", "toy")
    assert found == {"env/jax.txt": "jax"}
    assert declared._requirements([venv(requirements="own/jax.txt")], "pair", "toy") == {}
    elsewhere = venv(requirements="toy/jax.txt", editable=["toy"], slices=["solo"])
    assert declared._requirements([elsewhere], "pair", "toy") == {}


@pytest.mark.parametrize("editable", ["toy", "toy/lib", "toy[extra]"])
def test_an_editable_tree_is_refused(editable: str) -> None:
    with pytest.raises(click.ClickException, match="installs tree toy as editable"):
        declared._requirements([venv(editable=["own", editable])], "pair", "toy")


def known(*usable: str) -> Known:
    targets = {name: Target(name, "192.0.2.1") for name in usable}
    return Known(Path("ssh"), Fleet(targets, {"tpu_slice_pair": ("pair-w0", "pair-w1")}))


def test_a_slice_without_all_its_workers_is_refused() -> None:
    assert list(workers_of(known("pair-w0", "pair-w1"), "pair")) == ["pair-w0", "pair-w1"]
    with pytest.raises(click.ClickException, match=r"Slice pair: pair-w1 cannot be used\. Nothing"):
        workers_of(known("pair-w0"), "pair")
    with pytest.raises(click.ClickException, match=r"Slice solo: has no workers\. Nothing"):
        workers_of(known("pair-w0"), "solo")


FOUND = Declared(
    runs=["digits"],
    tree="toy",
    folder="/code",
    snapshots="/snapshots",
    slices=[OnSlice("pair", 3, {"name": "toy"}, [], {}, {})],
    elsewhere=["solo"],
)


def test_the_fleet_file_is_read_again_when_a_file_of_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = tmp_path / "inventory"
    fleet = inventory / "group_vars" / "all" / "fleet.yml"
    fleet.parent.mkdir(parents=True)
    fleet.write_text("a: 1\n")
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(inventory))
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked: list[Any] = []

    def ask(_known: Known, names: Any) -> Declared:
        asked.append(names)
        return FOUND

    monkeypatch.setattr(declared, "_ask", ask)
    for _again in range(2):
        found = declared.declared(known(), ["digits"])
        assert found == FOUND or json.loads(json.dumps(found.runs)) == ["digits"]
    assert asked == [["digits"]]
    fleet.write_text("a: 22\n")
    declared.declared(known(), ["digits"])
    assert len(asked) == 2
    declared.declared(known(), ["words"])
    assert len(asked) == 3
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "/none")
    declared.declared(known(), ["words"])
    assert len(asked) == 4


LOOKS = "lookup('ansible.builtin.{}', '{}')"


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ("'digits'", [1, 1, 1]),
        (LOOKS.format("env", "FRAMEWORK"), [1, 1, 2]),
        (LOOKS.format("file", "/etc/hostname"), [1, 2, 3]),
        (LOOKS.format("pipe", "true"), [1, 2, 3]),
    ],
)
def test_what_lookups_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str, asked: list[int]
) -> None:
    """Three times; before the last one, the variable of the environment changes."""
    (tmp_path / "hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n")
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "hosts.yml"))
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FRAMEWORK", "jax")
    seen: list[Any] = []

    def ask(_known: Known, _names: Any) -> Declared:
        from tpu_fleet.workers.inventory.read import read_inventory

        seen.append(read_inventory().of_role("localhost", "training_run", "{{ " + template + " }}"))
        return FOUND

    monkeypatch.setattr(declared, "_ask", ask)
    times = []
    for framework in ("jax", "jax", "torch_xla"):
        monkeypatch.setenv("FRAMEWORK", framework)
        declared.declared(known(), ["digits"])
        times.append(len(seen))
    assert times == asked


def test_what_a_program_says_of_the_inventory_is_not_kept(tmp_path: Path) -> None:
    script = tmp_path / "hosts"
    script.write_text("#!/bin/sh\necho '{}'\n")
    assert not declared._is_program(str(script))
    script.chmod(0o755)
    assert declared._is_program(str(script))
    script.write_text("all: {}\n")
    assert not declared._is_program(str(script))


def test_a_list_of_workers_that_is_written_again_with_the_same_workers_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path / "state"))
    sources = [str(tmp_path / "hosts.yml")]
    path = declared.list_path(sources, os.environ)
    path.parent.mkdir(parents=True)
    seen = []
    for text in ("pair-w0", "pair-w0", "pair-w1"):
        path.unlink(missing_ok=True)
        path.write_text(text)
        seen.append(list(declared._seen(sources)))
    assert seen[0] == seen[1] != seen[2]
