"""Steps about one slice, carried out on an API in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("requests")

from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_apply import (
    requested,
    settle,
)
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_list import (
    failures_of,
    listed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_plan import Wanted
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    ZONE,
    FakeCompute,
    instance,
    refusal,
    whole,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.fake_client import (
    slices_of,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import Call

ONE = {"name": "one", "zone": ZONE, "machine_type": "ct6e-standard-1t", "owner": "lab"}
BIG = {**ONE, "name": "big", "machine_type": "ct6e-standard-4t", "topology": "4x4"}
USUAL = {
    "state": "present",
    "adopt": False,
    "recreate": False,
    "wait": True,
    "wait_timeout": 600,
}
REGION = "regions/us-central1"
MACHINE = f"zones/{ZONE}/instances/one"
GROUP = f"zones/{ZONE}/instanceGroupManagers/big"


def run(
    fake: FakeCompute, several: bool = False, check: bool = False, **params: Any
) -> dict[str, Any]:
    given = {**(BIG if several else ONE), **USUAL, **params}
    wanted = Wanted.from_params(given, "p", several)
    return settle(slices_of(fake), wanted, given, check)


def test_nothing_is_asked_for_what_is_as_wanted() -> None:
    for fake, several in ((FakeCompute().put(instance()), False), (whole(), True)):
        for check in (True, False):
            result = run(fake, several, check)
            assert (result["changed"], result["actions"]) == (False, [])
            assert result["diff"] == {"before": {}, "after": {}}
        assert fake.changes == []


def test_a_change_is_made_on_each_machine() -> None:
    fake = whole()
    result = run(fake, several=True, labels={"a": "b"})
    assert [item["action"] for item in result["actions"]] == ["patch"]
    assert result["tpu_slice"]["labels"]["a"] == "b"
    assert len(fake.changes) == 4
    assert all(change.endswith("/setLabels") for change in fake.changes)


def test_a_slice_is_deleted_from_the_outside_to_the_inside() -> None:
    fake = whole()
    result = run(fake, several=True, state="absent")
    assert result["tpu_slice"] == {}
    assert [change.partition(" ")[2].rpartition("/")[0] for change in fake.changes] == [
        GROUP.rpartition("/")[0],
        f"{REGION}/instanceTemplates",
        f"{REGION}/resourcePolicies",
    ]


def test_somebody_deletes_it_first() -> None:
    fake = FakeCompute().put(instance())
    fake.faults = [("^DELETE", refusal(404, "notFound", "The resource was not found"))]
    assert not run(fake, state="absent", wait=False)["changed"]


def test_an_instance_that_stops_is_deleted_once_it_has_stopped() -> None:
    busy = refusal(400, "resourceNotReady", f"The resource '{MACHINE}' is not ready")
    fake = FakeCompute().put(instance(status="STOPPING"))
    fake.faults = [("^DELETE", busy)]
    with pytest.raises(_errors.Busy):
        run(fake, state="absent", wait=False)
    assert MACHINE in fake.resources

    def stop() -> Any:
        fake.resources[MACHINE]["status"] = "TERMINATED"
        return busy

    fake.faults = [("^DELETE", stop)]
    # Of this one fake, what it answers is replaced.
    fake._answer = keeping(fake)  # type: ignore[method-assign]
    run(fake, state="absent")
    assert MACHINE not in fake.resources


def keeping(fake: FakeCompute) -> Callable[[Call, str], Any]:
    """Return how the API answers if the first deletion does nothing."""
    usual, first = fake._answer, iter([True])

    def answer(call: Call, path: str) -> Any:
        if call.method == "DELETE" and next(first, False):
            return None
        return usual(call, path)

    return answer


def test_somebody_makes_it_first() -> None:
    """A creation of a moment ago is not visible yet, and whose it is shows its label."""
    taken = refusal(409, "alreadyExists", "The resource 'one' already exists")
    fake, mine = FakeCompute(), instance()
    mine["labels"]["tpu-fleet-spec"] = Wanted.from_params(ONE, "p", several=False).spec.digest()
    usual, looks = fake._answer, iter((False, False, True))

    def answer(call: Call, path: str) -> Any:
        if path == MACHINE and next(looks, False):
            fake.put(mine)
        return usual(call, path)

    # Of this one fake, what it answers is replaced.
    fake._answer = answer  # type: ignore[method-assign]
    fake.faults = [("^POST.*/instances$", taken)]
    result = run(fake, wait=False)
    assert (result["changed"], result["tpu_instance"]["uid"]) == (False, mine["id"])
    nobody = FakeCompute()
    nobody.faults = [("^POST.*/instances$", taken)]
    with pytest.raises(_errors.AlreadyExists):
        run(nobody, wait=False)


def test_check_mode_asks_for_nothing_and_says_what_would_fail() -> None:
    fake = FakeCompute()
    with pytest.raises(_errors.BadRequest, match="does not offer the machine type"):
        run(fake, check=True)
    denied = refusal(403, "forbidden", "Required 'compute.machineTypes.get' permission for 'x'")
    fake.faults = [("machineTypes", denied)]
    facts = run(fake, check=True)["tpu_instance"]
    assert (facts["state"], facts["machine_type"]) == ("CREATING", "ct6e-standard-1t")
    assert fake.changes == []


def test_a_slice_as_its_request_describes_it() -> None:
    node = requested(Wanted.from_params({**BIG, "labels": {"a": "b"}}, "p", several=True))
    assert node is not None
    assert (node.accelerator_type, node.topology, len(node.endpoints)) == ("v6e-16", "4x4", 4)
    assert (node.labels["a"], node.state) == ("b", "CREATING")


def test_lists_and_failures() -> None:
    fake = whole().put(instance())
    slices = slices_of(fake)
    found = [(facts["name"], facts["several"]) for facts in listed(slices).items]
    assert found == [("big", True), ("one", False)]
    links = {"x": f"zones/{ZONE}/instances/x", "d": f"zones/{ZONE}/disks/d"}
    for name, path in links.items():
        fake.operations[name] = {
            "name": name,
            "operationType": "insert",
            "status": "DONE",
            "targetLink": f"https://www.googleapis.com/compute/v1/projects/p/{path}",
            "error": {"errors": [{"code": "QUOTA_EXCEEDED", "message": "Quota 'X' exceeded."}]},
        }
    (failed,) = failures_of(slices, ZONE)
    assert (failed["name"], failed["kind"]) == ("x", "quota")
