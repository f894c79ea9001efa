"""The API over gRPC: what is of it alone. All else, `test_google_cloud_tpu*.py` ask over both."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from emulator import Emulator
from google.api_core import exceptions
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.tpu_v2.services.tpu.transports import (
    TpuGrpcAsyncIOTransport,
    TpuGrpcTransport,
    TpuRestTransport,
)
from google.cloud.tpu_v2alpha1.services.tpu.transports import (
    TpuGrpcTransport as AlphaTransport,
)
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import error_details_pb2
from google_clients import NAME, PARENT, QUEUED, request_of, tpu_client, wanted
from ports import free_port

from tpu_local_cloud.serve import grpc as api_grpc

NOBODY = 65534
REQUEST_ID = "6f0f0d3c-7e0d-4a1f-9f0e-1c9d7f6f2a11"


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    with Emulator(grpc_port=0) as emulator:
        yield emulator


@pytest.fixture
def client(cloud: Emulator) -> Iterator[tpu_v2.TpuClient]:
    with tpu_client(cloud, transport="grpc") as made:
        yield made


@pytest.fixture
def alpha(cloud: Emulator) -> Iterator[tpu_v2alpha1.TpuClient]:
    channel = grpc.insecure_channel(cloud.server.grpc_endpoint)
    with tpu_v2alpha1.TpuClient(transport=AlphaTransport(channel=channel)) as made:
        yield made


# The methods --------------------------------------------------------------------------------------


class Asked:
    """In the place of a channel: notes the methods that a client of Google's can call."""

    def __init__(self) -> None:
        self.methods: set[str] = set()

    def unary_unary(self, method: str, **_: Any) -> None:
        """Note a method."""
        self.methods.add(method)


def test_every_method_of_googles_clients_is_there() -> None:
    asked = Asked()
    for kind in (TpuGrpcTransport, AlphaTransport):
        transport = kind(channel=grpc.insecure_channel("127.0.0.1:1"))
        transport._stubs, transport._logged_channel = {}, asked
        for name, member in vars(kind).items():
            if isinstance(member, property) and name not in ("grpc_channel", "operations_client"):
                getattr(transport, name)
    assert len(asked.methods) > 40
    assert asked.methods == set(api_grpc.METHODS)


def test_the_requests_are_those_that_google_makes_of_the_methods() -> None:
    """Google's own client over REST says which request a method of v2 stands for."""
    kind, compared = TpuRestTransport.__mro__[1], 0
    for full, method in api_grpc.METHODS.items():
        name = full.rpartition("/")[2]
        if ".v2alpha1." in full:
            continue
        [option] = getattr(kind, f"_Base{name}")._get_http_options()
        assert (method.http, method.uri) == (option["method"], option["uri"]), full
        assert method.body == option.get("body", ""), full
        compared += 1
    assert compared > 20


def test_a_life_by_the_asynchronous_client(cloud: Emulator) -> None:
    async def live() -> None:
        channel = grpc.aio.insecure_channel(cloud.server.grpc_endpoint)
        client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
        async with client:
            for name in ("n1", "n2", "n3"):
                made = await client.create_node(parent=PARENT, node=wanted(), node_id=name)
                assert (await made.result(30)).state == tpu_v2.Node.State.READY
            pager = await client.list_nodes(request={"parent": PARENT, "page_size": 2})
            assert [node.name[-2:] async for node in pager] == ["n1", "n2", "n3"]
            node = await client.get_node(name=NAME)
            node.labels = {"c": "d"}
            mask = FieldMask(paths=["labels"])
            updated = await (await client.update_node(node=node, update_mask=mask)).result(30)
            assert dict(updated.labels) == {"c": "d"}
            for ask, state in ((client.stop_node, "STOPPED"), (client.start_node, "READY")):
                assert (await (await ask(request={"name": NAME})).result(30)).state.name == state
            with pytest.raises(exceptions.AlreadyExists):
                await client.create_node(parent=PARENT, node=wanted(), node_id="n1")
            await (await client.delete_node(name=NAME)).result(30)
            with pytest.raises(exceptions.NotFound):
                await client.get_node(name=NAME)
            wish = {"queued_resource": request_of(), "queued_resource_id": "q1"}
            operation = await client.create_queued_resource(parent=PARENT, **wish)
            assert (await operation.result(30)).name == QUEUED
            listed = await client.list_operations(request={"name": PARENT})
            assert operation.operation.name in [each.name for each in listed.operations]
            cloud.fault("quota", limit=0)
            with pytest.raises(exceptions.ResourceExhausted):
                await client.create_node(parent=PARENT, node=wanted(), node_id="n4")

    asyncio.run(live())


