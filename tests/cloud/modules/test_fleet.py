"""The module fleet, from its options to what is there in the end."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from emulator import Emulator

A, B = "us-east1-d", "europe-west4-a"
SPOT = {"accelerator_type": "v6e-8", "zones": [A, B], "tier": "spot"}
BIG = {"name": "big", **SPOT}
GRANT = [{"zone": zone, "generation": "v6e", "tier": "spot", "chips": 8} for zone in (A, B)]
PACE = {"wait_sleep": 0.05, "retry_sleep": 0.2, "wait_timeout": 20}


def fleet(*slices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"slices": list(slices), "allocations": GRANT, **PACE, **more}


def nodes(cloud: Emulator) -> dict[str, tuple[str, str]]:
    state = cloud.control("state", method="GET")
    return {node["node"]: (node["zone"], node["state"]) for node in state["nodes"]}


def queued(cloud: Emulator) -> list[str]:
    path = f"v2/projects/{cloud.project}/locations/-/queuedResources"
    found = requests.get(cloud.url + path, timeout=20).json().get("queuedResources", [])
    return [item["name"].split("/")[3] for item in found]


def phases(result: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["phase"] for item in result["slices"]}


def test_a_fleet_comes_up_once(cloud: Emulator, module: Any) -> None:
    solo = {"name": "solo", "accelerator_type": "v4-16", "zone": cloud.zone}
    wanted = fleet(BIG, solo, allocations="unrestricted")
    check = module("fleet", wanted, check=True)
    assert check["plan"][0] == f"+ create node big (v6e-8, spot) in {A}: there is none"
    assert (check["changed"], nodes(cloud)) == (True, {})
    assert f"node solo ({cloud.zone})" in check["diff"]["after"]
    first = module("fleet", wanted)
    assert phases(first) == {"big": "ready", "solo": "ready"}
    assert first["hosts"] == ["big", "solo-w0", "solo-w1"]
    assert first["changed"]
    second = module("fleet", wanted)
    assert (second["changed"], second["actions"]) == (False, [])
    assert not module("fleet", wanted, check=True)["changed"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"runtime_version": "tpu-vm-pt-2.0"},
            'The requested runtime version "tpu-vm-pt-2.0" was not found in zone "us-central2-b".',
        ),
        ({"accelerator_type": "v5p-8"}, "v5p-8"),
        ({"zone": "us-nowhere9-z"}, "us-nowhere9-z"),
    ],
)
@pytest.mark.parametrize("queued", [False, True])
def test_what_no_zone_offers_is_foreseen(
    cloud: Emulator, module: Any, wrong: dict[str, str], words: str, queued: bool
) -> None:
    solo = {"name": "solo", "accelerator_type": "v4-8", "zone": cloud.zone, "queued": queued}
    wanted = fleet({**solo, **wrong}, BIG, allocations="unrestricted")
    check = module("fleet", wanted, check=True)
    assert check["rc"] == 1
    assert words in check["msg"]
    assert "1 of 2 slices are not there" in check["msg"]
    # With other places in the file, those are shown instead.
    there = {**solo, "zones": [wrong.get("zone", cloud.zone), cloud.zone]}
    del there["zone"]
    if "zone" in wrong:
        check = module("fleet", fleet(there, allocations="unrestricted"), check=True)
        assert check["plan"][0].endswith(f"in {cloud.zone}: there is none")
    only_warned = module("fleet", {**wanted, "wait_for": "any"}, check=True)
    assert words in only_warned["warned"] + str(only_warned)
    assert only_warned["rc"] == 0
    assert nodes(cloud) == {}


def test_a_slice_that_is_refused_is_an_error_in_check_mode(cloud: Emulator, module: Any) -> None:
    cloud.populate(1, "theirs", A, acceleratorType="v6e-8", schedulingConfig={"spot": True},
                   runtimeVersion="v2-alpha-tpuv6e")  # fmt: skip
    wanted = fleet({**SPOT, "name": "one", "zones": [A]})
    check = module("fleet", wanted, check=True)
    assert check["rc"] == 1
    assert "1 of 1 slices are not there" in check["msg"]
    assert "8 are in use (node theirs-0 (READY): 8)" in check["msg"]
    assert module("fleet", wanted)["rc"] == 1
    assert set(nodes(cloud)) == {"theirs-0"}


def test_fields_change_in_place_and_the_diff_shows_which(cloud: Emulator, module: Any) -> None:
    module("fleet", fleet(BIG))
    result = module("fleet", fleet({**BIG, "labels": {"team": "vision"}, "tags": ["x"]}))
    assert result["diff"]["after"] == {
        f"node big ({A})": {"labels": {"team": "vision"}, "tags": ["x"]}
    }
    assert nodes(cloud) == {"big": (A, "READY")}


def test_a_slice_with_bad_chips_is_made_again_once(cloud: Emulator, module: Any) -> None:
    wanted = fleet({**BIG, "on_bad_chips": "recreate"})
    first = module("fleet", wanted)["slices"][0]["tpu_vm"]["uid"]
    again = module("fleet", {**wanted, "bad_chips": {"big": first}})
    second = again["slices"][0]["tpu_vm"]["uid"]
    assert (phases(again), second != first) == ({"big": "ready"}, True)
    # What is told of the node before does not concern this one.
    assert not module("fleet", {**wanted, "bad_chips": {"big": first}})["changed"]
    refused = module("fleet", {**fleet(BIG), "bad_chips": {"big": second}})
    assert "on_bad_chips: recreate" in refused["msg"]
    assert nodes(cloud) == {"big": (A, "READY")}


def test_without_capacity_the_slice_comes_up_elsewhere(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out", match={"zone": A})
    result = module("fleet", fleet(BIG))
    assert nodes(cloud) == {"big": (B, "READY")}
    assert len(result["actions"]) == 2


def test_a_race_leaves_one(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out", match={"zone": A})
    result = module("fleet", fleet({**BIG, "strategy": "race"}))
    assert phases(result) == {"big": "ready"}
    assert nodes(cloud) == {"big": (B, "READY")}
    assert queued(cloud) == [B]
    assert not module("fleet", fleet({**BIG, "strategy": "race"}))["changed"]


def test_a_preempted_slice_comes_back(cloud: Emulator, module: Any) -> None:
    module("fleet", fleet(BIG))
    cloud.control(f"nodes/{cloud.project}/{A}/big:preempt", {})
    kept = module("fleet", fleet({**BIG, "on_preempt": "keep"}))
    assert "on_preempt" in kept["msg"]
    result = module("fleet", fleet(BIG))
    assert nodes(cloud) == {"big": (A, "READY")}
    assert [line[:13] for line in result["actions"]] == ["- delete node", "+ create node"]


def test_a_suspended_request_is_cleared_and_made_again(cloud: Emulator, module: Any) -> None:
    wanted = fleet({**BIG, "queued": True})
    assert phases(module("fleet", wanted)) == {"big": "ready"}
    cloud.control(f"queuedResources/{cloud.project}/{A}/big:suspend", {})
    result = module("fleet", wanted)
    assert nodes(cloud) == {"big": (A, "READY")}
    assert [line.split(" in ")[0][:24] for line in result["actions"]] == [
        "- delete queued resource",
        "+ create queued resource",
    ]


def test_what_leaves_the_grant_is_refused_with_the_sum(cloud: Emulator, module: Any) -> None:
    one, two = {**SPOT, "name": "one", "zones": [A]}, {**SPOT, "name": "two", "zones": [A]}
    cloud.populate(1, "theirs", A, acceleratorType="v6e-8", schedulingConfig={"spot": True},
                   runtimeVersion="v2-alpha-tpuv6e")  # fmt: skip
    result = module("fleet", fleet(one))
    assert "8 are in use (node theirs-0 (READY): 8)" in result["msg"]
    assert result["msg"].startswith("Nothing was changed")
    both = module("fleet", fleet(one, two))
    assert "2 of 2 slices cannot be created" in both["msg"]
    assert set(nodes(cloud)) == {"theirs-0"}


def test_nothing_is_created_without_a_declared_grant(cloud: Emulator, module: Any) -> None:
    result = module("fleet", {"slices": [BIG], **PACE})
    assert "fleet_allocations: unrestricted" in result["msg"]
    assert nodes(cloud) == {}


def test_orphans_go_only_when_told(cloud: Emulator, module: Any) -> None:
    module("fleet", fleet(BIG))
    other = {**BIG, "name": "other", "zones": [B]}
    kept = module("fleet", fleet(other))
    assert kept["orphans"] == [f"node big (READY) in {A}"]
    pruned = module("fleet", fleet(other, prune=True))
    assert pruned["orphans"] == []
    assert set(nodes(cloud)) == {"other"}


def test_expiry_deletes_what_may_be_deleted(cloud: Emulator, module: Any) -> None:
    keeps = {**BIG, "zones": [A]}
    goes = {**SPOT, "name": "goes", "zones": [B], "on_grant_end": "delete"}
    module("fleet", fleet(keeps, goes))
    ended = [{**entry, "ends": "2020-01-01T00:00:00Z"} for entry in GRANT]
    result = module("fleet", {**fleet(keeps, goes), "allocations": ended, "scope": "expiry"})
    assert phases(result) == {"big": "ready", "goes": "ended"}
    assert set(nodes(cloud)) == {"big"}
    assert "has ended and it still runs" in result["warned"]


def test_a_timeout_says_what_is_missing_and_that_nothing_is_lost(
    cloud: Emulator, module: Any
) -> None:
    cloud.fault("stock_out")
    result = module("fleet", {**fleet(BIG), "wait_timeout": 1})
    assert result["kind"] == "timeout"
    assert "no capacity for v6e-8 in" in result["msg"]
    assert "Run it again" in result["remedy"]


def test_with_require_any_one_slice_does_not_hold_up_the_others(
    cloud: Emulator, module: Any
) -> None:
    cloud.fault("stock_out", match={"zone": A})
    stuck = {**SPOT, "name": "stuck", "zones": [A]}
    fine = {**SPOT, "name": "fine", "zones": [B]}
    result = module("fleet", {**fleet(stuck, fine), "wait_timeout": 5, "wait_for": "any"})
    assert result["hosts"] == ["fine"]
    assert "stuck: " in result["warned"]
    assert "no capacity" in result["warned"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "quota", "limit": 0}, "Limit: 0"),
        ({"kind": "queue_denied"}, "does not have permission to submit"),
        ({"kind": "location_denied", "match": {"permission": "tpu.nodes.create"}}, "locations/"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_place_that_will_never_do_ends_the_wait(
    cloud: Emulator, module: Any, fault: dict[str, Any], words: str
) -> None:
    cloud.control("faults", fault)
    began = time.monotonic()
    result = module("fleet", fleet(BIG))
    assert result["kind"] == "refused"
    assert words in result["msg"]
    assert time.monotonic() - began < PACE["wait_timeout"]


def test_what_could_not_be_changed_is_not_called_done(cloud: Emulator, module: Any) -> None:
    module("fleet", fleet(BIG))
    denied = {"kind": "unavailable", "match": {"method": "nodes.patch"}}
    cloud.control("faults", denied)
    result = module("fleet", {**fleet({**BIG, "tags": ["x"]}), "wait_timeout": 1})
    assert result["kind"] == "timeout"
    assert "~ patch node big" in result["msg"]


def test_one_apply_at_a_time_on_a_computer(module: Any, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = module("fleet", {**fleet(BIG), "lock_file": str(lock)})
        assert str(lock) in result["msg"]
    assert module("fleet", {**fleet(BIG), "lock_file": str(lock)})["changed"]


def test_progress_is_shown_while_it_waits(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out", match={"zone": A}, count=1)
    text = module("fleet", fleet({**BIG, "zones": [A]}))["shown"]
    assert "big: waiting: no capacity for v6e-8 in us-east1-d since" in text
    assert "big: ready: v6e-8 in us-east1-d" in text


@pytest.mark.parametrize(("how", "gone"), [("delete", {}), ("stop", {"solo": "STOPPED"})])
def test_a_slice_rests_until_its_runs_change_or_somebody_asks(
    cloud: Emulator, module: Any, tmp_path: Path, how: str, gone: dict[str, str]
) -> None:
    solo = {"name": "solo", "accelerator_type": "v4-8", "zone": cloud.zone, "on_finish": how}

    def states() -> dict[str, str]:
        return {name: state for name, (_zone, state) in nodes(cloud).items()}

    def apply(mark: str = "m1", computer: str = "here", **more: Any) -> dict[str, Any]:
        rest = {"marks": {"solo": mark}, "rest_file": str(tmp_path / computer)}
        return dict(module("fleet", fleet(solo, allocations="unrestricted", **rest, **more)))

    apply()
    done = apply(finish=[{"name": "solo", "why": "its runs have finished"}])
    assert (done["rc"], done["changed"], states()) == (0, True, gone)
    # Neither this computer nor another one has it again.
    for computer in ("here", "there"):
        again = apply(computer=computer)
        assert (again["rc"], again["changed"], states()) == (0, False, gone)
        assert phases(again) == {"solo": "ended"}
    # A clock that is late, as this computer's here is, does not keep anybody from asking.
    assert apply(computer="there", wake=["solo"])["changed"]
    assert states() == {"solo": "READY"}
    assert not apply()["changed"]
    # Put to rest once more; a changed run needs it.
    apply(finish=[{"name": "solo"}])
    assert states() == gone
    assert phases(apply(mark="m2")) == {"solo": "ready"}
    wrong = apply(wake=["sole"])
    assert (wrong["rc"], "wake names sole" in wrong["msg"]) == (1, True)
