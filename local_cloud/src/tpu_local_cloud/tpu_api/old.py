"""Methods of the old architecture, TPU Node: enough to show that it creates nothing new."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..model.cloud import Cloud
from ..model.shared import schema
from ..model.shared.records import NodeRecord
from .call import Call, page


def list_nodes(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List nodes in the old shape, which `gcloud compute tpus list` reads."""
    return page(call, cloud.nodes_in(call.zone), "nodes", lambda node: _node(cloud, node))


def get_node(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one node in the old shape."""
    return _node(cloud, cloud.node(call.zone, call.id))


def create_node(_cloud: Cloud, _call: Call) -> dict[str, Any]:
    """Refuse, as Google does since the end of that architecture."""
    raise errors.old_architecture()


def refuse_change(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Refuse to start, stop, reimage or delete, because each node is a TPU VM."""
    node = cloud.node(call.zone, call.id)
    raise errors.new_architecture(node.resource(cloud.project))


def list_versions(_cloud: Cloud, _call: Call) -> dict[str, Any]:
    """List no version of TensorFlow, because no node could be created with one."""
    return {}


def get_version(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return that a version of TensorFlow does not exist."""
    here = f"projects/{cloud.project}/locations/{call.zone}"
    raise errors.not_found(f"{here}/tensorflowVersions/{call.id}")


def _node(cloud: Cloud, node: NodeRecord) -> dict[str, Any]:
    shown = cloud.render(node)
    kept = ("name", "description", "acceleratorType", "state", "health", "createTime", "labels")
    old = {key: shown[key] for key in kept if key in shown}
    old["tensorflowVersion"] = node.body.get("runtimeVersion", "")
    old["apiVersion"] = shown["apiVersion"]
    old["network"] = node.body.get("networkConfig", {}).get("network", "default")
    old["networkEndpoints"] = [
        {"ipAddress": e["ipAddress"], "port": e["port"]} for e in shown.get("networkEndpoints", [])
    ]
    result: dict[str, Any] = schema.proto3(old)
    return result
