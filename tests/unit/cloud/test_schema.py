"""The field tables against Google's own discovery documents, and proto3's habits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import googleapiclient
import pytest

from tpu_fleet.cloud.errors import ApiError
from tpu_fleet.cloud.model import schema

DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
SCALARS = {
    ("string", None): schema.STRING,
    ("string", "int64"): schema.INT64,
    ("string", "google-datetime"): schema.STRING,
    ("string", "google-duration"): schema.STRING,
    ("boolean", None): schema.BOOL,
    ("integer", "int32"): schema.INT,
}


def schemas(version: str) -> dict[str, Any]:
    text = (DOCUMENTS / f"tpu.{version}.json").read_text()
    found: dict[str, Any] = json.loads(text)["schemas"]
    return found


def spec_of(known: dict[str, Any], field: dict[str, Any]) -> Any:
    """Return what our table has to say about a field of a discovery document."""
    if "$ref" in field:
        message = known[field["$ref"]]
        return {n: spec_of(known, f) for n, f in message.get("properties", {}).items()}
    if field["type"] == "array":
        return [spec_of(known, field["items"])]
    if tuple(field.get("enum", ())) in schema.ENUMS:
        return schema.ENUMS[tuple(field["enum"])]
    if field["type"] == "object":
        kind = field["additionalProperties"]["type"]
        assert kind in ("string", "any")
        return schema.MAP if kind == "string" else schema.ANY
    return SCALARS[(field["type"], field.get("format"))]


@pytest.mark.parametrize(
    ("version", "message", "table"),
    [
        ("v2", "Node", schema.NODES["v2"]),
        ("v2alpha1", "Node", schema.NODES["v2alpha1"]),
        ("v2", "GetGuestAttributesRequest", schema.GUEST_ATTRIBUTES),
        ("v2alpha1", "GetGuestAttributesRequest", schema.GUEST_ATTRIBUTES),
        ("v2alpha1", "SimulateMaintenanceEventRequest", schema.SIMULATE),
        ("v2alpha1", "PerformMaintenanceRequest", schema.EMPTY),
        ("v2", "QueuedResource", schema.QUEUED["v2"]),
        ("v2alpha1", "QueuedResource", schema.QUEUED["v2alpha1"]),
        ("v2", "ResetQueuedResourceRequest", schema.EMPTY),
        ("v2alpha1", "PerformMaintenanceQueuedResourceRequest", schema.PERFORM_ON_NODES),
        ("v2", "StartNodeRequest", schema.EMPTY),
        ("v2", "StopNodeRequest", schema.EMPTY),
        ("v2", "GenerateServiceIdentityRequest", schema.EMPTY),
    ],
)
def test_tables_are_googles(version: str, message: str, table: dict[str, Any]) -> None:
    assert table == spec_of(schemas(version), {"$ref": message})


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_what_only_answers_carry_is_what_google_marks_so(version: str) -> None:
    properties = schemas(version)["Node"]["properties"]
    marked = {name for name, field in properties.items() if field.get("readOnly")}
    # Clients send a node's health back; the document does not mark it, and nobody can set it.
    assert marked | {"health"} == set(schema.OUTPUT_ONLY) & set(properties)


def test_snake_case_is_taken_for_camel_case() -> None:
    body = {"accelerator_type": "v4-8", "network_config": {"enable_external_ips": True}}
    assert schema.parse(body, schema.NODE, "node") == {
        "acceleratorType": "v4-8",
        "networkConfig": {"enableExternalIps": True},
    }


def test_null_means_absent() -> None:
    assert schema.parse({"acceleratorType": None}, schema.NODE, "node") == {}


def test_all_unknown_names_are_refused_at_once_and_verbatim() -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse({"frob": 1, "networkConfig": {"zip": 2}}, schema.NODE, "node")
    error = caught.value.body()["error"]
    first = "Invalid JSON payload received. Unknown name \"frob\" at 'node': Cannot find field."
    second = (
        "Invalid JSON payload received. Unknown name \"zip\" at 'node.network_config': "
        "Cannot find field."
    )
    assert set(error["message"].split("\n")) == {first, second}
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    violations = error["details"][0]["fieldViolations"]
    assert {item["field"] for item in violations} == {"node", "node.network_config"}


def test_at_the_top_of_a_request_an_unknown_name_has_no_place() -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse({"x": 1}, schema.EMPTY)
    assert caught.value.message == (
        'Invalid JSON payload received. Unknown name "x": Cannot find field.'
    )


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (
            {"networkConfig": {"enableExternalIps": "yes"}},
            "node.network_config.enable_external_ips",
        ),
        ({"networkConfig": {"queueCount": True}}, "node.network_config.queue_count"),
        ({"networkConfig": 5}, "node.network_config"),
        ({"labels": "a"}, "node.labels"),
        ({"tags": [1]}, "node.tags[0]"),
        ({"description": 5}, "node.description"),
    ],
)
def test_values_of_a_wrong_kind_are_named_by_their_path(body: dict[str, Any], path: str) -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse(body, schema.NODE, "node")
    assert caught.value.message.startswith(f"Invalid value at '{path}' (")


def test_one_item_stands_for_a_list_of_it() -> None:
    body = {"tags": "t", "networkConfigs": {"network": "n"}, "dataDisks": {"mode": 2}}
    assert schema.parse(body, schema.NODE, "node") == {
        "tags": ["t"],
        "networkConfigs": [{"network": "n"}],
        "dataDisks": [{"mode": "READ_ONLY"}],
    }


@pytest.mark.parametrize("name", ["labels", "description", "networkConfig", "network_config"])
def test_a_list_stands_for_nothing_else(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse({name: []}, schema.NODE, "node")
    assert caught.value.message == (
        f"Invalid JSON payload received. Unknown name \"{name}\" at 'node': Proto field is not "
        "repeating, cannot start list."
    )


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
@pytest.mark.parametrize(
    ("body", "path", "enum"),
    [
        (
            {"acceleratorConfig": {"type": "V99"}},
            "accelerator_config.type",
            "AcceleratorConfig.Type",
        ),
        ({"acceleratorConfig": {"type": 3}}, "accelerator_config.type", "AcceleratorConfig.Type"),
        ({"dataDisks": [{"mode": "RW"}]}, "data_disks[0].mode", "AttachedDisk.DiskMode"),
    ],
)
def test_the_front_end_refuses_what_an_enum_does_not_have(
    version: str, body: dict[str, Any], path: str, enum: str
) -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse(body, schema.NODES[version], "node", version)
    assert caught.value.message.startswith(
        f"Invalid value at 'node.{path}' (type.googleapis.com/google.cloud.tpu.{version}.{enum}), "
    )


def test_every_enum_that_clients_set_is_known() -> None:
    """What is not known would be taken whatever it is."""
    settable = {
        tuple(field["enum"])
        for version in ("v2", "v2alpha1")
        for name in ("AcceleratorConfig", "AttachedDisk", "MultiNodeParams", "QueuedResource",
                     "SchedulingConfig")
        for field in schemas(version).get(name, {}).get("properties", {}).values()
        if "enum" in field and not field.get("readOnly")
    }  # fmt: skip
    assert settable == set(schema.ENUMS)


@pytest.mark.parametrize("value", [100, "100"])
def test_int64_is_a_number_or_a_string_and_becomes_a_string(value: object) -> None:
    parsed = schema.parse({"bootDiskConfig": {"diskSizeGb": value}}, schema.NODE_ALPHA, "node")
    assert parsed == {"bootDiskConfig": {"diskSizeGb": "100"}}


def test_proto3_leaves_out_what_is_zero_and_keeps_empty_messages() -> None:
    full = {
        "description": "",
        "tags": [],
        "labels": {},
        "metadata": {},
        "multisliceNode": False,
        "schedulingConfig": {"spot": False, "preemptible": False},
        "networkEndpoints": [{"ipAddress": "10.0.0.2", "port": 0}],
        "name": "n",
    }
    assert schema.proto3(full) == {
        "schedulingConfig": {},
        "networkEndpoints": [{"ipAddress": "10.0.0.2"}],
        "name": "n",
    }
