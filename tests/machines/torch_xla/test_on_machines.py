"""The demo with torch_xla on machines, through a kill, a reboot and a preemption.

`.venv/bin/pytest tests/machines/torch_xla`. Role python_env builds the environment on each machine
from the ordinary index, which takes 6 GB there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from example_python import NOT_LINKED
from fleet import Fleet, wait_until, what_changed
from torch_xla_gang import EVERY, FLAGS, STEPS

ZONE = "us-central2-b"
WORKERS = {"solo": ("solo",), "pair": ("pair-w0", "pair-w1")}
LIMIT = 900  # seconds, for what takes one minute when nothing else is done here
WITHOUT = "/etc/not-linked.txt"
STARTUP = f"#!/bin/sh\nprintf '%s\\n' {' '.join(NOT_LINKED)} > {WITHOUT}\n"
FLEET: dict[str, Any] = {
    "fleet_slices": [
        {
            "name": name,
            "accelerator_type": kind,
            "zone": ZONE,
            # Checkpoints must outlive the machines.
            "metadata": {"local-cloud-share": "yes"},
            "startup_script": STARTUP,
        }
        for name, kind in (("solo", "v4-8"), ("pair", "v4-16"))
    ],
    # What role and program need, and no more: the library of Python comes by the role itself.
    "fleet_base_packages": ["ca-certificates", "python3-venv", "sudo", "tmux", "tzdata"],
    "fleet_shell_packages": [],
    "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
    "fleet_torch_index_url": None,
    # Environment and program are the demo's.
    "fleet_build_env": {"UV_EXCLUDE": WITHOUT},
    "fleet_run_lost_after": "20s",
    "fleet_runs": [
        {
            "name": name,
            "slices": [name],
            "user": "alice",
            "venv": "torch_xla",
            "code": "digits",
            "command": f"python train.py {FLAGS} --step-seconds 0.4",
            "checkpoint_dir": f"/mnt/share/{name}",
        }
        for name in WORKERS
    ],
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The two slices, with runs that train."""
    fleet = Fleet(tmp_path_factory.mktemp("torch_xla"), FLEET)
    fleet.env["FRAMEWORK"] = "torch_xla"
    fleet.up()
    try:
        fleet.first_site = fleet.run("ansible-playbook", "site.yml", limit=3600)
        yield fleet
    finally:
        fleet.down()


def goes_on(fleet: Fleet, attempt: int) -> dict[str, int]:
    """Wait until both runs train in an attempt, past two checkpoints; return where it began."""
    begun = {}
    for name, hosts in WORKERS.items():
        for host in hosts:
            words = rf"attempt {attempt} begins at step (\d+)\b"
            found = wait_until(
                f"attempt {attempt} on {host}",
                lambda host=host, name=name, words=words: (
                    fleet.status(host, name).get("attempt") == attempt
                    and re.findall(words, fleet.log(host, name))
                ),
                LIMIT,
            )
            assert begun.setdefault(name, int(found[-1])) == int(found[-1]), "all from the same"
        further = begun[name] + 2 * EVERY
        assert further + EVERY < STEPS, "it must not end before it was disturbed again"
        wait_until(
            f"step {further} of {name}",
            lambda name=name, further=further: fleet.steps(WORKERS[name][0], name) > further,
            LIMIT,
        )
    return begun


def test_a_kill_a_reboot_and_a_preemption_leave_no_trace(
    fleet: Fleet, undisturbed: Callable[[int], dict[str, Any]]
) -> None:
    assert "python_env : Install the library]: " in what_changed(fleet.first_site)
    assert set(goes_on(fleet, 1).values()) == {0}
    for name, hosts in WORKERS.items():
        fleet.ssh(hosts[-1], f"sudo kill -9 {fleet.status(hosts[-1], name)['pid']}")
    killed = goes_on(fleet, 2)
    assert all(step >= 2 * EVERY for step in killed.values())

    fleet.run("tpu-fleet", "cloud", "reboot", "solo")
    fleet.run("tpu-fleet", "cloud", "reboot", "pair", "--worker", "1")
    rebooted = goes_on(fleet, 3)
    assert all(rebooted[name] >= killed[name] + 2 * EVERY for name in WORKERS)

    before = fleet.cloud()
    for name in WORKERS:
        fleet.run("tpu-fleet", "cloud", "preempt", name)
    fleet.run("ansible-playbook", "tpu.fleet.reprovision", limit=3600)
    after = fleet.cloud()
    assert all(after[name]["uid"] != before[name]["uid"] for name in WORKERS)
    for name, hosts in WORKERS.items():
        for host in hosts:
            wait_until(
                f"{name} succeeds on {host}",
                lambda host=host, name=name: fleet.status(host, name).get("state") == "succeeded",
                LIMIT,
            )
            log = fleet.log(host, name)
            begun = [int(step) for step in re.findall(r"begins at step (\d+)", log)]
            assert begun[0] >= rebooted[name] + 2 * EVERY, "from the checkpoint of the old machine"
            final = json.loads(re.findall(r"final (\{.*\})", log)[-1])
            assert final == undisturbed(len(hosts))
