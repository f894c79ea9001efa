"""Ray's autoscaler: GCPNodeProvider, and GCPTPU below it (v2alpha by the discovery document)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from cloud_of_clients import LocalCloud
from googleapiclient.errors import HttpError
from ray.autoscaler._private.gcp.node_provider import GCPNodeProvider

ZONE = "us-central2-b"
NODE = {"acceleratorType": "v4-32", "runtimeVersion": "tpu-ubuntu2204-base"}
TAGS = {"ray-node-name": "ray-c-worker", "ray-node-type": "worker", "ray-user-node-type": "tpu"}


def provider(**more: Any) -> GCPNodeProvider:
    config = {
        "project_id": LocalCloud.project,
        "availability_zone": ZONE,
        "_has_tpus": True,
        "gcp_credentials": {"type": "credentials_token", "credentials": "token"},
        **more,
    }
    return GCPNodeProvider(config, "c")


def create(ray: GCPNodeProvider, count: int = 1, **config: Any) -> list[str]:
    """Create nodes; return their names, which are full ones in all that is asked later."""
    before = ray.non_terminated_nodes({})
    made = ray.create_node({**NODE, **config}, TAGS, count)
    names = [name for name in ray.non_terminated_nodes({}) if name not in before]
    assert sorted(name.rpartition("/")[2] for name in names) == sorted(made)
    return names


def test_a_life(cloud: LocalCloud) -> None:
    ray = provider()
    name, other = create(ray, 2)
    assert cloud.nodes() == [(ZONE, "READY")] * 2
    assert ray.is_running(name)
    assert not ray.is_terminated(name)
    node = ray._get_node(name)
    assert node.num_workers == 4
    assert len({node.get_external_ip(worker) for worker in range(4)}) == 4
    assert ray.internal_ip(name) == node.get_internal_ip(0)
    ray.set_node_tags(name, {"ray-node-status": "up-to-date"})
    assert ray.non_terminated_nodes({"ray-node-status": "up-to-date"}) == [name]
    assert ray.node_tags(name) == {**TAGS, "ray-cluster-name": "c", "ray-node-status": "up-to-date"}
    for each in (name, other):
        ray.terminate_node(each)
    assert ray.non_terminated_nodes({}) == []
    # It takes a node that is gone for terminated.
    assert ray._thread_unsafe_terminate_node(name) is None
    assert cloud.nodes() == []


def test_a_type_by_its_topology(cloud: LocalCloud) -> None:
    ray = provider()
    shape = {"acceleratorConfig": {"type": "V4", "topology": "2x2x2"}}
    ray.create_node({**shape, "runtimeVersion": NODE["runtimeVersion"]}, TAGS, 1)
    [name] = ray.non_terminated_nodes({})
    assert ray._get_node(name)["acceleratorType"] == "v4-16"


def test_stopped_nodes_are_used_again(cloud: LocalCloud) -> None:
    ray = provider(cache_stopped_nodes=True)
    [name] = create(ray, acceleratorType="v4-8")
    ray.terminate_node(name)
    assert cloud.nodes() == [(ZONE, "STOPPED")]
    ray.resources[next(k for k in ray.resources if k.value == "tpu")].start_instance(name)
    assert cloud.nodes() == [(ZONE, "READY")]


def test_a_busy_node_is_asked_again(cloud: LocalCloud) -> None:
    """By the words of the error: `unable to queue the operation`."""
    ray = provider()
    [name] = create(ray)
    cloud.fault("busy", count=1)
    started = time.monotonic()
    ray.set_node_tags(name, {"ray-node-status": "up-to-date"})
    assert time.monotonic() - started >= 5
    assert ray.non_terminated_nodes({"ray-node-status": "up-to-date"}) == [name]


def test_no_capacity_is_an_error_of_the_operation(cloud: LocalCloud) -> None:
    cloud.fault("stock_out")
    with pytest.raises(Exception, match="There is no more capacity in the zone") as caught:
        provider().create_node(NODE, TAGS, 1)
    # As GCPTPU.wait_for_operation raises it, and nothing else does.
    assert type(caught.value) is Exception
    assert caught.value.args[0]["code"] == 8
    cloud.mend()
    assert cloud.nodes() == []


def test_quota_is_an_error_of_the_request(cloud: LocalCloud) -> None:
    cloud.fault("quota", limit=16)
    with pytest.raises(HttpError) as caught:
        provider().create_node(NODE, TAGS, 1)
    assert caught.value.status_code == 429
    [detail] = caught.value.error_details
    assert detail["@type"] == "type.googleapis.com/google.rpc.QuotaFailure"
    cloud.mend()
    assert cloud.nodes() == []


def test_a_preempted_node_is_none_of_its_nodes(cloud: LocalCloud) -> None:
    ray = provider()
    kept, lost = create(ray, 2)
    cloud.control(f"nodes/{cloud.project}/{ZONE}/{lost.rpartition('/')[2]}:preempt", {})
    assert ray.non_terminated_nodes({}) == [kept]
    assert ray.is_terminated(lost)
