"""The playbooks where no machine is needed to see what they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from emulator import Emulator

Play = Callable[..., str]
SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": Emulator.zone}


def test_a_fleet_without_slices(play: Play) -> None:
    play("ansible-playbook", "tpu.fleet.provision", fleet={})
    play("ansible-playbook", "tpu.fleet.site", fleet={})


def test_a_first_look_in_check_mode(play: Play, tmp_path: Path) -> None:
    play("ansible-playbook", "tpu.fleet.provision", "--check", fleet={"fleet_slices": [SOLO]})
    assert not list((tmp_path / "state").glob("key*"))


ONE = """
all: {hosts: {here: {ansible_connection: local}}, children: {tpu: {hosts: {here: {}}}}}
"""


def test_a_limit_takes_the_code_as_it_is_now(play: Play, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print()\n")
    tree = {"name": "digits", "owner": "root", "folder": "code"}
    play(
        "ansible-playbook", "tpu.fleet.configure", "--limit=here", "--tags=nothing",
        fleet={"code_checkout_trees": [tree]}, hosts=ONE,
    )  # fmt: skip
    assert (tmp_path / "state" / "snapshots" / "digits.tar.gz").exists()


def test_a_run_that_is_refused_does_not_show_its_environment(play: Play) -> None:
    run = {"name": "r", "slices": ["here"], "user": "root", "command": "x", "env": {"T": "hush"}}
    words = ("ansible-playbook", "tpu.fleet.train", "--limit=here", "-v")
    out = play(
        *words, fleet={"training_run_runs": [{**run, "stop_signal": "KILL"}]}, hosts=ONE, ok=False
    )
    assert "a stop signal out of" in out
    assert "hush" not in out