def test_the_methods_of_the_alpha_version(cloud: Emulator, alpha: tpu_v2alpha1.TpuClient) -> None:
    node = tpu_v2alpha1.Node(accelerator_type="v4-32", runtime_version="tpu-ubuntu2204-base")
    request = {"parent": PARENT, "node_id": "n1", "node": node, "request_id": REQUEST_ID}
    made = alpha.create_node(request=request)
    assert alpha.create_node(request=request).operation.name == made.operation.name
    assert made.result(30).api_version == tpu_v2alpha1.Node.ApiVersion.V2_ALPHA1
    event = {"name": NAME, "worker_ids": ["2"]}
    assert alpha.simulate_maintenance_event(request=event).result(30).name == NAME
    assert alpha.perform_maintenance(request={"name": NAME}).result(30) is not None
    cloud.control("reservations", {"zone": Emulator.zone, "name": "lab", "chips": 32})
    assert [
        each.name.rpartition("/")[2] for each in alpha.list_reservations(request={"parent": PARENT})
    ] == ["lab"]


def test_a_mask_in_either_spelling(client: tpu_v2.TpuClient) -> None:
    """In a message its paths are text: programs write there what they do in a query."""
    client.create_node(parent=PARENT, node=wanted(), node_id="n1").result(30)
    for path in ("data_disks", "dataDisks", "network_config.enable_external_ips"):
        node = tpu_v2.Node(name=NAME)
        assert client.update_node(node=node, update_mask=FieldMask(paths=[path])).result(30)
    with pytest.raises(exceptions.InvalidArgument, match="invalid update mask"):
        client.update_node(node=tpu_v2.Node(name=NAME), update_mask=FieldMask(paths=["Health"]))


# Errors -------------------------------------------------------------------------------------------


