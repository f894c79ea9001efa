"""What Google's discovery documents say of fields, and proto3's habits."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.shared import schema

# What clients set, as far as google-cloud-tpu has it, which is made of the proto files themselves.
IN_PROTO = [
    ("v2", "AcceleratorConfig", "type"),
    ("v2", "AttachedDisk", "mode"),
    ("v2alpha1", "AcceleratorConfig", "type"),
    ("v2alpha1", "AttachedDisk", "mode"),
    ("v2alpha1", "MultiNodeParams", "workloadType"),
]
NEWER = [
    ("v2alpha1", "QueuedResource", "provisioningModel"),
    ("v2alpha1", "SchedulingConfig", "provisioningModel"),
]


def test_fields_are_read_from_the_discovery_documents() -> None:
    node = schema.message("v2", "Node")
    assert node["id"] == schema.INT64
    assert node["labels"] == schema.MAP
    assert node["tags"] == [schema.STRING]
    assert node["networkConfigs"] == [node["networkConfig"]]
    assert schema.message("v2", "NetworkConfig")["queueCount"] == schema.INT
    assert schema.message("v2", "SchedulingConfig") == dict.fromkeys(
        ("preemptible", "reserved", "spot"), schema.BOOL
    )
    assert schema.message("v2", "Status")["details"] == [schema.ANY]
    assert schema.message("v2", "Spot") == {}


def test_what_only_answers_carry_is_passed_over() -> None:
    body = {"name": "n", "id": "1", "health": "HEALTHY", "state": "READY", "description": "d"}
    for version in ("v2", "v2alpha1"):
        assert schema.parse(body, "Node", "node", version) == {"description": "d"}
        queued = {"tpu": {"nodeSpec": [{"node": body}]}, "name": "q", "state": {"state": "ACTIVE"}}
        assert schema.parse(queued, "QueuedResource", "queued_resource", version) == {
            "tpu": {"nodeSpec": [{"node": {"description": "d"}}]}
        }


def test_snake_case_is_taken_for_camel_case() -> None:
    body = {"accelerator_type": "v4-8", "network_config": {"enable_external_ips": True}}
    assert schema.parse(body, "Node", "node") == {
        "acceleratorType": "v4-8",
        "networkConfig": {"enableExternalIps": True},
    }


@pytest.mark.parametrize("value", [True, "true", "True", "yes", 1, "1"])
def test_what_stands_for_true(value: Any) -> None:
    parsed = schema.parse({"networkConfig": {"enableExternalIps": value}}, "Node", "node")
    assert parsed == {"networkConfig": {"enableExternalIps": True}}


def test_null_means_absent() -> None:
    assert schema.parse({"acceleratorType": None}, "Node", "node") == {}


def test_all_unknown_names_are_refused_at_once_and_verbatim() -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse({"frob": 1, "networkConfig": {"zip": 2}}, "Node", "node")
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
        schema.parse({"x": 1}, "Empty")
    assert caught.value.message == (
        'Invalid JSON payload received. Unknown name "x": Cannot find field.'
    )


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (
            {"networkConfig": {"enableExternalIps": "perhaps"}},
            "node.network_config.enable_external_ips",
        ),
        ({"networkConfig": {"queueCount": True}}, "node.network_config.queue_count"),
        ({"networkConfig": 5}, "node.network_config"),
        ({"labels": "a"}, "node.labels"),
        ({"labels": {"a": "b", "c": 1}}, "node.labels[1].value"),
        ({"networkConfig": {"queueCount": 2**31}}, "node.network_config.queue_count"),
        ({"tags": [1]}, "node.tags[0]"),
        ({"description": 5}, "node.description"),
    ],
)
def test_values_of_a_wrong_kind_are_named_by_their_path(body: dict[str, Any], path: str) -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse(body, "Node", "node")
    assert caught.value.message.startswith(f"Invalid value at '{path}' (")


def test_one_item_stands_for_a_list_of_it() -> None:
    body = {"tags": "t", "networkConfigs": {"network": "n"}, "dataDisks": {"mode": 2}}
    assert schema.parse(body, "Node", "node") == {
        "tags": ["t"],
        "networkConfigs": [{"network": "n"}],
        "dataDisks": [{"mode": "READ_ONLY"}],
    }


@pytest.mark.parametrize("name", ["labels", "description", "networkConfig", "network_config"])
def test_a_list_stands_for_nothing_else(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        schema.parse({name: []}, "Node", "node")
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
        schema.parse(body, "Node", "node", version)
    assert caught.value.message.startswith(
        f"Invalid value at 'node.{path}' (type.googleapis.com/google.cloud.tpu.{version}.{enum}), "
    )


@pytest.mark.parametrize(("version", "name", "field"), IN_PROTO)
def test_enums_have_the_names_and_numbers_of_the_proto_files(
    version: str, name: str, field: str
) -> None:
    enum = schema.message(version, name)[field]
    assert isinstance(enum, schema.Enum)
    # The documents know no messages within messages.
    path = enum.name.replace("MultiNode", "QueuedResource.Tpu.NodeSpec.MultiNode")
    proto = attrgetter(path)(import_module(f"google.cloud.tpu_{version}"))
    assert {one.name: one.value for one in proto} == dict(
        zip(enum.values, enum.numbers, strict=True)
    )


def test_no_other_enum_is_set_by_clients() -> None:
    """Else its name and its numbers would have to be known, too."""
    settable = {
        (version, name, field)
        for version in ("v2", "v2alpha1")
        for name in ("AcceleratorConfig", "AttachedDisk", "BootDiskConfig", "MultiNodeParams",
                     "MultisliceParams", "Node", "NodeSpec", "QueuedResource", "SchedulingConfig")
        if name in schema.document(version)["schemas"]
        for field, spec in schema.message(version, name).items()
        if isinstance(spec, schema.Enum) and field not in schema.output_only(version, name)
    }  # fmt: skip
    assert settable == {*IN_PROTO, *NEWER}


@pytest.mark.parametrize("value", [100, "100"])
def test_int64_is_a_number_or_a_string_and_becomes_a_string(value: object) -> None:
    parsed = schema.parse({"bootDiskConfig": {"diskSizeGb": value}}, "Node", "node", "v2alpha1")
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
