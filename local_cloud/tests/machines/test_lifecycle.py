"""Server and cloud come and go; the machines stay for the one, and nothing stays for the other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from container_cloud import ContainerCloud, eventually


def _kill_server(cloud: ContainerCloud, number: signal.Signals) -> None:
    pid = cloud.server_pid
    os.kill(pid, number)
    eventually(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize(
    "number",
    # In CI the server is killed, after which there is even less that it has written.
    [pytest.param(signal.SIGTERM, marks=pytest.mark.night), signal.SIGKILL],
)
def test_machines_outlive_the_server(
    container_cloud: ContainerCloud, number: signal.Signals
) -> None:
    node = f"stays-{number.name.lower()}"
    ((internal, external),) = container_cloud.create(node)
    boot_id = container_cloud.boot_id(external)
    _kill_server(container_cloud, number)
    assert container_cloud.boot_id(external) == boot_id
    # Nobody but the keeper is there to switch it on again; the address is the one it had.
    container_cloud.try_ssh(external, "sudo reboot")
    eventually(lambda: container_cloud.boot_id(external) not in (None, boot_id))
    boot_id = container_cloud.boot_id(external)
    assert "API server" in container_cloud.up().stdout
    assert container_cloud.addresses(node) == [(internal, external)]
    assert container_cloud.boot_id(external) == boot_id
    container_cloud.delete(node)


def test_a_second_up_changes_nothing(container_cloud: ContainerCloud) -> None:
    pid = container_cloud.server_pid
    assert "up already" in container_cloud.up().stdout
    assert container_cloud.server_pid == pid
    done = container_cloud.command(
        "up", "--hosts=none", f"--port={container_cloud.port}", check=False
    )
    assert done.returncode == 1
    assert "exists with hosts container, not none" in done.stderr


def test_a_port_in_use_is_named(container_cloud: ContainerCloud, own_cloud: ContainerCloud) -> None:
    done = own_cloud.command("up", f"--port={container_cloud.port}", check=False)
    assert done.returncode == 1
    assert f"127.0.0.1:{container_cloud.port} cannot be used" in done.stderr
    assert not own_cloud.state_dir.exists()


def test_preemption_takes_the_machines(container_cloud: ContainerCloud) -> None:
    ((internal, external),) = container_cloud.create("victim")
    container_cloud.command("preempt", "victim")
    assert container_cloud.call("GET", container_cloud.path("victim"))["state"] == "PREEMPTED"
    assert container_cloud.boot_id(internal) is None
    assert container_cloud.boot_id(external) is None
    container_cloud.delete("victim")


def test_status_shows_every_machine(container_cloud: ContainerCloud) -> None:
    ((internal, external),) = container_cloud.create("shown")
    lines = container_cloud.command("status").stdout.splitlines()
    assert any({"shown", "v4-8", internal, external} <= set(line.split()) for line in lines)
    nodes = json.loads(container_cloud.command("status", "--json").stdout)["nodes"]
    assert "shown" in [node["node"] for node in nodes]
    container_cloud.delete("shown")


def test_env_points_a_shell_at_the_cloud(container_cloud: ContainerCloud) -> None:
    script = container_cloud.command("env").stdout
    show = 'echo "$CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU $GOOGLE_CLOUD_PROJECT"'
    done = subprocess.run(["sh", "-c", script + show], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [container_cloud.endpoint, "local-project"]


def _traces(cloud: ContainerCloud, cloud_id: str, subnet: str) -> dict[str, list[str]]:
    """Return what of a cloud there is on this computer."""
    half = subnet.removesuffix(".0.0/16") + "."
    marks = (cloud_id, str(cloud.state_dir), f" {half}", f"/{half}")

    def lines(*command: str) -> list[str]:
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return [line for line in output.splitlines() if any(mark in line for mark in marks)]

    own = f"/{os.getpid()}/"
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if own not in str(path):
            # Others may end just now.
            with suppress(OSError):
                commands.append(path.read_bytes().replace(b"\0", b" ").decode())
    # A small machine's processes do not say so, but for the file system that they see.
    small = 0
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):
            small += f"/{cloud_id}/small/" in path.read_text()
    return {
        "links": lines("ip", "-oneline", "link"),
        "addresses": lines("ip", "-oneline", "address"),
        "routes": lines("ip", "route", "show", "table", "all"),
        "rules": lines("nft", "list", "ruleset") + lines("iptables-save"),
        "mounts": lines("cat", "/proc/mounts"),
        "files": [
            str(path)
            for folder in ("/run/tpu-fleet", "/var/lib/tpu-fleet")
            for path in Path(folder).glob(f"{cloud_id}*")
        ],
        "processes": [text for text in commands if cloud_id in text or marks[1] in text],
        "small machines": ["a process of one"] * small,
    }


@pytest.mark.parametrize(
    "trouble",
    # In CI the server crashes in the test of machines that outlive it.
    [
        "none",
        pytest.param("the server crashed", marks=pytest.mark.night),
        "the state was deleted",
    ],
)
def test_down_leaves_nothing(own_cloud: ContainerCloud, trouble: str) -> None:
    own_cloud.up()
    own_cloud.create("pair", "v4-16")
    ((_, small),) = own_cloud.create("small", **{"local-cloud-machine": "small"})
    own_cloud.command("latency", "20")
    own_cloud.ssh(small, "nohup sleep 1000 >/dev/null 2>&1 &")
    network = own_cloud.host["network"]
    where = (own_cloud, network["cloud_id"], network["subnet"])
    before = _traces(*where)
    # What is never there could not be found missing.
    assert all(before[kind] for kind in ("links", "addresses", "routes", "rules", "files"))
    assert len(before["processes"]) >= 6
    assert len(before["small machines"]) >= 2
    if trouble == "the server crashed":
        _kill_server(own_cloud, signal.SIGKILL)
    if trouble == "the state was deleted":
        shutil.rmtree(own_cloud.state_dir)
    own_cloud.down()
    # The last to go are helpers of podman's, which end by themselves when their machine has.
    eventually(lambda: not _traces(*where)["processes"], 60)
    assert _traces(*where) == {kind: [] for kind in before}
    assert not own_cloud.state_dir.exists()
    assert "no local cloud" in own_cloud.command("down", "--keep-image").stdout
