"""Google's own Python client, over REST and gRPC, as it comes from the registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from emulator import Emulator
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.protobuf.field_mask_pb2 import FieldMask
from google_clients import EVERYWHERE, NAME, PARENT, QUEUED, request_of, tpu_client, wanted

State = tpu_v2.QueuedResourceState.State


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    with Emulator(grpc_port=0) as emulator:
        yield emulator


@pytest.fixture(params=["rest", "grpc"])
def client(cloud: Emulator, request: pytest.FixtureRequest) -> Iterator[tpu_v2.TpuClient]:
    with tpu_client(cloud, transport=request.param) as made:
        yield made


def create(client: tpu_v2.TpuClient, node: tpu_v2.Node, node_id: str = "n1") -> tpu_v2.Node:
    made: tpu_v2.Node = client.create_node(parent=PARENT, node=node, node_id=node_id).result(30)
    return made


def queue(
    client: tpu_v2.TpuClient, wish: tpu_v2.QueuedResource, name: str = "q1"
) -> tpu_v2.QueuedResource:
    operation = client.create_queued_resource(
        parent=PARENT, queued_resource=wish, queued_resource_id=name
    )
    made: tpu_v2.QueuedResource = operation.result(30)
    return made


# Nodes ------------------------------------------------------------------------------------------


def test_a_life(client: tpu_v2.TpuClient) -> None:
    made = create(client, wanted("v4-32"))
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


def test_waits_for_an_operation(client: tpu_v2.TpuClient, cloud: Emulator) -> None:
    cloud.control("clock", {"mode": "manual"})
    operation = client.create_node(parent=PARENT, node=wanted(), node_id="n1")
    assert not operation.done()
    assert operation.metadata.verb == "create"
    assert operation.metadata.target == NAME
    assert client.get_node(name=NAME).state == tpu_v2.Node.State.CREATING
    cloud.control("clock", {"mode": "real"})
    assert operation.result(30).state == tpu_v2.Node.State.READY


def test_update_sends_the_whole_node_back(client: tpu_v2.TpuClient) -> None:
    node = create(client, wanted())
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
    create(client, wanted())
    stopped = client.stop_node(request={"name": NAME}).result(30)
    assert stopped.state == tpu_v2.Node.State.STOPPED
    started = client.start_node(request={"name": NAME}).result(30)
    assert started.state == tpu_v2.Node.State.READY


def test_guest_attributes_come_in_the_order_of_workers(client: tpu_v2.TpuClient) -> None:
    create(client, wanted("v4-32"))
    answer = client.get_guest_attributes(request={"name": NAME, "query_path": "hostkeys/"})
    keys = [next(iter(entry.query_value.items)).value for entry in answer.guest_attributes]
    assert len(set(keys)) == 4
    one = client.get_guest_attributes(
        request={"name": NAME, "query_path": "hostkeys/", "worker_ids": ["2"]}
    )
    assert [entry.query_value.items[0].value for entry in one.guest_attributes] == [keys[2]]


def test_what_the_client_does_not_know(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    create(client, wanted())
    cloud.fault("unknown_fields")
    node = client.get_node(name=NAME)
    # An enum value that it has no name for reads as unspecified.
    assert node.health == tpu_v2.Node.Health.HEALTH_UNSPECIFIED
    assert (node.name, node.accelerator_type) == (NAME, "v4-8")


def test_names_may_carry_the_projects_number(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.fault("project_number")
    made = create(client, wanted())
    number = made.name.split("/")[1]
    assert number.isdigit()
    assert [node.name for node in client.list_nodes(parent=PARENT)] == [made.name]
    assert client.get_node(name=made.name).id == made.id


# Lists ------------------------------------------------------------------------------------------


def test_pages_and_unreachable_zones(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.populate(5)
    cloud.populate(1, prefix="far", zone="europe-west4-b", acceleratorType="v5p-8")
    cloud.fault("unreachable", match={"zone": "europe-west4-b"})
    pager = client.list_nodes(request={"parent": EVERYWHERE, "page_size": 2})
    assert len(list(pager)) == 5
    assert list(pager.unreachable) == [f"projects/{Emulator.project}/locations/europe-west4-b"]


def test_pages_may_be_tiny_and_empty(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.populate(3)
    cloud.fault("page_size", size=1)
    cloud.fault("empty_page")
    pages = list(client.list_nodes(parent=PARENT).pages)
    assert [] in [list(page.nodes) for page in pages]
    names = [node.name.rpartition("/")[2] for page in pages for node in page.nodes]
    assert names == ["node-0", "node-1", "node-2"]


def test_what_the_zone_offers(client: tpu_v2.TpuClient) -> None:
    types = {item.type_ for item in client.list_accelerator_types(parent=PARENT)}
    assert "v4-8" in types
    assert not any(name.startswith("v5p") for name in types)
    one = client.get_accelerator_type(name=f"{PARENT}/acceleratorTypes/v4-32")
    assert one.accelerator_configs[0].topology == "2x2x4"
    assert one.accelerator_configs[0].type_ == tpu_v2.AcceleratorConfig.Type.V4
    versions = {item.version for item in client.list_runtime_versions(parent=PARENT)}
    assert "tpu-ubuntu2204-base" in versions
    version = client.get_runtime_version(name=f"{PARENT}/runtimeVersions/tpu-ubuntu2204-base")
    assert version.version == "tpu-ubuntu2204-base"
    identity = client.generate_service_identity(request={"parent": PARENT}).identity
    assert identity.email.endswith("@cloud-tpu.iam.gserviceaccount.com")


def test_locations(client: tpu_v2.TpuClient) -> None:
    listed = client.list_locations(request={"name": f"projects/{Emulator.project}"})
    assert PARENT in [location.name for location in listed.locations]
    assert client.get_location(request={"name": PARENT}).location_id == Emulator.zone


def test_operations(client: tpu_v2.TpuClient) -> None:
    operation = client.create_node(parent=PARENT, node=wanted(), node_id="n1")
    name = operation.operation.name
    listed = client.list_operations(request={"name": PARENT})
    assert [item.name for item in listed.operations] == [name]
    assert client.get_operation(request={"name": name}).done
    client.delete_operation(request={"name": name})
    with pytest.raises(exceptions.NotFound):
        client.get_operation(request={"name": name})


# Queued resources -------------------------------------------------------------------------------


def test_a_queued_resource_gets_its_node(client: tpu_v2.TpuClient) -> None:
    made = queue(client, request_of())
    assert made.name == QUEUED
    got = client.get_queued_resource(name=QUEUED)
    assert got.state.state == State.ACTIVE
    assert "spot" in got
    assert [spec.node_id for spec in got.tpu.node_spec] == ["n1"]
    node = client.get_node(name=NAME)
    assert node.state == tpu_v2.Node.State.READY
    assert node.queued_resource == QUEUED
    assert [item.name for item in client.list_queued_resources(parent=EVERYWHERE)] == [QUEUED]


def test_a_queued_resource_waits_for_capacity(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.fault("stock_out")
    queue(client, request_of())
    assert client.get_queued_resource(name=QUEUED).state.state == State.WAITING_FOR_RESOURCES
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)
    client.delete_queued_resource(request={"name": QUEUED}).result(30)
    assert list(client.list_queued_resources(parent=PARENT)) == []


def test_several_slices_in_one_queued_resource(client: tpu_v2.TpuClient) -> None:
    queue(client, request_of("ms", count=2))
    assert [node.name for node in client.list_nodes(parent=PARENT)] == [
        f"{PARENT}/nodes/ms-0",
        f"{PARENT}/nodes/ms-1",
    ]
    client.delete_queued_resource(request={"name": QUEUED, "force": True}).result(30)
    assert list(client.list_nodes(parent=PARENT)) == []
    assert list(client.list_queued_resources(parent=PARENT)) == []


def test_queued_resources_in_pages(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    for index in range(3):
        queue(client, request_of(f"n{index}"), f"q{index}")
    cloud.fault("empty_page")
    pager = client.list_queued_resources(request={"parent": PARENT, "page_size": 1})
    assert [item.name.rpartition("/")[2] for item in pager] == ["q0", "q1", "q2"]


def test_reset_makes_the_nodes_again(client: tpu_v2.TpuClient) -> None:
    queue(client, request_of())
    before = client.get_node(name=NAME).id
    reset = client.reset_queued_resource(request={"name": QUEUED}).result(30)
    assert reset.name == QUEUED
    assert client.get_queued_resource(name=QUEUED).state.state == State.ACTIVE
    assert client.get_node(name=NAME).id != before


def test_a_request_that_is_sent_again_makes_nothing_new(client: tpu_v2.TpuClient) -> None:
    request = tpu_v2.CreateQueuedResourceRequest(
        parent=PARENT,
        queued_resource_id="q1",
        queued_resource=request_of(),
        request_id="6f0f0d3c-7e0d-4a1f-9f0e-1c9d7f6f2a11",
    )
    first = client.create_queued_resource(request=request)
    again = client.create_queued_resource(request=request)
    assert again.operation.name == first.operation.name
    assert len(list(client.list_queued_resources(parent=PARENT))) == 1
