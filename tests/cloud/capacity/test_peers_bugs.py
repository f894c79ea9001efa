"""The bugs that other tools had with capacity and listing, each as a test.

The numbers are those of a list of 22 bugs. What is not here belongs to other parts:

11 kinds of chip devices: tests/unit/plugins/module_utils/_host/test_chips.py · 12 a lock file of
another user: tests/unit/roles/training_run/run_agent/act/test_devices.py · 13 no restart by a login
shell, 14 session names that are prefixes, 18 a reboot in the middle: tests/cloud/run_agent · 15 one
worker out of reach is not "ok": tests/cloud/run_agent (a worker that stays away) · 17 the package
lock of the first boot: tests/unit/plugins/modules/test_first_boot.py · 19 a Python too old for the
framework: tests/unit/plugins/module_utils/_roles/python_env/test_plan.py. Of 20 and 22 the half
that concerns the API is here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import NotFound, TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff, SystemClock
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import (
    FleetApplier,
    Pace,
    Result,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import holdings_of
from ansible_collections.tpu.fleet.plugins.module_utils._inventory import fetch as _inventory
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import AuthOptions, Client
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_spec import queued_body
from emulator import Emulator

FIRST, SECOND = "us-central1-a", "europe-west4-b"
SPOT = {
    "name": "big",
    "accelerator_type": "v5litepod-16",
    "zones": [FIRST],
    "tier": "spot",
    "labels": {"team": "vision"},
    "metadata": {"note": "kept"},
    "tags": ["lab"],
    "startup_script": "echo hello",
    "description": "the big one",
}
PACE = Pace(
    poll=Backoff(first=0.02, factor=1.5, most=0.1),
    again=Backoff(first=0.1, factor=1.0, most=0.1),
    settle=1.0,
    report=1.0,
)


class Impatient(SystemClock):
    """The real time, until a user presses Ctrl-C."""

    def __init__(self, sleeps: int) -> None:
        self._left = sleeps

    def sleep(self, seconds: float) -> None:
        """Sleep, or be interrupted."""
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        super().sleep(seconds)


def controller(cloud: Emulator, *slices: dict[str, Any], **options: Any) -> FleetApplier:
    """Return a new controller, which remembers nothing of any other."""
    params = {
        "slices": list(slices),
        "allocations": options.pop("allocations", "unrestricted"),
        "prune": options.pop("prune", False),
    }
    client = Client(
        cloud.project,
        endpoint=cloud.url,
        clock=options.pop("clock", None),
        auth=AuthOptions(access_token=options.pop("token", None)),
    )
    said = options.pop("said", [])
    return FleetApplier(
        TpuApi(client),
        Fleet.from_params(params, cloud.project),
        timeout=options.pop("timeout", 30.0),
        strict=False,
        progress=said.append,
        pace=PACE,
        **options,
    )


def apply(cloud: Emulator, *slices: dict[str, Any], **options: Any) -> Result:
    """Let a new controller do its work."""
    return controller(cloud, *slices, **options).apply()


def client_of(cloud: Emulator) -> Client:
    return Client(cloud.project, endpoint=cloud.url)


def states(cloud: Emulator) -> dict[str, str]:
    """Return zone/name of all nodes, with their states."""
    return {f"{n.zone}/{n.name}": n.state for n in client_of(cloud).nodes.list().items}


def kinds(result: Result) -> list[str]:
    return [action.kind for action in result.actions]


def verb(cloud: Emulator, zone: str, name: str, what: str, body: Any = None) -> None:
    cloud.control(f"nodes/{cloud.project}/{zone}/{name}:{what}", body or {})


def spec_of(cloud: Emulator, zone: str, name: str) -> dict[str, Any]:
    """Return what a person chose of a node."""
    raw = client_of(cloud).nodes.get(zone, name).raw
    service = ("name", "id", "state", "health", "createTime", "networkEndpoints", "symptoms")
    kept = {key: value for key, value in raw.items() if key not in service}
    kept["labels"] = {k: v for k, v in kept["labels"].items() if "lease" not in k}
    return kept


def hosts(cloud: Emulator, folder: Path, **query: Any) -> dict[str, _inventory.Host]:
    """Return the hosts of the inventory, in their order."""
    wanted = _inventory.Query(projects=(cloud.project,), **query)
    data = _inventory.fetch(wanted, lambda _project: client_of(cloud))
    found, _files = _inventory.hosts_of(data, wanted, folder)
    return {host.worker.host: host for host in found}


def until(true: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until something is the case."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def test_bug_01_create_fails_after_delete_spec_survives(cloud: Emulator) -> None:
    """A babysitter deleted the dead node, failed to create, and had lost what to create."""
    apply(cloud, SPOT)
    before = spec_of(cloud, FIRST, "big")
    verb(cloud, FIRST, "big", "preempt")
    cloud.fault("stock_out", match={"zone": FIRST})
    said: list[str] = []
    failed = apply(cloud, SPOT, timeout=5.0, said=said)
    assert kinds(failed)[:2] == ["delete_node", "create_node"]
    until(lambda: states(cloud) == {})
    assert any("no capacity for v5litepod-16 in" in line for line in said)
    cloud.control("faults", method="DELETE")
    assert apply(cloud, SPOT).slices["big"].phase == "ready"
    assert spec_of(cloud, FIRST, "big") == before


@pytest.mark.parametrize("sleeps", [0, 1, 4])
def test_bug_02_interrupted_hunt_leaves_nothing_unknown(cloud: Emulator, sleeps: int) -> None:
    """Ctrl-C during the hunt for capacity left queued resources that no record named."""
    wanted = {**SPOT, "queued": True}
    cloud.fault("stock_out", match={"zone": FIRST})
    with pytest.raises(KeyboardInterrupt):
        apply(cloud, wanted, clock=Impatient(sleeps))
    (left,) = client_of(cloud).queued_resources.list().items
    assert left.labels["tpu-fleet"] == "managed"
    # Whoever declares it goes on with it; for all others it is an orphan that can be pruned.
    assert [a.kind for a in controller(cloud, wanted).plan().actions] == []
    other = {**SPOT, "name": "other", "zones": [SECOND]}
    (orphan,) = controller(cloud, other).plan().orphans
    assert (orphan.kind, orphan.name) == ("queued resource", "big")
    cloud.control("faults", method="DELETE")
    assert apply(cloud, wanted).slices["big"].phase == "ready"
    apply(cloud, other, prune=True)
    assert client_of(cloud).queued_resources.list().items == []
    assert states(cloud) == {f"{SECOND}/other": "READY"}


def test_bug_03_a_failed_try_is_followed_by_another(cloud: Emulator) -> None:
    """The helper that reported a failure ended the program, so that nothing was ever retried."""
    cloud.fault("stock_out", count=3)
    said: list[str] = []
    result = apply(cloud, SPOT, said=said)
    assert result.slices["big"].phase == "ready"
    assert kinds(result) == ["create_node"] * 4
    assert any("attempt 3" in line for line in said)


def test_bug_04_a_lost_node_and_its_successor_are_not_two_hosts(
    cloud: Emulator, tmp_path: Path
) -> None:
    """The preempted node and the new one of the same name were both listed as the cluster."""
    apply(cloud, SPOT)
    verb(cloud, FIRST, "big", "preempt")
    moved = {**SPOT, "zones": [SECOND, FIRST]}
    fleet = controller(cloud, moved).fleet
    place = fleet.slices[0].candidates[0]
    body = fleet.node_spec(fleet.slices[0], place).create_body()
    client_of(cloud).nodes.create(SECOND, "big", body)
    both = hosts(cloud, tmp_path)
    assert [name for name, host in both.items() if host.worker.usable] == [
        f"big.{SECOND}-w{k}" for k in range(4)
    ]
    assert [host.worker.node.state for host in both.values()].count("PREEMPTED") == 4
    assert kinds(apply(cloud, moved)) == ["delete_node"]
    assert list(hosts(cloud, tmp_path)) == [f"big-w{k}" for k in range(4)]


def test_bug_05_deleting_is_neither_there_nor_gone(cloud: Emulator, tmp_path: Path) -> None:
    """A node in DELETING was taken for an existing one, or for one whose name is free."""
    apply(cloud, SPOT)
    cloud.control("clock", {"mode": "manual"})
    client_of(cloud).nodes.delete(FIRST, "big")
    assert states(cloud) == {f"{FIRST}/big": "DELETING"}
    assert [h.worker.reason for h in hosts(cloud, tmp_path).values()] == ["is being deleted"] * 4
    plan = controller(cloud, SPOT).plan()
    assert plan.actions == ()
    assert plan.statuses[0].phase == "clearing"
    cloud.control("clock", {"mode": "immediate"})
    assert kinds(apply(cloud, SPOT)) == ["create_node"]
    assert states(cloud) == {f"{FIRST}/big": "READY"}


def test_bug_06_not_found_while_polling(cloud: Emulator) -> None:
    """A 404 right after create, or after another client's delete, ended the wait with a trace."""
    cloud.fault("not_found_after_create", count=3)
    client = client_of(cloud)
    body = NodeSpec.from_params(
        {"name": "n", "zone": FIRST, "accelerator_type": "v5litepod-4"}, cloud.project
    ).create_body()
    operation = client.nodes.create(FIRST, "n", body)
    fast = Backoff(first=0.02, most=0.05)
    assert client.nodes.wait_ready(FIRST, "n", operation, 20, fast).state == "READY"
    # One that was deleted by somebody else is wanted as before, and made again.
    apply(cloud, SPOT)
    client.nodes.delete(FIRST, "big")
    until(lambda: f"{FIRST}/big" not in states(cloud))
    assert kinds(apply(cloud, SPOT)) == ["create_node"]
    # Deleting what is gone already is no failure of the one who wanted it gone.
    with pytest.raises(NotFound):
        client.nodes.delete(FIRST, "never")


