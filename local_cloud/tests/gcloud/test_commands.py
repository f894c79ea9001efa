"""Every command of `gcloud compute tpus`, and those about TPUs on Compute Engine.

What they ask of the cloud, and what a person reads.
"""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from compare import asked, assert_shown, expand, wanted
from discovery import check_compute
from program import Gcloud
from recording import RecordingEmulator
from table import Command, table

from tpu_local_cloud.model.cloud import DELAYS

COMMANDS = list(table())
READY = {
    "runtimeVersion": "tpu-ubuntu2204-base",
    "networkConfig": {"network": "default", "enableExternalIps": True},
}


# Each starts gcloud, which is a second of a core. In CI local_cloud/tests/api asks the same of
# Compute Engine and of v2alpha1 by Google's own libraries, what the zones offer and each refusal
# too. A dry run asks for one node and prints gcloud's own command.
AT_NIGHT = ("compute_groups", "compute_instances", "compute_offers", "errors", "offers")
# What gcloud itself refuses, or shows, of an answer that another command here gets too, or that
# test_googleapiclient.py asks for: a list without nodes and of all zones, a node that is not there
# or exists already, the state of a node.
SAME_ANSWER = (
    *("beta-has-no-tpu-vm", "create-what-exists", "describe-what-is-not-there"),
    *("list-everywhere-empty", "queued-list-active", "queued-list-everywhere", "queued-scp"),
    *("ssh-all-workers-without-command", "ssh-no-such-worker", "ssh-stopped", "ssh-terminated"),
)


def parameter(command: Command) -> Any:
    at_night = (
        command.group in AT_NIGHT
        or command.name in SAME_ANSWER
        or command.name.endswith(("-alpha", "-dry-run"))
    )
    name = f"{command.group}-{command.name}"
    return pytest.param(command, id=name, marks=[pytest.mark.night] if at_night else [])


def test_what_is_left_for_the_night_is_named_as_in_the_table() -> None:
    assert set(SAME_ANSWER) <= {command.name for command in COMMANDS}


@pytest.mark.parametrize("command", map(parameter, COMMANDS))
def test_command(command: Command, cloud: RecordingEmulator, gcloud: Gcloud, ssh_key: Path) -> None:
    said = {
        "ssh_key": " ".join(ssh_key.with_suffix(".pub").read_text().split()[:2]),
        "home": gcloud.env["HOME"],
        "project": cloud.project,
        "here": f"projects/{cloud.project}/locations/{cloud.zone}",
        "there": f"projects/{cloud.project}/locations",
        "root": cloud.url,
        "compute": f"{cloud.url}compute/v1",
    }
    prepare(command, cloud, said)
    # From here on things take a moment, so that there are operations to wait for.
    cloud.control("clock", {"mode": "real"})
    if "--async" in command.run:
        # And those that nobody waits for are still on their way when they are shown.
        cloud.control("delays", dict.fromkeys(DELAYS, 60.0))
    cloud.seen.clear()
    done = gcloud.run(*shlex.split(expand(command.run, said))[1:], **expand(command.env, said))
    seen = list(cloud.seen)
    assert done.returncode == command.exit, done.stdout + done.stderr
    assert list(asked(seen)) == list(wanted(expand(command.requests, said), seen))
    for exchange in seen:
        if exchange.path.startswith("/compute/v1/") and exchange.status == 200:
            check_compute(exchange.method, exchange.path, exchange.body, exchange.answer)
    for text in expand(command.stdout, said):
        assert text in done.stdout
    for text in expand(command.stderr, said):
        assert text in done.stderr
    if command.rows is not None:
        rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
        assert rows == [" ".join(row.split()) for row in expand(command.rows, said)]
    if command.shown is not None:
        assert_shown(expand(command.shown, said), yaml.safe_load(done.stdout))


