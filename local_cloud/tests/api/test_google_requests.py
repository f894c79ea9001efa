"""What Google's Python libraries ask for, request by request, as it was recorded from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from google.api_core import exceptions
from google.auth.transport.requests import AuthorizedSession
from google.cloud import tpu_v2
from google.protobuf.field_mask_pb2 import FieldMask
from google_clients import EVERYWHERE, PARENT, Renewable, discovered, tpu_client
from googleapiclient.errors import HttpError
from recording import RecordingEmulator

# What the client of google-cloud-tpu adds to all of its own requests, but not to polls.
ALT = "$alt=json;enum-encoding=int"


@pytest.fixture
def cloud() -> Iterator[RecordingEmulator]:
    emulator = RecordingEmulator()
    yield emulator
    emulator.stop()


def asked(cloud: RecordingEmulator) -> list[tuple[str, Any]]:
    """Say what was asked since the last time; polls of one operation make one line."""
    found: list[tuple[str, Any]] = []
    for exchange in cloud.seen:
        path = exchange.path.replace(PARENT, "HERE").replace(EVERYWHERE, "ALL")
        line = f"{exchange.method} {re.sub(r'operation-[0-9a-f-]+$', '*', path)}"
        if exchange.query:
            line += "?" + urlencode(sorted(exchange.query.items()), safe="$;=")
        if not found or found[-1] != (line, None) or "/operations/" not in line:
            found.append((line, exchange.body or None))
    cloud.seen.clear()
    return found


def test_google_cloud_tpu(cloud: RecordingEmulator) -> None:
    with tpu_client(cloud) as client:
        list(client.list_nodes(parent=EVERYWHERE))
        assert asked(cloud) == [(f"GET /v2/ALL/nodes?{ALT}", None)]

        cloud.control("clock", {"mode": "real", "speed": 10})
        node = tpu_v2.Node(
            accelerator_type="v4-16",
            runtime_version="tpu-ubuntu2204-base",
            scheduling_config={"spot": True},
        )
        made = client.create_node(parent=PARENT, node_id="py1", node=node).result(30)
        body = {
            "acceleratorType": "v4-16",
            "runtimeVersion": "tpu-ubuntu2204-base",
            "schedulingConfig": {"spot": True},
        }
        assert asked(cloud) == [
            (f"POST /v2/HERE/nodes?{ALT}&nodeId=py1", body),
            ("GET /v2/HERE/operations/*", None),
        ]
        cloud.control("clock", {"mode": "immediate"})

        client.get_node(name=made.name)
        client.update_node(
            node=tpu_v2.Node(name=made.name, labels={"a": "b"}),
            update_mask=FieldMask(paths=["labels"]),
        ).result(30)
        client.get_guest_attributes(
            request={"name": made.name, "query_path": "hostkeys/", "worker_ids": ["1"]}
        )
        seen = asked(cloud)
        assert seen[0] == (f"GET /v2/HERE/nodes/py1?{ALT}", None)
        line, body = seen[1]
        assert line == f"PATCH /v2/HERE/nodes/py1?{ALT}&updateMask=labels"
        assert body["labels"] == {"a": "b"}
        assert seen[2:] == [
            (
                f"POST /v2/HERE/nodes/py1:getGuestAttributes?{ALT}",
                {"queryPath": "hostkeys/", "workerIds": ["1"]},
            )
        ]

        spec = {
            "parent": PARENT,
            "node_id": "pyqn",
            "node": {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"},
        }
        client.create_queued_resource(
            parent=PARENT,
            queued_resource_id="pyq",
            queued_resource=tpu_v2.QueuedResource(spot={}, tpu={"node_spec": [spec]}),
        ).result(30)
        name = f"{PARENT}/queuedResources/pyq"
        client.delete_queued_resource(request={"name": name, "force": True}).result(30)
        client.delete_node(name=made.name).result(30)
        with pytest.raises(exceptions.NotFound):
            client.get_node(name=f"{PARENT}/nodes/none")
        client.list_locations(request={"name": f"projects/{cloud.project}"})
        shown = {
            "parent": PARENT,
            "nodeId": "pyqn",
            "node": {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"},
        }
        assert asked(cloud) == [
            (
                f"POST /v2/HERE/queuedResources?{ALT}&queuedResourceId=pyq",
                {"spot": {}, "tpu": {"nodeSpec": [shown]}},
            ),
            (f"DELETE /v2/HERE/queuedResources/pyq?{ALT}&force=true", None),
            (f"DELETE /v2/HERE/nodes/py1?{ALT}", None),
            (f"GET /v2/HERE/nodes/none?{ALT}", None),
            (f"GET /v2/projects/{cloud.project}/locations", None),
        ]


def test_googleapiclient(cloud: RecordingEmulator) -> None:
    nodes = discovered(cloud).nodes()
    body = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    assert nodes.list(parent=EVERYWHERE).execute() == {}
    assert "name" in nodes.create(parent=PARENT, nodeId="g1", body=body).execute()
    with pytest.raises(HttpError):
        nodes.get(name=f"{PARENT}/nodes/none").execute()
    assert asked(cloud) == [
        ("GET /v2/ALL/nodes?alt=json", None),
        ("POST /v2/HERE/nodes?alt=json&nodeId=g1", body),
        ("GET /v2/HERE/nodes/none?alt=json", None),
    ]


def test_authorized_session(cloud: RecordingEmulator) -> None:
    session = AuthorizedSession(Renewable())
    answer = session.get(f"{cloud.url}v2/{EVERYWHERE}/nodes", params={"pageSize": 2})
    assert answer.json() == {}
    (exchange,) = cloud.seen
    assert exchange.headers["authorization"] == "Bearer token-0"
    assert asked(cloud) == [("GET /v2/ALL/nodes?pageSize=2", None)]
