"""Google's generic client, which builds itself from the discovery document."""

from __future__ import annotations

from typing import Any

import pytest
from emulator import Emulator
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

PARENT = f"projects/{Emulator.project}/locations/{Emulator.zone}"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


@pytest.fixture
def locations(cloud: Emulator) -> Any:
    service = build(
        "tpu",
        "v2",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.url},
        static_discovery=True,
    )
    return service.projects().locations()


def test_a_life(locations: Any) -> None:
    nodes = locations.nodes()
    begun = nodes.create(parent=PARENT, nodeId="n1", body=BODY).execute()
    ended = locations.operations().get(name=begun["name"]).execute()
    assert ended["done"] is True
    assert ended["response"]["name"] == f"{PARENT}/nodes/n1"
    assert nodes.get(name=f"{PARENT}/nodes/n1").execute()["state"] == "READY"
    nodes.patch(name=f"{PARENT}/nodes/n1", updateMask="tags", body={"tags": ["t"]}).execute()
    assert nodes.list(parent=PARENT).execute()["nodes"][0]["tags"] == ["t"]
    nodes.delete(name=f"{PARENT}/nodes/n1").execute()
    assert nodes.list(parent=PARENT).execute() == {}


def test_pages_follow_each_other(cloud: Emulator, locations: Any) -> None:
    cloud.populate(5)
    nodes = locations.nodes()
    request, names = nodes.list(parent=PARENT, pageSize=2), []
    while request is not None:
        answer = request.execute()
        names += [node["name"].rpartition("/")[2] for node in answer["nodes"]]
        request = nodes.list_next(request, answer)
    assert names == [f"node-{index}" for index in range(5)]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ({"nodeId": "Bad_Name", "body": BODY}, 400, "Malformed name: "),
        ({"nodeId": "n1", "body": {**BODY, "frob": 1}}, 400, "Unknown name \"frob\" at 'node'"),
        (
            {"nodeId": "n1", "body": {**BODY, "acceleratorType": "v5p-8"}},
            400,
            "the accelerator v5p-8 was not found in zone us-central2-b",
        ),
        (
            {
                "nodeId": "n1",
                "body": {**BODY, "acceleratorConfig": {"type": "V4", "topology": "2x2x1"}},
            },
            400,
            "cannot both be specified",
        ),
    ],
)
def test_refusals(locations: Any, arguments: dict[str, Any], status: int, text: str) -> None:
    with pytest.raises(HttpError) as caught:
        locations.nodes().create(parent=PARENT, **arguments).execute()
    assert caught.value.status_code == status
    assert text in caught.value.reason
