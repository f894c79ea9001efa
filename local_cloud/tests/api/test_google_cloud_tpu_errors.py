"""Every kind of error, as the exceptions of Google's own Python client.

Over REST that client goes by the HTTP status alone, and so knows less than over gRPC: where the two
differ, the tables have both, and the status in the answer has to be that of gRPC's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from emulator import Emulator
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.rpc import code_pb2
from google_clients import NAME, PARENT, QUEUED, Renewable, request_of, tpu_client, wanted

Act = Callable[[tpu_v2.TpuClient], Any]


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    with Emulator(grpc_port=0) as emulator:
        yield emulator


@pytest.fixture(params=["rest", "grpc"])
def client(cloud: Emulator, request: pytest.FixtureRequest) -> Iterator[tpu_v2.TpuClient]:
    with tpu_client(cloud, transport=request.param) as made:
        yield made


def create(client: tpu_v2.TpuClient, **fields: Any) -> Any:
    node = wanted()
    for name, value in fields.items():
        setattr(node, name, value)
    return client.create_node(parent=PARENT, node=node, node_id="n1", timeout=20)


def queue(client: tpu_v2.TpuClient) -> Any:
    return client.create_queued_resource(
        parent=PARENT, queued_resource=request_of(), queued_resource_id="q1"
    )


def assert_class(
    error: exceptions.GoogleAPICallError, over_rest: type[Exception], over_grpc: type[Exception]
) -> None:
    """Assert the class that was raised, and over REST also the one that its status is over gRPC."""
    if not isinstance(error.response, requests.Response):
        assert type(error) is over_grpc
        return
    assert type(error) is over_rest
    status = error.response.json()["error"]["status"]
    assert type(exceptions.from_grpc_status(code_pb2.Code.Value(status), "")) is over_grpc


REFUSED = [
    ("api_disabled", {}, exceptions.Forbidden, exceptions.PermissionDenied,
     "SERVICE_DISABLED", "Cloud TPU API has not been used in project"),
    ("iam_denied", {}, exceptions.Forbidden, exceptions.PermissionDenied,
     "IAM_PERMISSION_DENIED", "Permission 'tpu.nodes.create' denied on"),
    ("location_denied", {}, exceptions.Forbidden, exceptions.PermissionDenied,
     "LOCATION_POLICY_VIOLATED", "Permission denied on 'locations/us-central2-b'"),
    ("billing_disabled", {}, exceptions.Forbidden, exceptions.PermissionDenied,
     "BILLING_DISABLED", "requires billing to be enabled"),
    ("queue_denied", {}, exceptions.Forbidden, exceptions.PermissionDenied,
     None, "User does not have permission to submit requests"),
    ("quota", {"limit": 0}, exceptions.TooManyRequests, exceptions.ResourceExhausted,
     None, "has been exceeded. Limit: 0 in zone us-central2-b."),
    ("rate_limit", {}, exceptions.TooManyRequests, exceptions.ResourceExhausted,
     "RATE_LIMIT_EXCEEDED", "Quota exceeded for quota metric"),
    ("internal", {}, exceptions.InternalServerError, exceptions.InternalServerError,
     None, "nternal error"),
    ("unavailable", {}, exceptions.ServiceUnavailable, exceptions.ServiceUnavailable,
     None, "The service is currently unavailable."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "options", "over_rest", "over_grpc", "reason", "text"),
    REFUSED,
    ids=[row[0] for row in REFUSED],
)
def test_a_request_is_refused(
    cloud: Emulator,
    client: tpu_v2.TpuClient,
    fault: str,
    options: dict[str, Any],
    over_rest: type[Exception],
    over_grpc: type[Exception],
    reason: str | None,
    text: str,
) -> None:
    cloud.fault(fault, **options)
    with pytest.raises(exceptions.GoogleAPICallError, match=text) as caught:
        create(client)
    assert_class(caught.value, over_rest, over_grpc)
    assert caught.value.reason == reason
    cloud.control("faults", method="DELETE")
    assert list(client.list_nodes(parent=PARENT)) == []


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_no_token_will_do(cloud: Emulator, transport: str) -> None:
    cloud.fault("unauthenticated")
    credentials = Renewable()
    with (
        tpu_client(cloud, credentials, transport) as client,
        pytest.raises(exceptions.Unauthorized, match="invalid authentication cred") as caught,
    ):
        create(client)
    # Over gRPC Google's library leaves it to its caller to try again with another one.
    assert (credentials.renewed > 0) == (transport == "rest")
    assert_class(caught.value, exceptions.Unauthorized, exceptions.Unauthenticated)
    assert caught.value.reason == "ACCESS_TOKEN_EXPIRED"


def test_an_expired_token_is_renewed(cloud: Emulator) -> None:
    cloud.fault("token_expired", token="token-0")
    credentials = Renewable()
    with tpu_client(cloud, credentials) as client:
        assert create(client).result(30).name == NAME
    assert credentials.renewed == 1


def test_a_token_is_sent_over_grpc(cloud: Emulator) -> None:
    cloud.fault("token_expired", token="token-0")
    credentials = Renewable()
    with tpu_client(cloud, credentials, "grpc") as client:
        with pytest.raises(exceptions.Unauthenticated):
            create(client)
        credentials.refresh(None)
        assert create(client).result(30).name == NAME


def stop_slice(client: tpu_v2.TpuClient) -> Any:
    create(client, accelerator_type="v4-32")
    return client.stop_node(request={"name": NAME})


def create_twice(client: tpu_v2.TpuClient) -> Any:
    create(client)
    return create(client)


def delete_active(client: tpu_v2.TpuClient) -> Any:
    queue(client)
    return client.delete_queued_resource(request={"name": QUEUED})


WRONG = [
    (lambda client: create(client, accelerator_type="v5p-8"), exceptions.BadRequest,
     exceptions.InvalidArgument, "the accelerator v5p-8 was not found in zone us-central2-b"),
    (stop_slice, exceptions.BadRequest, exceptions.InvalidArgument,
     "This operation is only available with single TPU nodes."),
    (delete_active, exceptions.BadRequest, exceptions.FailedPrecondition, ""),
    (lambda client: client.get_node(name=NAME), exceptions.NotFound, exceptions.NotFound,
     f"Resource '{NAME}' was not found"),
    (lambda client: client.get_queued_resource(name=QUEUED), exceptions.NotFound,
     exceptions.NotFound, f"Resource '{QUEUED}' was not found"),
    (create_twice, exceptions.Conflict, exceptions.AlreadyExists,
     f"Resource '{NAME}' already exists"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "over_rest", "over_grpc", "text"),
    WRONG,
    ids=["type", "multi-host", "active", "node", "queued", "exists"],
)
def test_a_request_is_wrong(
    client: tpu_v2.TpuClient,
    act: Act,
    over_rest: type[Exception],
    over_grpc: type[Exception],
    text: str,
) -> None:
    with pytest.raises(exceptions.GoogleAPICallError) as caught:
        act(client)
    assert text in str(caught.value)
    assert_class(caught.value, over_rest, over_grpc)


def test_a_busy_node_is_a_conflict(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    create(client)
    cloud.fault("busy")
    with pytest.raises(exceptions.Conflict, match="unable to queue the operation") as caught:
        client.delete_node(name=NAME)
    assert_class(caught.value, exceptions.Conflict, exceptions.Aborted)


FAILED = [
    ("stock_out", {}, exceptions.ResourceExhausted, "There is no more capacity in the zone"),
    ("operation_internal", {}, exceptions.InternalServerError, "an internal error"),
    ("reservation_missing", {}, exceptions.NotFound, "Reservation not found"),
    ("reservation_full", {}, exceptions.ResourceExhausted, "Insufficient reserved capacity"),
    ("late_failure", {"seconds": 30, "error": "stock_out"}, exceptions.ResourceExhausted,
     "There is no more capacity"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "options", "error", "text"), FAILED, ids=[row[0] for row in FAILED]
)
def test_an_operation_fails(
    cloud: Emulator,
    client: tpu_v2.TpuClient,
    fault: str,
    options: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    cloud.fault(fault, **options)
    operation = create(client)
    with pytest.raises(error, match=text) as caught:
        operation.result(30)
    assert type(caught.value) is error
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


def test_a_cancelled_operation(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.control("clock", {"mode": "manual"})
    operation = create(client)
    assert not operation.done()
    client.cancel_operation(request={"name": operation.operation.name})
    with pytest.raises(exceptions.Cancelled):
        operation.result(30)


def test_an_operation_on_a_node_that_is_taken_back(
    cloud: Emulator, client: tpu_v2.TpuClient
) -> None:
    cloud.control("clock", {"mode": "manual"})
    operation = create(client)
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/n1:preempt")
    with pytest.raises(exceptions.InvalidArgument, match="while in state PREEMPTED"):
        operation.result(30)
    assert client.get_node(name=NAME).state == tpu_v2.Node.State.PREEMPTED


def test_html_in_place_of_json(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.fault("bad_gateway")
    with pytest.raises((exceptions.BadGateway, exceptions.ServiceUnavailable), match="502"):
        create(client)


@pytest.mark.parametrize("fault", ["drop", "reset"])
def test_a_lost_answer_is_no_error_of_the_api(
    cloud: Emulator, client: tpu_v2.TpuClient, fault: str
) -> None:
    cloud.fault(fault, count=1)
    # A call over gRPC always has a status, and this is the one of a connection that was lost.
    with pytest.raises((requests.RequestException, exceptions.ServiceUnavailable)):
        create(client)


def test_an_operation_that_never_ends(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.fault("stuck_operation")
    operation = create(client)
    assert client.get_node(name=NAME).state == tpu_v2.Node.State.READY
    assert not operation.done()