def test_bug_07_a_queued_resource_without_a_type_counts(cloud: Emulator) -> None:
    """An adopted queued resource had an empty accelerator type, and broke the sums."""
    body = queued_body(
        cloud.project,
        FIRST,
        {
            "odd": {
                "acceleratorConfig": {"type": "V5LITE_POD", "topology": "4x4"},
                "runtimeVersion": "v2-alpha-tpuv5-lite",
                "labels": {"tpu-fleet": "managed"},
            }
        },
        tier="spot",
    )
    client = client_of(cloud)
    cloud.fault("stock_out", match={"zone": FIRST})
    client.queued_resources.create(FIRST, "odd", body)
    (queued,) = client.queued_resources.list().items
    assert sum(h.chips for h in holdings_of([], [queued])) == 16
    grant = [{"zone": FIRST, "tier": "spot", "generation": "v5e", "chips": 24}]
    plan = controller(cloud, SPOT, allocations=grant).plan()
    assert plan.actions == ()
    assert "16" in plan.statuses[0].text
    assert [orphan.name for orphan in plan.orphans] == ["odd"]


def test_bug_08_no_quota_and_no_capacity_are_two_things(cloud: Emulator) -> None:
    """What says "Limit: 0" was retried for ever, and a stock-out given up at once."""
    wanted = {**SPOT, "zones": [FIRST, SECOND]}
    cloud.fault("quota", match={"zone": FIRST}, limit=0)
    cloud.fault("stock_out", match={"zone": SECOND}, count=3)
    result = apply(cloud, wanted)
    assert result.slices["big"].phase == "ready"
    assert states(cloud) == {f"{SECOND}/big": "READY"}
    cloud.control("requests", method="DELETE")
    alone = apply(cloud, {**SPOT, "name": "never"}, timeout=2.0)
    assert alone.slices["never"].phase == "refused"
    assert "Limit: 0" in alone.slices["never"].text
    assert cloud.control("requests", method="GET")["nodes.create"] == 1


