"""A command in a process that has Ansible imported is the command that would be started."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warm_ansible import ROOT, STARTED, run_ansible

SAYS = {"msg": "{{ lookup('env', 'TPU_FLEET_SAYS') }} in {{ lookup('pipe', 'pwd') }} {{ mine }}"}
PLAY: dict[str, Any] = {"hosts": "all", "connection": "local", "gather_facts": False}
FAILS = {"ansible.builtin.fail": {"msg": "no"}, "when": "mine == 'b'"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A playbook, and two inventories whose hosts have a variable each."""
    tasks = [{"ansible.builtin.debug": SAYS}, FAILS]
    (tmp_path / "play.json").write_text(json.dumps([{**PLAY, "tasks": tasks}]))
    for name in "ab":
        hosts = {f"host-{name}": {"mine": name}}
        (tmp_path / f"{name}.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    return tmp_path


def environment(folder: Path, name: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_HOME": str(folder / f"home-{name}"),
        "ANSIBLE_INVENTORY": str(folder / f"{name}.yml"),
        "ANSIBLE_NOCOLOR": "1",
        "TPU_FLEET_SAYS": name,
    }


def commands(folder: Path) -> list[tuple[int, str, str]]:
    """Run three commands that differ in all that may differ; return how each went."""
    found = []
    for words, name in (
        (("ansible-playbook", "play.json"), "a"),
        (("ansible-playbook", "play.json", "-v"), "b"),
        (("ansible-inventory", "--host", "host-none"), "b"),
    ):
        done = run_ansible(words, environment(folder, name), folder)
        found.append((done.returncode, done.stdout, done.stderr))
    return found


def test_it_does_what_the_program_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = commands(folder)
    homes = sorted(path.name for path in folder.glob("home-*"))
    assert homes == ["home-a", "home-b"]
    monkeypatch.setenv(STARTED, "1")
    assert warm == commands(folder)
    assert [code for code, _out, _err in warm] == [0, 2, 5]
    assert f"a in {folder} a" in warm[0][1]
    assert f"b in {folder} b" in warm[1][1]
    # Temporary folders are removed as the program does it.
    assert [list((folder / home / "tmp").glob("ansible-local-*")) for home in homes] == [[], []]


def test_what_takes_too_long_is_ended(folder: Path) -> None:
    sleeps = {"ansible.builtin.command": "sleep 20"}
    (folder / "play.json").write_text(json.dumps([{**PLAY, "tasks": [sleeps]}]))
    words = ("ansible-playbook", "play.json")
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run_ansible(words, environment(folder, "a"), folder, limit=3)
    assert late.value.timeout == 3
    # The process that waits for commands is there for the next one.
    version = run_ansible(("ansible-playbook", "--version"), environment(folder, "a"), folder)
    assert version.stdout.startswith("ansible-playbook [core ")
