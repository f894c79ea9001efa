"""Google's own Python client, over REST, as it comes from the registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from emulator import Emulator
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.protobuf.field_mask_pb2 import FieldMask

PARENT = f"projects/{Emulator.project}/locations/{Emulator.zone}"
NAME = f"{PARENT}/nodes/n1"


@pytest.fixture
def client(cloud: Emulator) -> Iterator[tpu_v2.TpuClient]:
    with tpu_v2.TpuClient(
        transport="rest",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.url.rstrip("/")},
    ) as made:
        yield made


def wanted(accelerator_type: str = "v4-32") -> tpu_v2.Node:
    return tpu_v2.Node(
        accelerator_type=accelerator_type,
        runtime_version="tpu-ubuntu2204-base",
        network_config=tpu_v2.NetworkConfig(network="default", enable_external_ips=True),
        metadata={"foo": "bar"},
        labels={"a": "b"},
    )


def create(client: tpu_v2.TpuClient, node: tpu_v2.Node, node_id: str = "n1") -> tpu_v2.Node:
    made: tpu_v2.Node = client.create_node(parent=PARENT, node=node, node_id=node_id).result(30)
    return made


def test_a_life(client: tpu_v2.TpuClient) -> None:
    made = create(client, wanted())
    assert made.name == NAME
    assert made.state == tpu_v2.Node.State.READY
    assert made.health == tpu_v2.Node.Health.HEALTHY
    assert made.id > 0
    assert len({endpoint.ip_address for endpoint in made.network_endpoints}) == 4
    assert len({endpoint.access_config.external_ip for endpoint in made.network_endpoints}) == 4
    assert [node.name for node in client.list_nodes(parent=PARENT)] == [NAME]
    assert client.get_node(name=NAME).id == made.id
    client.delete_node(name=NAME).result(30)
    assert list(client.list_nodes(parent=PARENT)) == []


def test_update_sends_the_whole_node_back(client: tpu_v2.TpuClient) -> None:
    node = create(client, wanted("v4-8"))
    node.labels = {"c": "d"}
    mask = FieldMask(paths=["labels"])
    updated = client.update_node(node=node, update_mask=mask).result(30)
    assert dict(updated.labels) == {"c": "d"}
    assert dict(updated.metadata) == {"foo": "bar"}


def test_topology_in_place_of_a_type(client: tpu_v2.TpuClient) -> None:
    node = wanted()
    node.accelerator_type = ""
    node.accelerator_config = tpu_v2.AcceleratorConfig(
        type_=tpu_v2.AcceleratorConfig.Type.V4, topology="2x2x2"
    )
    made = create(client, node)
    assert made.accelerator_type == "v4-16"
    assert len(made.network_endpoints) == 2


def test_stop_and_start(client: tpu_v2.TpuClient) -> None:
    create(client, wanted("v4-8"))
    stopped = client.stop_node(request={"name": NAME}).result(30)
    assert stopped.state == tpu_v2.Node.State.STOPPED
    started = client.start_node(request={"name": NAME}).result(30)
    assert started.state == tpu_v2.Node.State.READY


def test_guest_attributes_come_in_the_order_of_workers(client: tpu_v2.TpuClient) -> None:
    create(client, wanted())
    answer = client.get_guest_attributes(request={"name": NAME, "query_path": "hostkeys/"})
    keys = [next(iter(entry.query_value.items)).value for entry in answer.guest_attributes]
    assert len(set(keys)) == 4
    one = client.get_guest_attributes(request={"name": NAME, "worker_ids": ["2"]})
    assert len(one.guest_attributes) == 1


def test_what_the_zone_offers(client: tpu_v2.TpuClient) -> None:
    types = {item.type_ for item in client.list_accelerator_types(parent=PARENT)}
    assert "v4-8" in types
    assert not any(name.startswith("v5p") for name in types)
    versions = {item.version for item in client.list_runtime_versions(parent=PARENT)}
    assert "tpu-ubuntu2204-base" in versions


def test_pages_and_unreachable_zones(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.populate(5)
    cloud.populate(1, prefix="far", zone="europe-west4-b", acceleratorType="v5p-8")
    cloud.fault("unreachable", match={"zone": "europe-west4-b"})
    everywhere = f"projects/{Emulator.project}/locations/-"
    pager = client.list_nodes(request={"parent": everywhere, "page_size": 2})
    assert len(list(pager)) == 5
    assert list(pager.unreachable) == [f"projects/{Emulator.project}/locations/europe-west4-b"]


def test_not_found(client: tpu_v2.TpuClient) -> None:
    with pytest.raises(exceptions.NotFound, match="was not found"):
        client.get_node(name=NAME)


def test_already_exists(client: tpu_v2.TpuClient) -> None:
    create(client, wanted("v4-8"))
    # Over REST the client knows the HTTP status alone, and that is also the one of a busy node.
    with pytest.raises(exceptions.Conflict, match="already exists"):
        create(client, wanted("v4-8"))


def test_stock_out_is_the_operations_error(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.fault("stock_out")
    with pytest.raises(exceptions.ResourceExhausted, match="There is no more capacity in the zone"):
        create(client, wanted("v4-8"))
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


@pytest.mark.parametrize(
    ("fault", "error", "reason"),
    [
        ("api_disabled", exceptions.Forbidden, "SERVICE_DISABLED"),
        ("iam_denied", exceptions.Forbidden, "IAM_PERMISSION_DENIED"),
        ("location_denied", exceptions.Forbidden, "LOCATION_POLICY_VIOLATED"),
        ("billing_disabled", exceptions.Forbidden, "BILLING_DISABLED"),
        ("rate_limit", exceptions.TooManyRequests, "RATE_LIMIT_EXCEEDED"),
        ("unavailable", exceptions.ServiceUnavailable, None),
        ("bad_gateway", exceptions.BadGateway, None),
    ],
)
def test_faults_are_googles_exceptions(
    cloud: Emulator,
    client: tpu_v2.TpuClient,
    fault: str,
    error: type[exceptions.GoogleAPICallError],
    reason: str | None,
) -> None:
    cloud.fault(fault)
    with pytest.raises(error) as caught:
        client.get_node(name=NAME, retry=None, timeout=10)
    assert caught.value.reason == reason