def test_errors_carry_googles_details(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    def refused(kind: str, **options: Any) -> exceptions.GoogleAPICallError:
        cloud.fault(kind, **options)
        with pytest.raises(exceptions.GoogleAPICallError) as caught:
            client.create_node(parent=PARENT, node=wanted(), node_id="n1")
        cloud.control("faults", method="DELETE")
        error: exceptions.GoogleAPICallError = caught.value
        return error

    [quota] = refused("quota", limit=4).details
    assert isinstance(quota, error_details_pb2.QuotaFailure)
    assert "Limit 4 in zone us-central2-b" in quota.violations[0].description
    limited = refused("rate_limit")
    assert type(limited) is exceptions.ResourceExhausted
    assert (limited.reason, limited.domain) == ("RATE_LIMIT_EXCEEDED", "googleapis.com")
    assert limited.metadata["service"] == "tpu.googleapis.com"
    assert any(isinstance(d, error_details_pb2.Help) for d in refused("api_disabled").details)


@pytest.mark.parametrize("name", ["n1", f"{PARENT}/queuedResources/n1", "", f"{NAME}/more"])
def test_a_name_has_to_be_one_of_a_node(
    cloud: Emulator, client: tpu_v2.TpuClient, name: str
) -> None:
    cloud.populate(1, prefix="n")
    with pytest.raises(exceptions.InvalidArgument, match="Malformed name"):
        client.get_node(name=name)


def test_a_method_that_nobody_has(cloud: Emulator) -> None:
    with grpc.insecure_channel(cloud.server.grpc_endpoint) as channel:
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/PaintNode")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=20)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_slow_answer_exceeds_the_deadline(cloud: Emulator, client: tpu_v2.TpuClient) -> None:
    cloud.control("clock", {"mode": "real"})
    cloud.fault("slow", seconds=2)
    with pytest.raises(exceptions.DeadlineExceeded):
        client.get_node(name=NAME, timeout=0.5, retry=None)


# Who may ask --------------------------------------------------------------------------------------

# A program of another user, through which one connection leads: the server sees that user.
_RELAY = """
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
near, _ = listener.accept()
far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def copy(source, target):
    while data := source.recv(65536):
        target.sendall(data)
threading.Thread(target=copy, args=(far, near), daemon=True).start()
copy(near, far)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("uid", [0, NOBODY])
def test_another_user_of_the_computer_is_refused(cloud: Emulator, uid: int) -> None:
    port = cloud.server.grpc_endpoint.rpartition(":")[2]
    argv = ["/usr/bin/python3", "-I", "-c", _RELAY, port]
    with subprocess.Popen(
        argv, user=uid, group=uid, extra_groups=[], stdout=subprocess.PIPE, text=True
    ) as relay:
        assert relay.stdout
        channel = grpc.insecure_channel(f"127.0.0.1:{relay.stdout.readline().strip()}")
        with tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel)) as client:
            ask = {"parent": PARENT, "node": wanted(), "node_id": "evil"}
            if uid == 0:
                assert client.create_node(**ask).result(30).name.endswith("/evil")
            else:
                with pytest.raises(exceptions.PermissionDenied) as caught:
                    client.create_node(**ask)
                assert "The local cloud refuses this: it comes from user nobody" in str(
                    caught.value
                )
        relay.kill()
    assert len(cloud.control("state", method="GET")["nodes"]) == (uid == 0)


# The command --------------------------------------------------------------------------------------


def cloud_command(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("tpu-local-cloud"), *words],
        env={**os.environ, "TPU_FLEET_CLOUD_DIR": str(folder), **more},
        capture_output=True,
        text=True,
    )


def test_the_command_serves_it_where_it_is_told(tmp_path: Path, cloud: Emulator) -> None:
    taken = cloud.server.grpc_endpoint.rpartition(":")[2]
    rest, port = free_port(), free_port()
    ports = ("--hosts=none", f"--port={rest}", "--clock=immediate")
    said = cloud_command(tmp_path, "up", *ports, f"--grpc-port={taken}")
    assert (said.returncode, "choose another --grpc-port" in said.stderr) == (1, True)
    said = cloud_command(tmp_path, "up", *ports, f"--grpc-port={rest}")
    assert (said.returncode, "choose another --grpc-port" in said.stderr) == (1, True)
    try:
        said = cloud_command(tmp_path, "up", *ports, f"--grpc-port={port}")
        assert f"  gRPC     127.0.0.1:{port}\n" in said.stdout, said.stderr
        exports = cloud_command(tmp_path, "env").stdout
        assert f"export TPU_FLEET_CLOUD_GRPC_ENDPOINT=127.0.0.1:{port}\n" in exports
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        with tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel)) as client:
            made = client.create_node(parent=PARENT, node=wanted(), node_id="n1").result(30)
            assert made.state == tpu_v2.Node.State.READY
        said = cloud_command(tmp_path, "up", *ports)
        assert f"exists with grpc_port {port}, not None" in said.stderr
    finally:
        assert cloud_command(tmp_path, "down").returncode == 0


def test_the_command_says_what_it_needs(tmp_path: Path) -> None:
    """Without Google's library, as `pip install tpu-local-cloud` leaves it."""
    (tmp_path / "google_missing").mkdir()
    hide = "import sys; sys.modules['google.cloud'] = None\n"
    (tmp_path / "google_missing" / "sitecustomize.py").write_text(hide)
    said = cloud_command(
        *(tmp_path / "state", "up", "--hosts=none", f"--port={free_port()}", "--grpc-port=1"),
        PYTHONPATH=str(tmp_path / "google_missing"),
    )
    assert said.returncode == 1
    assert "google.cloud is not installed: pip install 'tpu-local-cloud[grpc]'" in said.stderr
    assert not (tmp_path / "state").exists()
