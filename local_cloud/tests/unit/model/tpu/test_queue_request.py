"""What a request for a queued resource may say, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.shared.clock import timestamp
from tpu_local_cloud.model.shared.queue_records import QueueRecord
from tpu_local_cloud.model.tpu.queue_request import read

ZONE = "us-central2-b"
PARENT = f"projects/p/locations/{ZONE}"
NOW = 1_800_000_000.0
SPEC: dict[str, Any] = {"parent": PARENT, "node": {"acceleratorType": "v4-8"}, "nodeId": "n1"}


def asked(
    *specs: dict[str, Any], version: str = "v2alpha1", name: str = "q", **more: Any
) -> QueueRecord:
    body = {"tpu": {"nodeSpec": list(specs or (SPEC,))}, **more}
    return read(ZONE, name, body, version, ("p", "12"), NOW)


def refused(*specs: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ApiError) as caught:
        asked(*specs, **more)
    assert caught.value.status == "INVALID_ARGUMENT"
    return caught.value.message


def spec(**fields: Any) -> dict[str, Any]:
    """Return a spec without the fields that are None."""
    return {key: value for key, value in {**SPEC, **fields}.items() if value is not None}


def many(**fields: Any) -> dict[str, Any]:
    return spec(nodeId=None, multiNodeParams=fields)


def test_one_node() -> None:
    record = asked()
    assert [(order.name, order.multislice) for order in record.orders] == [("n1", False)]
    assert "tpu" not in record.body


def test_several_specs() -> None:
    record = asked(spec(nodeId="a"), spec(nodeId="b", parent=PARENT.replace("/p/", "/12/")))
    assert [order.name for order in record.orders] == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"nodeCount": 2}, ["q-0", "q-1"]),
        ({"nodeCount": 3, "nodeIdPrefix": "ms"}, ["ms-0", "ms-1", "ms-2"]),
    ],
)
def test_many_nodes(fields: dict[str, Any], names: list[str]) -> None:
    record = asked(many(**fields))
    assert [order.name for order in record.orders] == names
    assert all(order.multislice for order in record.orders)


@pytest.mark.parametrize(
    ("specs", "told"),
    [
        ([spec(nodeId=None)], "one of node_id and multi_node_params must be set"),
        ([spec(multiNodeParams={"nodeCount": 2})], "cannot both be specified"),
        ([many(nodeCount=1)], "node_count must be greater than 1"),
        ([many()], "node_count must be greater than 1"),
        ([spec(node=None)], "node_spec.node must be set"),
        ([spec(parent=None)], "is not the parent of the request"),
        ([spec(parent="projects/p/locations/us-central1-a")], "is not the parent of the request"),
        ([SPEC, SPEC], "node ids must be unique: n1"),
        ([many(nodeCount=2), spec(nodeId="q-1")], "node ids must be unique: q-1"),
        ([spec(nodeId="Big")], f"Malformed name: '{PARENT}/nodes/Big'"),
        ([many(nodeCount=2, nodeIdPrefix="a_b")], f"Malformed name: '{PARENT}/nodes/a_b-0'"),
    ],
)
def test_specs_that_are_wrong(specs: list[dict[str, Any]], told: str) -> None:
    assert told in refused(*specs)


def test_without_specs() -> None:
    with pytest.raises(ApiError, match=r"tpu\.node_spec must be set"):
        read(ZONE, "q", {}, "v2", ("p", "12"), NOW)


def test_a_v2_spec_has_one_name_or_the_other() -> None:
    told = refused(spec(multisliceParams={"nodeCount": 2}), version="v2")
    assert told == (
        "Invalid value at 'queued_resource.tpu.node_spec[0]' (oneof), oneof field "
        "'name_strategy' is already set. Cannot set 'multisliceParams'"
    )


@pytest.mark.parametrize("name", ["a b", "a/b", ""])
def test_names_that_are_wrong(name: str) -> None:
    assert "Malformed name" in refused(name=name)


def test_names_may_be_odder_than_those_of_nodes() -> None:
    assert asked(name="A.b_c~d+e%f-1").name == "A.b_c~d+e%f-1"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"spot": {}, "guaranteed": {}}, "oneof field 'tier' is already set"),
        ({"spot": {}, "bestEffort": {}}, "oneof field 'tier' is already set"),
        ({"spot": {}, "provisioningModel": "STANDARD"}, "does not go with the tier"),
        ({"bestEffort": {}, "provisioningModel": "STANDARD"}, "does not go with the tier"),
        ({"guaranteed": {"minDuration": "1h"}}, "guaranteed.min_duration"),
        ({"reservationName": "mine"}, "Malformed name: 'mine'"),
        (
            {"reservationName": "projects/p/locations/us-central1-a/reservations/r"},
            "is not in the zone",
        ),
        ({"runDuration": {"maxRunDuration": "0s"}}, "max_run_duration must be positive"),
        (
            {"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "604801s"}},
            "7 days",
        ),
        ({"runDuration": {"terminationTime": timestamp(NOW - 1)}}, "has passed"),
        ({"runDuration": {"terminationTime": "tomorrow"}}, "run_duration.termination_time"),
    ],
)
def test_what_is_wrong_with_the_rest(more: dict[str, Any], told: str) -> None:
    assert told in refused(**more)


@pytest.mark.parametrize(
    "more",
    [
        {"spot": {}, "provisioningModel": "SPOT"},
        {"bestEffort": {}, "provisioningModel": "SPOT"},
        {"bestEffort": {}},
        {"guaranteed": {"minDuration": "3600s"}},
        {"provisioningModel": "PROVISIONING_MODEL_UNSPECIFIED"},
        {"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "604800s"}},
        {"reservationName": f"organizations/1/locations/{ZONE}/reservations/-"},
    ],
)
def test_what_is_right(more: dict[str, Any]) -> None:
    asked(**more)


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        ({}, None, None),
        ({"validUntilDuration": "21600s"}, None, NOW + 21600),
        ({"validUntilDuration": "1.500s"}, None, NOW + 1.5),
        ({"validUntilTime": "2027-01-15T08:00:01Z"}, None, NOW + 1),
        ({"validUntilTime": "2027-01-15T09:00:01.000000000+01:00"}, None, NOW + 1),
        ({"validAfterDuration": "60s"}, NOW + 60, None),
        ({"validAfterTime": timestamp(NOW - 60)}, NOW - 60, None),
        ({"validInterval": {}}, None, None),
        (
            {"validInterval": {"startTime": timestamp(NOW + 1), "endTime": timestamp(NOW + 2)}},
            NOW + 1,
            NOW + 2,
        ),
    ],
)
def test_times(policy: dict[str, Any], before: float | None, after: float | None) -> None:
    record = asked(queueingPolicy=policy)
    assert (record.not_before, record.not_after) == (before, after)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"validUntilDuration": "6h"}, "valid_until_duration' (type.googleapis.com"),
        ({"validUntilDuration": "0s"}, "has passed"),
        ({"validAfterDuration": "-1s"}, "must not be negative"),
        ({"validUntilTime": "2027-01-15 08:00"}, "valid_until_time' (type.googleapis.com"),
        ({"validUntilTime": timestamp(NOW)}, "has passed"),
        (
            {"validInterval": {"startTime": timestamp(NOW + 2), "endTime": timestamp(NOW + 1)}},
            "must not end before it starts",
        ),
        (
            {"validUntilDuration": "1s", "validAfterDuration": "1s"},
            "oneof field 'start_timing_constraints' is already set. Cannot set",
        ),
    ],
)
def test_times_that_are_wrong(policy: dict[str, Any], told: str) -> None:
    assert told in refused(queueingPolicy=policy)
