"""Runs that are submitted to a bucket of the local cloud: what is written, refused, stopped."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import replace
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._compute.machine_types import shape_of
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_bodies import (
    Shape,
    slice_bodies,
)
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import FAILED, Owner
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Exists
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec

from tpu_fleet.queue.bucket import FleetBucket
from tpu_fleet.queue.sign import NAMESPACE
from tpu_fleet.queue.sweep import SubmitError
from tpu_fleet.queue.view import look, table_of

SOLO = Serving("solo", "v4-8", 4)
OWNER = Owner("solo", "us-central2-b", "v4-8", 4, "node-1", "boot-1")


def test_a_run_is_written_with_code_and_signature(lab: Any) -> None:
    submission = lab.submit(name="lr", priority=2)
    (run,) = submission.runs
    code = submission.codes[0].sha
    assert lab.objects("runs/") == ["runs/lr"]
    assert lab.objects("code/") == [f"code/{code}.tar.gz"]
    assert lab.objects("waiting/") == ["waiting/7/000000000/alice/lr"]
    assert "bell" in lab.objects("bell")
    assert hashlib.sha256(lab.read(f"code/{code}.tar.gz")).hexdigest() == code
    signed = objects.signed_of(lab.read(f"definitions/{run.definition}"))
    assert objects.sha_of(signed.signed) == run.definition
    assert objects.definition_of(signed.signed).code == code
    (lab.folder / "allowed").write_text(f'alice namespaces="{NAMESPACE}" {lab.public("alice")}\n')
    (lab.folder / "signature").write_text(signed.signature)
    words = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", "alice"]
    words += ["-f", str(lab.folder / "allowed"), "-s", str(lab.folder / "signature")]
    subprocess.run(words, input=signed.signed.encode(), check=True, capture_output=True)


def test_a_name_is_taken_once(lab: Any) -> None:
    lab.submit(name="lr")
    before = lab.objects()
    with pytest.raises(SubmitError, match="--name lr: lr exists and is waiting"):
        lab.submit(name="lr")
    with pytest.raises(SubmitError, match="--again: lr exists and is waiting"):
        lab.submit(name="lr", again=True)
    assert lab.objects() == before


def test_a_run_that_has_ended_can_be_replaced(lab: Any) -> None:
    lab.submit(name="lr")
    queue = lab.queue()
    queue.stop("lr", "alice")
    (run,) = lab.submit(name="lr", again=True, command=["python", "other.py"]).runs
    assert (run.state, run.round) == ("waiting", 2)
    text = objects.signed_of(lab.read(f"definitions/{run.definition}")).signed
    assert objects.definition_of(text).checkpoint_dir == "gs://lab/queue/checkpoints/lr.2"


def test_two_people_submit_the_same_name_at_the_same_time(lab: Any) -> None:
    """The bucket itself refuses the second, as the name was free when both looked."""
    first = lab.submit(name="lr", dry_run=True)
    queue = lab.queue()
    lab.submit(person="bob", name="lr")
    signed = objects.Signed(objects.definition_text(first.definitions[0]), "x")
    with pytest.raises(Exists, match="lr"):
        queue.submit(first.definitions[0], signed, 0)
    assert queue.read("lr").run.person == "bob"


def test_a_dry_run_writes_nothing_and_says_the_same(lab: Any) -> None:
    sweep = {"command": ["python", "train.py", "{lr}"], "sweep": {"lr": ["1", "2"]}, "name": "lr"}
    dry = lab.submit(dry_run=True, **sweep)
    assert lab.objects() == []
    assert dry.places == lab.submit(**sweep).places


def test_a_sweep_uploads_its_code_once_and_waits_in_order(lab: Any) -> None:
    command = ["python", "train.py", "{lr}", "{seed}"]
    sweep = {"lr": ["1e-3", "3e-4"], "seed": ["1", "2", "3"]}
    submission = lab.submit(name="lr", command=command, sweep=sweep)
    lab.submit(person="bob", name="mine")
    assert submission.names == [f"lr-{number}" for number in range(1, 7)]
    assert len(lab.objects("code/")) == 1
    # Everybody's first comes before anybody's second.
    order = [name.rpartition("/")[2] for name in lab.objects("waiting/")]
    assert order == ["lr-1", "mine", "lr-2", "lr-3", "lr-4", "lr-5", "lr-6"]
    arms = [one.command[2:] for one in submission.definitions]
    assert arms[0] == ("1e-3", "1")
    assert arms[-1] == ("3e-4", "3")
    again = lab.submit(name="more", command=["python", "train.py"])
    assert len(lab.objects("code/")) == 1
    assert again.codes[0].sha == submission.codes[0].sha


def test_every_run_that_waits_has_a_reason(lab: Any) -> None:
    lab.submit(name="first")
    lab.submit(name="second", after=["first"])
    lab.submit(name="large", on=["v4-16"])
    fleet, queue = lab.fleet(), lab.queue()
    view = look(fleet, queue, 0.0)
    why = {run.name: view.why(run) for run in view.runs}
    assert why["second"] == "waits for first to end"
    assert "pair (does not exist now)" in why["large"]
    assert why["first"].startswith("first in turn; ")
    assert queue.claim_next(SOLO, OWNER).run.name == "first"
    assert next(run.name for run in look(fleet, queue, 0.0).in_order()) == "first"


def test_a_run_whose_slice_the_api_has_no_more_waits_again(lab: Any) -> None:
    lab.submit(name="lr")
    fleet, queue = lab.fleet(), lab.queue()
    queue.claim_next(SOLO, OWNER)
    (run,) = look(fleet, queue, 0.0).runs
    assert (run.state, run.reason) == ("waiting", "solo was deleted")
    assert lab.objects("waiting/") == ["waiting/9/000000000/alice/lr"]


def test_a_run_whose_slice_is_there_goes_on(lab: Any) -> None:
    lab.cloud.populate(1, prefix="solo")
    (node,) = lab.nodes()
    owner = Owner(node["name"], "us-central2-b", "v4-8", 4, node["id"], "boot-1")
    fleet = replace(lab.fleet(), slices={node["name"]: lab.fleet().slices["solo"]})
    lab.submit(name="lr")
    queue = lab.queue()
    mine = queue.claim_next(replace(SOLO, name=node["name"]), owner)
    (run,) = look(fleet, queue, 0.0).runs
    assert (run.state, run.owner) == ("running", owner)
    assert queue.renew(mine, objects.Progress(300, 0.25))
    (told,) = look(fleet, queue, 0.0).to_dict()["runs"]
    assert (told["state"], told["step"], told["loss"]) == ("running", 300, 0.25)


def test_a_slice_of_compute_engine_that_was_created_again_has_its_run_no_more(lab: Any) -> None:
    zone = "us-east5-a"
    spec = NodeSpec("vm-0", zone, lab.cloud.project, "v6e-1")
    client = Client(lab.cloud.project, endpoint=lab.cloud.url)
    ComputeSlices(client).create(zone, slice_bodies(spec, Shape(*shape_of("v6e-1"))))
    declared = replace(lab.fleet().slices["solo"], api="compute")
    fleet = replace(lab.fleet(), slices={"vm-0": declared})
    address = f"compute/v1/projects/{lab.cloud.project}/zones/{zone}/instances/vm-0"
    there = requests.get(lab.cloud.url + address, timeout=30).json()["id"]
    lab.submit(name="lr")
    queue, serving = lab.queue(), replace(SOLO, name="vm-0")
    for node, state in ((there, "running"), ("17", "waiting")):
        owner = Owner("vm-0", zone, "v6e-1", 1, node, "boot-1")
        mine = queue.claim_next(serving, owner)
        (run,) = look(fleet, queue, 0.0).runs
        assert run.state == state, run.reason
        if state == "running":
            queue.give_back(mine, "so that another has it")
    assert run.reason == "vm-0 was created again"


def test_a_waiting_run_stops_at_once_and_a_running_one_when_its_owner_reads_it(lab: Any) -> None:
    lab.submit(name="a")
    lab.submit(name="b")
    queue = lab.queue()
    mine = queue.claim_next(SOLO, OWNER)
    assert mine.run.name == "a"
    assert queue.stop("b", "bob").state == "stopped"
    assert queue.stop("a", "bob").state == "running"
    assert queue.wish(mine.run).person == "bob"


def test_a_failed_run_is_retried_and_a_done_one_is_not(lab: Any) -> None:
    lab.submit(name="lr")
    queue = lab.queue()
    queue.finish(queue.claim_next(SOLO, OWNER), Outcome(FAILED, "exit 1", 1, 2, 2))
    assert queue.retry("lr", "alice").state == "waiting"
    queue.finish(queue.claim_next(SOLO, OWNER), Outcome("done", "", 0, 3))
    assert queue.retry("lr", "alice").state == "done"


HOSTILE = {
    "runs/bad": b"{",
    "runs/other": b'{"name":"x"}',
    "runs/../../x": b"\xff\xfe",
    "runs/" + "a" * 300: b"[]",
    "runs/huge": b"[" * 200_000,
    "waiting/9/000000000/alice/ghost": b"",
    "waiting/zzz": b"",
    "stop/lr": b'{"at":NaN}',
    "bell": b"\x00" * 1000,
    "definitions/x": b"x",
    "runs/\x1b[31mred": b"{}",
}


def test_a_bad_object_costs_only_itself(lab: Any) -> None:
    lab.submit(name="lr")
    for name, data in HOSTILE.items():
        lab.write(name, data)
    fleet, queue = lab.fleet(), lab.queue()
    view = look(fleet, queue, 0.0)
    assert [run.name for run in view.runs] == ["lr"]
    assert {"runs/bad", "runs/other", "runs/huge"} <= set(view.refused)
    json.dumps(view.to_dict())
    assert "\x1b" not in str(table_of(view).rows)
    assert lab.submit(person="bob", name="mine").failed == {}
    assert queue.claim_next(SOLO, OWNER).run.name == "lr"
    assert queue.stop("mine", "bob").state == "stopped"


def test_the_state_of_another_run_under_a_name_is_refused(lab: Any) -> None:
    lab.submit(name="lr")
    lab.write("runs/copy", lab.read("runs/lr"))
    view = look(lab.fleet(), lab.queue(), 0.0)
    assert [run.name for run in view.runs] == ["lr"]
    assert list(view.refused) == ["runs/copy"]


def test_the_command_with_a_fleet_file(lab: Any) -> None:
    """As a process; the unit tests of the commands have what they print in other cases."""
    lab.declare()
    words = ["--name", "lr", "--sweep", "seed=1..2", "--ssh-key", str(lab.keys["alice"])]
    done = lab.run("submit", *words, "--", "python", "train.py", "--seed", "{seed}")
    assert done.returncode == 0, done.stderr
    assert "code of code (no commit)" in done.stdout
    assert "2 runs of alice, as user alice, venv jax, on pair, solo" in done.stdout
    assert "lr-1: first in turn; " in done.stdout
    assert "2 runs submitted. Next: tpu-fleet runs --queue" in done.stdout
    runs = look(lab.fleet(), lab.queue(), 0.0).in_order()
    assert [(run.name, run.person, run.state) for run in runs] == [
        ("lr-1", "alice", "waiting"),
        ("lr-2", "alice", "waiting"),
    ]


def test_a_bucket_that_is_not_there_is_named_with_what_makes_it(lab: Any) -> None:
    bucket = FleetBucket(lab.fleet().client(), "other", "queue/")
    for ask in (lambda: bucket.put("bell", b"", {}), lambda: bucket.list("runs/")):
        with pytest.raises(NoAnswer, match="There is no bucket other"):
            ask()
