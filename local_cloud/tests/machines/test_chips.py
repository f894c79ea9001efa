"""The monitoring port of a machine on which a process holds chips."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from container_cloud import ContainerCloud, eventually
from ports import free_port

from tpu_local_cloud.serve.monitoring import DUTY_CYCLE, SERVICE
from tpu_local_cloud.serve.wire import field

HOLD = "import time; chips = [open(f'/dev/accel{n}') for n in range(2)]; time.sleep(600)"
LISTENS = "ss -Hltn 'sport = :8431' | wc -l"
OWNER = "awk '$2 == \"0100007F:20EF\" {print $8}' /proc/net/tcp"


@contextmanager
def holding(cloud: ContainerCloud, address: str, command: str) -> Iterator[None]:
    """Have a program run on a machine as its user."""
    words = [*cloud.ssh_words(address), f'exec python3 -c "{command}"']
    # With a terminal the program ends with the connection.
    words.insert(1, "-tt")
    program = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        program.terminate()
        program.wait()


@contextmanager
def forwarded(cloud: ContainerCloud, address: str) -> Iterator[grpc.Channel]:
    """Return a channel to the port of a machine."""
    port = free_port()
    words = [*cloud.ssh_words(address), "sleep 600"]
    words[1:1] = ["-L", f"{port}:127.0.0.1:8431"]
    tunnel = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(30)
            yield channel
    finally:
        tunnel.terminate()
        tunnel.wait()


def asked(channel: grpc.Channel, method: str, request: bytes) -> bytes:
    found = channel.unary_unary(SERVICE + method)(request, timeout=10)
    assert isinstance(found, bytes)
    return found


def listens(cloud: ContainerCloud, address: str, wanted: bool) -> None:
    """Wait until the port is open, or closed."""
    eventually(lambda: (cloud.ssh(address, LISTENS) != "0") == wanted, 30)


@pytest.mark.parametrize("kind", ["small", pytest.param("whole", marks=pytest.mark.night)])
def test_the_port_answers_while_a_process_holds_chips(
    container_cloud: ContainerCloud, kind: str
) -> None:
    cloud, node = container_cloud, f"chips-{kind}"
    more = {"local-cloud-machine": "small"} if kind == "small" else {}
    (_, first), (_, second) = cloud.create(node, "v4-16", **{"local-cloud-chips": "4", **more})
    eventually(lambda: cloud.ssh(first, "ls /dev/accel* | wc -l") == "4", 30)
    assert cloud.ssh(first, LISTENS) == "0"
    with holding(cloud, first, HOLD):
        listens(cloud, first, True)
        assert cloud.ssh(first, OWNER) == cloud.ssh(first, "id -u")
        assert cloud.ssh(second, LISTENS) == "0"
        with forwarded(cloud, first) as channel:
            said = asked(channel, "GetRuntimeMetric", field(1, DUTY_CYCLE))
            assert said.count(b"device-id") == 2
            assert b"fusion.7" in asked(channel, "GetTpuRuntimeStatus", field(1, 1))
            fault = {"kind": "core_stuck", "match": {"node": node, "worker": 1}}
            cloud.control("faults", fault)
            assert b"all-reduce.3" in asked(channel, "GetTpuRuntimeStatus", field(1, 1))
            with pytest.raises(grpc.RpcError) as error:
                asked(channel, "GetRuntimeMetric", field(1, "no.such.metric"))
            assert error.value.code() == grpc.StatusCode.NOT_FOUND
    listens(cloud, first, False)
    held = "import socket, time; s = socket.create_server(('127.0.0.1', 8431)); time.sleep(600)"
    with holding(cloud, first, held):
        listens(cloud, first, True)
        with holding(cloud, first, HOLD):
            time.sleep(2)
            assert cloud.ssh(first, LISTENS) == "1", "another program has the port"
    cloud.command("fault", "clear")
    cloud.delete(node)
