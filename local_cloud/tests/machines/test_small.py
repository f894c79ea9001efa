"""Small machines: many hosts on one computer, each with an address and a file system of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from container_cloud import ContainerCloud, eventually
from ssh_log import Seen, SshLogs

# It starts 64 machines. In CI test_following_runs.py has four small ones, which reboot and move.
pytestmark = pytest.mark.night

SMALL = {"local-cloud-machine": "small"}
WORKERS = 64
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@dataclass
class Pod:
    """A node of small machines, and how to reach them."""

    cloud: ContainerCloud
    known_hosts: Path
    machines: list[str]
    internal: list[str]
    external: list[str]

    def argv(self, worker: int, *options: str) -> list[str]:
        """Return ssh to a worker, which takes none but the published host key."""
        settings = {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "KexAlgorithms": "curve25519-sha256",
            "BatchMode": "yes",
        }
        flags = [f"-o{name}={value}" for name, value in settings.items()]
        where = f"ubuntu@{self.external[worker]}"
        return ["ssh", "-F", "/dev/null", "-i", str(self.cloud.key), *flags, *options, where]

    def run(self, worker: int, command: str) -> str:
        """Run a command on a worker and return what it printed."""
        done = subprocess.run(
            [*self.argv(worker), command], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{worker}: {done.stderr}\n{self.cloud.keeper_says()}"
        return done.stdout.strip()

    def everywhere(self, command: str) -> list[str]:
        """Run a command on all workers at once; each is one connection."""
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(lambda worker: self.run(worker, command), range(WORKERS)))


def _pod(cloud: ContainerCloud, node: str, folder: Path) -> Pod:
    addresses = cloud.create(node, "v4-512", **SMALL)
    answer = cloud.call("POST", f"{cloud.path(node)}:getGuestAttributes", {})
    known_hosts = folder / "known_hosts"
    lines = []
    for (_, external), worker in zip(addresses, answer["guestAttributes"], strict=True):
        items = worker["queryValue"]["items"]
        keys = [item for item in items if item["namespace"] == "hostkeys"]
        lines += [f"{external} {key['key']} {key['value']}\n" for key in keys]
    known_hosts.write_text("".join(lines))
    (found,) = [n for n in cloud.control("state")["nodes"] if n["node"] == node]
    machines = [worker["machine"] for worker in found["workers"]]
    internal, external = zip(*addresses, strict=True)
    return Pod(cloud, known_hosts, machines, list(internal), list(external))


@pytest.fixture(scope="module")
def pod(container_cloud: ContainerCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    yield _pod(container_cloud, "pod", tmp_path_factory.mktemp("pod"))
    container_cloud.delete("pod")


def test_each_has_its_name_its_key_and_its_files_and_the_log_counts_who_came(pod: Pod) -> None:
    assert len(pod.known_hosts.read_text().splitlines()) == WORKERS
    logs = SshLogs(pod.cloud.state_dir)
    written = pod.everywhere("ls ~ /tmp /etc/mine; hostname | sudo tee ~/mine /etc/mine /tmp/mine")
    # Nobody found what another wrote, and each read back its own.
    assert [text.splitlines()[-1] for text in written] == pod.machines
    assert not any("mine" in line for text in written for line in text.splitlines()[:-1])
    assert pod.everywhere("cat ~/mine /etc/mine /tmp/mine") == [
        f"{m}\n{m}\n{m}" for m in pod.machines
    ]
    assert logs.count() == dict.fromkeys(pod.machines, Seen(2, 2, 2))


def test_executions_that_share_a_connection_are_counted_apart(pod: Pod, tmp_path: Path) -> None:
    logs = SshLogs(pod.cloud.state_dir)
    shared = (
        "-o",
        f"ControlPath={tmp_path}/c",
        "-o",
        "ControlMaster=auto",
        "-o",
        "ControlPersist=9",
    )
    for _ in range(3):
        subprocess.run([*pod.argv(5, *shared), "true"], check=True, capture_output=True)
    file = tmp_path / "file"
    file.write_text("sent\n")
    copy = [word if word != "ssh" else "sftp" for word in pod.argv(5, *shared)]
    subprocess.run(copy, input=f"put {file} sent", text=True, check=True, capture_output=True)
    subprocess.run([*pod.argv(5, *shared), "-O", "exit"], check=True, capture_output=True)
    with socket.create_connection((pod.external[6], 22)) as looks:
        looks.recv(4)
    seen = eventually(lambda: {m: s for m, s in logs.count().items() if s.connections > 0}, 10)
    eventually(lambda: logs.count()[pod.machines[6]].connections == 1, 10)
    assert seen[pod.machines[5]] == Seen(1, 1, 4)
    assert logs.count()[pod.machines[6]] == Seen(1, 0, 0)
    assert pod.run(5, "cat sent") == "sent"


def test_a_machine_is_one_among_others(pod: Pod) -> None:
    found = pod.run(
        3,
        f"sudo id -un; cat /proc/1/comm; python3 -c 'print(6*7)'; hostname -I; "
        f"curl -s -H 'Metadata-Flavor: Google' "
        f"http://metadata.google.internal/computeMetadata/v1/instance/attributes/worker-id; echo; "
        f"ssh-keyscan -t ed25519 {pod.internal[4]} {pod.external[4]} 2>/dev/null | cut -d' ' -f3 | "
        f"sort | uniq -c | awk '{{print $1}}'",
    ).splitlines()
    assert found[:3] == ["root", "sshd", "42"]
    assert found[3].split() == [pod.internal[3]]
    assert found[4:] == ["3", "2"]
    # The same port on two of them, and none of their processes in sight of the other.
    for worker in (1, 2):
        pod.run(worker, "nohup python3 -m http.server 8080 --directory /etc >/dev/null 2>&1 &")
    fetch = "curl -s --retry 9 --retry-connrefused --retry-delay 1"
    for worker in (1, 2):
        asked = f"{fetch} http://{pod.internal[worker]}:8080/hostname"
        assert pod.run(3, asked) == pod.machines[worker]
    assert "http.server" not in pod.run(3, "ps ax")


def test_full_machines_and_small_ones_meet(pod: Pod) -> None:
    ((inner, outer),) = pod.cloud.create("full")
    ping = "ping -c 1 -W 2 "
    for address in (pod.internal[0], pod.external[0]):
        assert "1 received" in pod.cloud.ssh(outer, ping + address)
    for address in (inner, outer):
        assert "1 received" in pod.run(0, ping + address)
    pod.cloud.delete("full")


def test_root_of_a_small_machine_stays_in_it(pod: Pod) -> None:
    before = Path("/proc/sys/vm/max_map_count").read_text()
    for command, said in {
        "sysctl -w vm.max_map_count=65531": "permission denied",
        "mount -t tmpfs none /mnt": "permission denied",
        "mknod /tmp/disk b 254 0": "not permitted",
        "systemctl status": "not been booted with systemd",
    }.items():
        done = subprocess.run(
            [*pod.argv(7), f"sudo {command}"], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0, command
        assert said in done.stderr, command
    assert Path("/proc/sys/vm/max_map_count").read_text() == before
    # No account of a machine's is one of this computer's.
    pod.cloud.call(
        "PATCH",
        f"{pod.cloud.path('pod')}?updateMask=metadata",
        {"metadata": {**SMALL, "ssh-keys": _keys(pod, "ubuntu", "zelda")}},
    )
    zelda = pod.cloud.try_ssh
    eventually(lambda: zelda(pod.external[9], "sudo true", user="zelda").returncode == 0)
    assert "zelda" not in Path("/etc/passwd").read_text()
    pod.cloud.call(
        "PATCH",
        f"{pod.cloud.path('pod')}?updateMask=metadata",
        {"metadata": {**SMALL, "ssh-keys": _keys(pod, "ubuntu")}},
    )
    eventually(lambda: zelda(pod.external[9], "true", user="zelda").returncode == 255)


def _keys(pod: Pod, *users: str) -> str:
    public = pod.cloud.key.with_suffix(".pub").read_text().strip()
    return "\n".join(f"{user}:{public}" for user in users)


@pytest.mark.parametrize("how", ["command", "inside", "inside, without the server", "maintenance"])
def test_one_reboots_and_keeps_what_a_machine_keeps(pod: Pod, how: str) -> None:
    worker, cloud = 8, pod.cloud
    before = pod.run(worker, f"echo kept > ~/kept; touch /tmp/gone; {BOOT_ID}")
    other = pod.run(worker + 1, BOOT_ID)
    server = cloud.server_pid
    if how == "command":
        cloud.command("reboot", "pod", f"--worker={worker}")
    elif how == "maintenance":
        cloud.command("maintain", "pod", f"--worker={worker}", "--wait")
        old, pod.external[worker] = pod.external[worker], cloud.addresses("pod")[worker][1]
        assert old != pod.external[worker]
        lines = pod.known_hosts.read_text().replace(f"{old} ", f"{pod.external[worker]} ")
        pod.known_hosts.write_text(lines)
        assert cloud.boot_id(old) is None
    else:
        if "without" in how:
            os.kill(server, signal.SIGKILL)
        # The machine may be gone before its sshd has said how that ended.
        pod.cloud.try_ssh(pod.external[worker], "sudo reboot")
    address = pod.external[worker]
    now = eventually(lambda: {cloud.boot_id(address)} - {before, None}, 60)
    if "without" in how:
        cloud.up()
    # By the same key as ever, with the files of the disk alone, and once is enough.
    kept = pod.run(worker, f"cat ~/kept; ls /tmp/gone 2>/dev/null; {BOOT_ID}")
    assert kept.splitlines() == ["kept", *now]
    assert pod.run(worker + 1, BOOT_ID) == other


def test_one_that_cuts_itself_off_is_back_after_a_reboot(pod: Pod) -> None:
    address, cut = pod.external[10], "sudo iptables -A INPUT -p tcp --dport 22 -j DROP"
    pod.run(10, f"nohup sh -c 'sleep 0.5; {cut}' >/dev/null 2>&1 &")

    def reached() -> bool:
        try:
            socket.create_connection((address, 22), timeout=0.5).close()
        except TimeoutError:
            return False
        return True

    eventually(lambda: not reached(), 10)
    pod.cloud.command("reboot", "pod", "--worker=10")
    assert reached()


def test_power_off_is_final_and_a_start_brings_it_back(container_cloud: ContainerCloud) -> None:
    ((internal, external),) = container_cloud.create("nap", **SMALL)
    container_cloud.ssh(external, "echo kept > ~/file")
    container_cloud.try_ssh(external, "sudo poweroff")

    def power() -> str:
        nodes = container_cloud.control("state")["nodes"]
        found: str = next(n for n in nodes if n["node"] == "nap")["workers"][0]["power"]
        return found

    eventually(lambda: power() == "stopped", 60)
    assert container_cloud.boot_id(internal) is None
    container_cloud.call("POST", f"{container_cloud.path('nap')}:stop", {})
    container_cloud.call("POST", f"{container_cloud.path('nap')}:start", {})
    ((_, external),) = container_cloud.addresses("nap")
    assert container_cloud.ssh(external, "cat ~/file") == "kept"
    container_cloud.delete("nap")
    assert container_cloud.boot_id(internal) is None


def test_the_way_to_them_can_be_made_long(pod: Pod) -> None:
    def connects() -> float:
        """Return how long one round trip takes at best."""
        best = 9.0
        for _ in range(5):
            began = time.monotonic()
            with socket.create_connection((pod.external[0], 22), timeout=9):
                best = min(best, time.monotonic() - began)
        return best * 1000

    near = connects()
    pod.cloud.command("latency", "60")
    try:
        assert '"round_trip_ms": 60.0' in pod.cloud.command("latency").stdout
        assert 60 <= connects() < 60 + near + 60
        # They are as near to each other as before.
        shown = pod.run(0, f"ping -c 3 -i 0.2 {pod.internal[1]} | tail -1")
        assert float(shown.partition(" = ")[2].split("/")[0]) < 30
        pod.run(0, "head -c 3000000 /dev/zero | sudo tee /root/much >/dev/null")
    finally:
        pod.cloud.command("latency", "0")
    assert connects() < 60


def test_what_small_machines_cannot_have_is_refused(container_cloud: ContainerCloud) -> None:
    parent = container_cloud.path("").rpartition("/")[0]
    body = {
        "acceleratorType": "v4-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "metadata": {**SMALL, "local-cloud-kernel": "own"},
    }
    with pytest.raises(AssertionError, match="internal error"):
        container_cloud.call("POST", f"{parent}?nodeId=both", body)
    log = (container_cloud.state_dir / "server.log").read_text()
    assert "cannot be small and have a kernel of its own" in log
