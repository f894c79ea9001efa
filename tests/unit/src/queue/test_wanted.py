"""What a person asks for: the definitions that it makes, and everything that is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    RUNNING,
    STOPPED,
    Definition,
    Owner,
    Submitted,
)

from tpu_fleet.queue.fleet import QueueOfFleet
from tpu_fleet.queue.sweep import SubmitError
from tpu_fleet.queue.wanted import Request, Wanted, definitions_of, wanted_of

CODE, NOW = "c" * 64, 1_700_000_000.0
QUEUE = FleetQueue(
    "lab", "queue/", venv="jax", submit_as={"alice": ("team",)}, secrets={"alice": ("wandb", "aws")}
)
SLICES: list[dict[str, Any]] = [
    {"name": "pair", "accelerator_type": "v4-16", "zone": "us-central2-b"},
    {"name": "solo", "accelerator_types": ["v4-8", "v3-8"], "zone": "us-central2-b"},
]


def no_client() -> Any:
    raise AssertionError("nothing is asked")


FLEET = QueueOfFleet(
    queue=QUEUE,
    slices={one.name: one for one in (Slice.read(entry, None) for entry in SLICES)},
    users=[{"name": "alice"}, {"name": "team"}],
    venvs=[{"name": "jax"}, {"name": "torch", "slices": ["pair"]}],
    secrets={"wandb": "alice", "aws": "team", "hf": "alice"},
    runs=["digits"],
    client=no_client,
    login_key=Path("/none"),
    folder=Path("/none"),
)
WANTED = Wanted(command=["python", "train.py"], name="lr")


def state(name: str, **more: Any) -> Submitted:
    definition = Definition(name, "alice", "alice", ("x",), "", NOW)
    return replace(objects.of_definition(definition, 0, "0" * 32, NOW), **more)


OWNER = Owner("pair", "us-central2-b", "v4-16", 8, "node", "boot")
KNOWN = {
    "runs": state("runs", state=RUNNING, owner=OWNER),
    "ended": state("ended", state=STOPPED, ended_at=NOW, round=2),
}


def made(wanted: Wanted, again: bool = False) -> list[Definition]:
    return definitions_of(wanted, CODE, Request(FLEET, "alice", KNOWN, again), NOW)


def refused(wanted: Wanted, again: bool = False) -> list[str]:
    with pytest.raises(SubmitError) as error:
        made(wanted, again)
    return str(error.value).splitlines()


def test_the_defaults_are_those_of_the_fleet_file() -> None:
    assert made(WANTED) == [
        Definition(
            name="lr",
            person="alice",
            user="alice",
            command=("python", "train.py"),
            venv="jax",
            submitted_at=NOW,
            code=CODE,
            checkpoint_dir="gs://lab/queue/checkpoints/lr",
            retries=3,
        )
    ]


def test_everything_that_is_given_is_in_the_definition() -> None:
    wanted = replace(
        WANTED,
        on=["v4-16", "pair"],
        after=["ended"],
        priority=9,
        venv="none",
        user="team",
        checkpoint_dir="none",
        retries=0,
        secrets=["aws"],
        max_hours=5,
        options={"hang_after": "30m"},
    )
    (found,) = made(wanted)
    assert (found.types, found.slices, found.after) == (("v4-16",), ("pair",), ("ended",))
    assert (found.priority, found.venv, found.user, found.checkpoint_dir) == (9, "", "team", None)
    assert (found.retries, found.secrets, found.max_hours) == (0, ("aws",), 5)
    assert found.options == {"hang_after": "30m"}


def test_each_arm_has_its_command_and_its_checkpoints() -> None:
    sweep = {"lr": ["1", "2"]}
    wanted = replace(WANTED, command=["train", "--lr={lr}"], sweep=sweep)
    found = made(wanted)
    assert [(one.name, one.command[1]) for one in found] == [("lr-1", "--lr=1"), ("lr-2", "--lr=2")]
    assert found[1].checkpoint_dir == "gs://lab/queue/checkpoints/lr-2"
    assert [(one.sweep, one.at_once) for one in found] == [("lr", None)] * 2
    assert [one.parameters for one in found] == [{"lr": "1"}, {"lr": "2"}]
    assert {one.at_once for one in made(replace(wanted, at_once=1))} == {1}
    own = made(replace(wanted, checkpoint_dir="gs://lab/{name}/lr{lr}"))
    assert [one.checkpoint_dir for one in own] == ["gs://lab/lr-1/lr1", "gs://lab/lr-2/lr2"]


def test_a_run_that_takes_the_place_of_another_has_its_own_checkpoints() -> None:
    (found,) = made(replace(WANTED, name="ended"), again=True)
    assert found.checkpoint_dir == "gs://lab/queue/checkpoints/ended.3"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train"),
        (["python", "-u", "src/Train_Model.py", "x.py"], "train-model"),
        (["/opt/bin/go"], "go"),
        (["python", "runs.py"], "runs2"),
        (["./42.py"], "run"),
    ],
)
def test_a_run_without_a_name_has_that_of_its_program(command: list[str], name: str) -> None:
    assert made(Wanted(command=command))[0].name == name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"command": []}, "command: it is missing. Write it after --"),
        ({"name": "LR"}, "--name LR: LR is not the name of a run. Use a-z, 0-9 and -"),
        ({"name": "digits"}, "--name digits: digits is a run of fleet_runs. Give another name"),
        ({"name": "runs"}, "--name runs: runs exists and runs. Give another name"),
        (
            {"name": "ended"},
            "--name ended: ended exists and is stopped. Give another name, or take",
        ),
        ({"sweep": {"lr": ["1"]}}, "--sweep lr: the command has no {lr}. Write it where"),
        ({"at_once": 2}, "--at-once 2: it is for a sweep. Add --sweep, or leave it out"),
        ({"on": ["par"]}, "--on par: it is neither a slice that serves the queue nor the type of"),
        ({"on": ["v4-32"]}, "--on v4-32: no slice that serves the queue has this type. Did you"),
        ({"venv": "jaxx"}, "--venv jaxx: it is not in fleet_venvs. Did you mean jax?"),
        ({"user": "root"}, "--as root: alice may submit as alice or team. fleet_queue.submit_as"),
        ({"secrets": ["hf"]}, "--secrets hf: runs of alice may not have it. fleet_queue.secrets"),
        ({"secrets": ["wand"]}, "--secrets wand: it is not in fleet_secrets. Did you mean wandb?"),
        ({"secrets": ["aws"]}, "--secrets aws: it is for team, and the run is as alice. Give --as"),
        ({"after": ["lr"]}, "--after lr: a run cannot wait for itself. Name another"),
        ({"after": ["end"]}, "--after end: it is not in the queue. Did you mean ended?"),
        ({"after": ["digits"]}, "--after digits: it is a run of fleet_runs. Name a submitted one"),
        ({"checkpoint_dir": "here"}, "--checkpoint-dir here: it is no bucket and no whole path."),
        (
            {"checkpoint_dir": "/var/lib/tpu-fleet/{name}"},
            "--checkpoint-dir /var/lib/tpu-fleet/{name}: a run has no folder there but",
        ),
        ({"priority": 10}, "priority: 10 must be a whole number 0…9."),
        ({"options": {"grace": 5}}, "options: {'grace': 5} must be keys of a run"),
        ({"on": ["v4-8"], "venv": "torch"}, "--on, --venv: no slice that serves the queue can run"),
    ],
)
def test_what_is_wrong(change: dict[str, Any], words: str) -> None:
    (line,) = refused(replace(WANTED, **change))
    assert line.startswith(words)


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(refused(replace(WANTED, name="digits", venv="x", on=["y"], user="z"))) == 4


def test_an_open_run_keeps_its_place() -> None:
    (line,) = refused(replace(WANTED, name="runs"), again=True)
    assert line == "--again: runs exists and runs. Stop it first: tpu-fleet stop runs"


def test_runs_of_a_sweep_never_share_checkpoints() -> None:
    wanted = replace(WANTED, command=["{lr}"], sweep={"lr": ["1", "2"]})
    (line,) = refused(replace(wanted, checkpoint_dir="gs://lab/x"))
    assert line.endswith("several runs would write to one folder. Put {name} in it")


def test_values_that_are_too_long_for_a_state_are_refused() -> None:
    wanted = replace(WANTED, command=["{text}"], sweep={"text": ["x" * 999]})
    (line,) = refused(wanted)
    assert line.endswith("900 letters in all: put longer ones into a file.")


def test_a_slice_that_is_reserved_for_others_is_no_place() -> None:
    queue = replace(QUEUE, reserved={"pair": ("team",), "solo": ("alice",)})
    fleet = replace(FLEET, queue=queue)
    with pytest.raises(SubmitError, match="pair is reserved for team"):
        definitions_of(replace(WANTED, on=["pair"]), None, Request(fleet, "alice", {}), NOW)
    (found,) = definitions_of(replace(WANTED, on=["solo"]), None, Request(fleet, "alice", {}), NOW)
    assert found.slices == ("solo",)


def test_a_person_whose_name_is_no_user_of_the_fleet() -> None:
    fleet = replace(FLEET, users=[{"name": "team"}])
    with pytest.raises(SubmitError, match="--as alice: it is not in fleet_users"):
        definitions_of(WANTED, None, Request(fleet, "alice", {}), NOW)


def test_an_entry_of_a_file_goes_before_the_command_line() -> None:
    entry = {
        "name": "b",
        "command": "python train.py --lr {lr} 'a b'",
        "sweep": {"lr": [1e-3, "x"], "seed": "1..2"},
        "venv": None,
        "hang_after": "30m",
        # As YAML reads the key `on`.
        True: ["pair"],
    }
    found = wanted_of(
        entry, "runs.yml[0]", replace(WANTED, priority=3, options={"fence": "folder"})
    )
    assert found.command == ["python", "train.py", "--lr", "{lr}", "a b"]
    assert found.sweep == {"lr": ["0.001", "x"], "seed": ["1", "2"]}
    assert (found.name, found.priority, found.venv, found.on) == ("b", 3, "none", ["pair"])
    assert found.options == {"fence": "folder", "hang_after": "30m"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("x", "runs.yml: it is no run. Give it the keys"),
        ({"comand": "x"}, "runs.yml.comand = 'x': is not a known key. Did you mean command?"),
        ({"priority": "high"}, "runs.yml.priority = 'high': must be a whole number"),
        ({"command": 5}, "runs.yml.command: "),
        ({"command": "a 'b"}, "runs.yml.command: No closing quotation. Write it as on a command"),
        ({"on": "v4-8"}, "runs.yml.on = 'v4-8': must be a list"),
    ],
)
def test_what_is_wrong_in_a_file(entry: Any, words: str) -> None:
    with pytest.raises(SubmitError) as error:
        wanted_of(entry, "runs.yml", WANTED)
    assert str(error.value).startswith(words)
