"""Several calls in one request."""

from __future__ import annotations

import json
from email import message_from_bytes
from typing import Any

import pytest
from clouds import a_cloud
from starlette.datastructures import Headers

from tpu_local_cloud.compute_api import batch
from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.shared.faults import Fault
from tpu_local_cloud.serve.frontend import FrontEnd

KIND = 'multipart/mixed; boundary="===============7=="'
REGION = "/compute/v1/projects/local-project/regions/us-central1/resourcePolicies"
POLICY = {"name": "wp", "workloadPolicy": {"type": "HIGH_THROUGHPUT"}}


def part(number: int, line: str, body: Any = None) -> str:
    """Return a call as gcloud and google-api-python-client write it."""
    text = "" if body is None else json.dumps(body)
    return (
        "--===============7==\n"
        "Content-Type: application/http\nMIME-Version: 1.0\n"
        f"Content-Transfer-Encoding: binary\nContent-ID: <a7a17de4+{number}>\n\n"
        f"{line}\nContent-Type: application/json\nMIME-Version: 1.0\nHost: 127.0.0.1:1\n"
        f"content-length: {len(text)}\n\n{text}\n"
    )


def body(*parts: str) -> bytes:
    return ("".join(parts) + "--===============7==--\n").encode()


@pytest.fixture
def front() -> FrontEnd:
    cloud = a_cloud(project="local-project")
    return FrontEnd(cloud)


def answers(front: FrontEnd, *parts: str) -> list[tuple[str, str, Any]]:
    """Return the id, the status line and the body of each answer."""
    headers = Headers({"Content-Type": KIND, "Authorization": "Bearer x"})
    reply = front.reply("POST", "/batch/compute/v1", {}, headers, body(*parts))
    assert reply.status == 200
    kind = reply.headers["Content-Type"]
    whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + reply.body)
    found = []
    for each in whole.get_payload():
        assert each.get_content_type() == "application/http"
        head, _, text = each.get_payload().partition("\r\n\r\n")
        found.append((each["Content-ID"], head.splitlines()[0], json.loads(text)))
    return found


def test_each_call_is_answered_by_itself(front: FrontEnd) -> None:
    first, second, third = answers(
        front,
        part(0, f"POST {REGION}?alt=json HTTP/1.1", POLICY),
        part(1, f"POST {REGION}?alt=json", POLICY),
        part(2, f"GET {REGION}/wp?alt=json"),
    )
    assert first[:2] == ("<response-a7a17de4+0>", "HTTP/1.1 200 OK")
    assert first[2]["kind"] == "compute#operation"
    assert second[:2] == ("<response-a7a17de4+1>", "HTTP/1.1 409 Conflict")
    assert third[2]["name"] == "wp"


def test_the_token_of_the_batch_is_that_of_its_calls(front: FrontEnd) -> None:
    front.cloud.require_auth = True
    assert answers(front, part(0, f"GET {REGION}?alt=json"))[0][1] == "HTTP/1.1 200 OK"
    reply = front.reply(
        "POST",
        "/batch/compute/v1",
        {},
        Headers({"Content-Type": KIND}),
        body(part(0, f"GET {REGION}?alt=json")),
    )
    assert b"HTTP/1.1 401" in reply.body


def test_a_lost_answer_is_lost_as_a_whole(front: FrontEnd) -> None:
    front.cloud.faults.add(Fault("drop", {"method": "POST"}, options={"when": "after"}))
    headers = Headers({"Content-Type": KIND})
    line = f"POST {REGION}?alt=json"
    reply = front.reply("POST", "/batch/compute/v1", {}, headers, body(part(0, line, POLICY)))
    assert reply.cut == "drop"
    assert front.cloud.around.resource_policies.get("regions/us-central1/wp")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/json", b"{}"),
        ("multipart/mixed", body(part(0, "GET /x"))),
        (KIND, body(part(0, "nonsense"))),
    ],
)
def test_what_is_no_batch(kind: str, content: bytes) -> None:
    with pytest.raises(ComputeError, match="could not be decoded") as refused:
        batch.parts(kind, content)
    assert refused.value.http == 400


def test_too_many_calls() -> None:
    with pytest.raises(ComputeError, match="1001 calls"):
        batch.parts(KIND, body(*(part(n, "GET /x") for n in range(1001))))
