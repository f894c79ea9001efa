"""The request for a queued resource, and the version of the API that it goes to."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_spec import (
    QUEUED_TIERS,
    api_version_of,
    queued_body,
    seconds_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.versions import ALPHA_FIELDS

HOME = "projects/p/locations/z"
NODE = {"acceleratorType": "v4-8", "labels": {"a": "b"}, "schedulingConfig": {"reserved": True}}
PLAIN = {"acceleratorType": "v4-8", "labels": {"a": "b"}}
START, END = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def body(**fields: Any) -> dict[str, Any]:
    return queued_body("p", "z", fields.pop("nodes", {"n": NODE}), **fields)


def rest(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in body(**fields).items() if key != "tpu"}


@pytest.mark.parametrize(
    ("fields", "expected", "version"),
    [
        ({}, {}, "v2"),
        ({"tier": "spot"}, {"spot": {}}, "v2"),
        ({"tier": "guaranteed"}, {"guaranteed": {}}, "v2"),
        (
            {"tier": "guaranteed", "min_duration": "1h"},
            {"guaranteed": {"minDuration": "3600s"}},
            "v2",
        ),
        ({"tier": "reserved"}, {"reservationName": f"{HOME}/reservations/-"}, "v2"),
        (
            {"tier": "reserved", "reservation": "r"},
            {"reservationName": f"{HOME}/reservations/r"},
            "v2",
        ),
        (
            {"tier": "reserved", "reservation": "folders/1/locations/z/reservations/-"},
            {"reservationName": "folders/1/locations/z/reservations/-"},
            "v2",
        ),
        ({"tier": "best_effort"}, {"bestEffort": {}}, "v2alpha1"),
        (
            {"tier": "flex_start", "max_run_duration": "4h"},
            {"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "14400s"}},
            "v2alpha1",
        ),
        (
            {"max_run_duration": 60},
            {"runDuration": {"maxRunDuration": "60s"}},
            "v2alpha1",
        ),
        (
            {"valid_until_duration": "6h"},
            {"queueingPolicy": {"validUntilDuration": "21600s"}},
            "v2",
        ),
        ({"valid_until_time": END}, {"queueingPolicy": {"validUntilTime": END}}, "v2"),
        (
            {"valid_after_duration": "90m"},
            {"queueingPolicy": {"validAfterDuration": "5400s"}},
            "v2",
        ),
        ({"valid_after_time": START}, {"queueingPolicy": {"validAfterTime": START}}, "v2"),
        (
            {"valid_interval": {"start_time": START, "end_time": END}},
            {"queueingPolicy": {"validInterval": {"startTime": START, "endTime": END}}},
            "v2",
        ),
        (
            {"valid_after_time": START, "valid_until_time": END},
            {"queueingPolicy": {"validInterval": {"startTime": START, "endTime": END}}},
            "v2",
        ),
    ],
)
def test_body(fields: dict[str, Any], expected: dict[str, Any], version: str) -> None:
    assert rest(**fields) == expected
    assert api_version_of(body(**fields)) == version


@pytest.mark.parametrize("tier", QUEUED_TIERS)
def test_tier_is_read_back(tier: str) -> None:
    assert QueuedResource.from_api(body(tier=tier)).tier == tier


def test_nodes() -> None:
    assert body(nodes={"a": NODE, "b": NODE})["tpu"]["nodeSpec"] == [
        {"parent": HOME, "nodeId": "a", "node": PLAIN},
        {"parent": HOME, "nodeId": "b", "node": PLAIN},
    ]
    spot = body(tier="spot")["tpu"]["nodeSpec"][0]["node"]
    assert spot == {**PLAIN, "schedulingConfig": {"spot": True}}
    assert NODE["schedulingConfig"] == {"reserved": True}


@pytest.mark.parametrize(
    ("tier", "key"), [("spot", "multisliceParams"), ("best_effort", "multiNodeParams")]
)
def test_multislice_is_called_as_its_version_wants_it(tier: str, key: str) -> None:
    made = body(tier=tier, node_count=2, node_prefix="m")
    assert made["tpu"]["nodeSpec"][0][key] == {"nodeCount": 2, "nodeIdPrefix": "m"}
    assert made["tpu"]["nodeSpec"][0].keys() == {"parent", "node", key}
    assert [node.name for node in QueuedResource.from_api(made).nodes] == ["m-0", "m-1"]
    bare = body(tier=tier, node_count=2)
    assert bare["tpu"]["nodeSpec"][0][key] == {"nodeCount": 2}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tier": "preemptible"}, "tier is 'preemptible'"),
    ({"nodes": {}}, "at least one node"),
    ({"node_count": 1}, "node_count is 1"),
    ({"node_count": 2, "nodes": {"a": NODE, "b": NODE}}, "node_count is 2, for 2 different"),
    ({"node_prefix": "m"}, "node_count is not set"),
    ({"min_duration": "1h"}, "min_duration is '1h'"),
    ({"tier": "spot", "reservation": "r"}, "reservation is 'r'"),
    ({"valid_until_duration": "soon"}, "valid_until_duration is 'soon'"),
    ({"valid_until_duration": 0}, "valid_until_duration is 0"),
    ({"max_run_duration": ""}, "max_run_duration is ''"),
    ({"valid_until_time": "tomorrow"}, "valid_until_time is 'tomorrow'"),
    ({"valid_until_duration": "1h", "valid_until_time": END}, "one time condition"),
    ({"valid_until_duration": "1h", "valid_after_duration": "1m"}, "one time condition"),
    (
        {"valid_interval": {"start_time": START, "end_time": END}, "valid_until_time": END},
        "one time condition",
    ),
    ({"valid_interval": {"start_time": END, "end_time": START}}, "before it starts"),
]


@pytest.mark.parametrize(("fields", "words"), WRONG)
def test_wrong_input(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        body(**fields)
    assert words in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h", 21600),
        ("90m", 5400),
        ("2d", 172800),
        ("1h30m", 5400),
        ("21600s", 21600),
        (60, 60),
        (60.0, 60),
    ],
)
def test_seconds(text: str | float, seconds: int) -> None:
    assert seconds_of("x", text) == seconds


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "version"),
    [
        ({}, "v2"),
        ({"metadata": {"bestEffort": "1", "workerIds": "2"}, "labels": {"a": "b"}}, "v2"),
        ({"bootDiskConfig": {"customerEncryptionKey": {}}}, "v2"),
        ({"bootDiskConfig": {"diskSizeGb": "200"}}, "v2alpha1"),
        ({"dataDisks": [{"sourceDisk": "d"}, {"workerIds": ["0"]}]}, "v2alpha1"),
        ({"schedulingConfig": {"spot": True}}, "v2"),
    ],
)
def test_version_of_a_node(node: dict[str, Any], version: str) -> None:
    assert api_version_of(node) == version
    assert api_version_of(body(nodes={"n": node})) == (
        "v2" if "schedulingConfig" in node else version
    )


def test_table_is_what_google_says() -> None:
    """The discovery documents of Google's own client say which fields v2 lacks."""
    pytest.importorskip("googleapiclient")
    documents = importlib.resources.files("googleapiclient.discovery_cache") / "documents"
    v2, alpha = (
        json.loads((documents / f"tpu.{version}.json").read_text("utf-8"))["schemas"]
        for version in ("v2", "v2alpha1")
    )

    def fields() -> Iterator[tuple[str, set[str]]]:
        for kind in ALPHA_FIELDS:
            more = alpha[kind]["properties"].keys() - v2[kind]["properties"].keys()
            answered = {"terminationTimestamp"}
            yield kind, more - answered

    assert dict(fields()) == {kind: set(names) for kind, names in ALPHA_FIELDS.items()}