def test_bug_09_a_node_without_addresses_is_listed(cloud: Emulator, tmp_path: Path) -> None:
    """While CREATING, and without an external address, the list ended with a KeyError."""
    apply(cloud, {**SPOT, "name": "inner", "external_ips": False})
    cloud.control("clock", {"mode": "manual"})
    controller(cloud, SPOT, wait=False).apply()
    found = hosts(cloud, tmp_path)
    assert sorted(found) == sorted(
        f"{name}-w{k}" for name, k in itertools.product(("big", "inner"), range(4))
    )
    assert {found[f"big-w{k}"].worker.reason for k in range(4)} == {"is being created"}
    assert "no external address" in (found["inner-w0"].worker.reason or "")
    assert hosts(cloud, tmp_path, connect_with="internal_ip")["inner-w0"].worker.usable


def test_bug_10_the_eleventh_worker_comes_after_the_tenth(cloud: Emulator, tmp_path: Path) -> None:
    """Sorted as text, worker 10 came before worker 2, and ranks and addresses did not match."""
    apply(cloud, {**SPOT, "name": "pod", "accelerator_type": "v5litepod-64"})
    found = hosts(cloud, tmp_path)
    assert list(found) == [f"pod-w{k}" for k in range(16)]
    node = client_of(cloud).nodes.get(FIRST, "pod")
    assert [h.worker.internal_ip for h in found.values()] == [e.internal_ip for e in node.endpoints]