def prepare(command: Command, cloud: RecordingEmulator, said: dict[str, str]) -> None:
    """Make what exists before, and add what the placeholders for it stand for."""
    project, here = said["project"], said["here"]

    def post(path: str, body: Any) -> Any:
        answer = requests.post(f"{cloud.url}{path}", json=body, timeout=60)
        assert answer.ok, answer.text
        return answer.json()

    for fault in command.before:
        cloud.fault(**fault)
    for name in command.disks:
        post(f"compute/v1/projects/{project}/zones/{cloud.zone}/disks", {"name": name})
    for collection, bodies in command.compute.items():
        base = f"compute/v1/projects/{project}/{collection}"
        for body in bodies:
            post(base, body)
            if "name" in body:
                made = requests.get(f"{cloud.url}{base}/{body['name']}", timeout=60).json()
                said[f"{body['name']}.id"] = made["id"]
                said[f"{body['name']}.labelFingerprint"] = made.get("labelFingerprint", "")
                tags = made.get("tags", {})
                said[f"{body['name']}.tagsFingerprint"] = tags.get("fingerprint", "")
    for name, wish in command.nodes.items():
        body = {"acceleratorType": wish} if isinstance(wish, str) else wish
        post(f"v2/{here}/nodes?nodeId={name}", {**READY, **expand(body, said)})
        node = requests.get(f"{cloud.url}v2/{here}/nodes/{name}", timeout=60).json()
        guests = post(f"v2/{here}/nodes/{name}:getGuestAttributes", {"queryPath": "hostkeys/"})
        said[f"{name}.id"] = node["id"]
        for worker, endpoint in enumerate(node["networkEndpoints"]):
            said[f"{name}.internal.{worker}"] = endpoint["ipAddress"]
            said[f"{name}.external.{worker}"] = endpoint.get("accessConfig", {}).get("externalIp")
            (key,) = guests["guestAttributes"][worker]["queryValue"]["items"]
            said[f"{name}.key.{worker}"] = key["value"]
            said[f"{name}.alias.{worker}"] = f"tpu.{node['id']}-{worker}-{key['value'][-6:]}"
    for name in command.stopped:
        post(f"v2/{here}/nodes/{name}:stop", {})
    for fault in command.faults:
        cloud.fault(**fault)
    for name, wish in command.queued.items():
        post(f"v2/{here}/queuedResources?queuedResourceId={name}", expand(wish, said))
    for name, given in command.set.items():
        cloud.control(f"nodes/{project}/{cloud.zone}/{name}:set", given)
    if command.project_metadata:
        metadata = expand(command.project_metadata, said)
        items = [{"key": key, "value": value} for key, value in metadata.items()]
        post(f"compute/v1/projects/{project}/setCommonInstanceMetadata", {"items": items})


def leaves(tree: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Return the commands of a tree of commands that can be run."""
    if not tree["commands"]:
        yield " ".join(path)
    for name, branch in tree["commands"].items():
        yield from leaves(branch, (*path, name))


# The commands for TPU nodes without machines, an architecture that Google ended in 2025.
# They use its API v1, which the local cloud does not have.
ENDED = {
    *("create", "delete", "describe", "list", "reimage", "start", "stop"),
    *("accelerator-types", "execution-groups", "versions"),
}


@pytest.mark.parametrize("track", ["", "alpha"])
def test_the_table_knows_every_command_of_this_gcloud(gcloud_program: str, track: str) -> None:
    # What gcloud itself completes command lines from.
    data = Path(gcloud_program).resolve().parents[1] / "data/cli/gcloud_completions.py"
    tree = runpy.run_path(str(data))["STATIC_COMPLETION_CLI_TREE"]
    path = ("gcloud", *track.split(), "compute", "tpus")
    for name in path[1:]:
        tree = tree["commands"][name]
    served = [leaf for leaf in leaves(tree, path) if leaf.split()[len(path)] not in ENDED]
    assert not [leaf for leaf in served if not any(runs(c, leaf) for c in COMMANDS)]


def runs(command: Command, leaf: str) -> bool:
    """Say whether a row runs a command, whatever the arguments."""
    return f"{command.run} ".startswith(f"{leaf} ")