def test_bug_16_addresses_that_change_places_betray_nobody(cloud: Emulator, tmp_path: Path) -> None:
    """After a maintenance two nodes had each other's address; keys were known by address."""
    names = ("one", "two")
    apply(cloud, *({**SPOT, "name": name, "accelerator_type": "v5litepod-4"} for name in names))
    before = hosts(cloud, tmp_path)
    old = {name: before[name].worker.external_ip for name in names}
    # Through a third address: no two have the same at any time.
    for name, address in (("one", True), ("two", old["one"]), ("one", old["two"])):
        verb(cloud, FIRST, name, "maintain", {"worker_ids": [0], "new_external_ip": address})
    after = hosts(cloud, tmp_path)
    assert after["one"].worker.external_ip == old["two"]
    assert after["two"].worker.external_ip == old["one"]
    for name in names:
        kept = "ansible_ssh_common_args"
        assert after[name].variables[kept] == before[name].variables[kept]
        assert f"tpu.{after[name].worker.node.uid}.0" in after[name].variables[kept]


def test_bug_20_clearing_up_touches_nothing_of_others(cloud: Emulator) -> None:
    """Clean-up deleted whatever it found, as a precaution."""
    cloud.populate(2, "theirs", FIRST, acceleratorType="v5litepod-4", labels={"tpu-fleet": "eve"})
    cloud.populate(1, "old", FIRST, acceleratorType="v5litepod-4", labels={"tpu-fleet": "managed"})
    verb(cloud, FIRST, "theirs-0", "preempt")
    assert kinds(apply(cloud, SPOT)) == ["create_node"]
    done = apply(cloud, SPOT, prune=True)
    assert [(action.kind, action.name) for action in done.actions] == [("delete_node", "old-0")]
    assert states(cloud) == {
        f"{FIRST}/big": "READY",
        f"{FIRST}/theirs-0": "PREEMPTED",
        f"{FIRST}/theirs-1": "READY",
    }


@pytest.mark.parametrize("fault", ["page_size", "empty_page"])
def test_bug_21_every_page_is_read(cloud: Emulator, tmp_path: Path, fault: str) -> None:
    """Only the first page was read: what was on the others was made a second time, or forgotten."""
    slices = [{**SPOT, "name": f"n{k}", "accelerator_type": "v5litepod-4"} for k in range(5)]
    apply(cloud, *slices)
    cloud.fault("page_size", size=2)
    if fault == "empty_page":
        cloud.fault("empty_page")
    assert list(hosts(cloud, tmp_path)) == [f"n{k}" for k in range(5)]
    assert not apply(cloud, *slices).changed


def test_bug_21_a_zone_that_fails_hides_no_other(cloud: Emulator, tmp_path: Path) -> None:
    """One zone with an error made the whole list fail; or what was in it seemed to be gone."""
    near, far = {**SPOT, "name": "near"}, {**SPOT, "name": "far", "zones": [SECOND]}
    apply(cloud, near, far)
    cloud.fault("unreachable", match={"zone": SECOND})
    assert sorted(hosts(cloud, tmp_path)) == [f"near-w{k}" for k in range(4)]
    verb(cloud, FIRST, "near", "preempt")
    result = apply(cloud, near, far, timeout=5.0)
    assert result.slices["near"].phase == "ready"
    assert result.slices["far"].phase == "unknown"
    assert not [action for action in result.actions if action.name == "far"]
    cloud.control("faults", method="DELETE")
    assert not apply(cloud, near, far).changed


def test_bug_22_credentials_stay_here(cloud: Emulator) -> None:
    """The person's credentials were copied to the TPU, or written into its metadata."""
    secret = "ya29.a-token-of-mine"
    said: list[str] = []
    cloud.fault("stock_out", count=1)
    result = apply(cloud, SPOT, token=secret, said=said)
    cloud.fault("iam_denied")
    with pytest.raises(TpuError) as denied:
        apply(cloud, SPOT, token=secret, said=said)
    cloud.control("faults", method="DELETE")
    shown = [
        str(client_of(cloud).nodes.get(FIRST, "big").raw),
        str([o.raw for o in client_of(cloud).operations.list(FIRST).items]),
        str(result),
        str(denied.value.to_dict()),
        *said,
    ]
    assert not [text for text in shown if secret in text]
