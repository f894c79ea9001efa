"""One machine: what a person finds who logs in to a worker of a new node."""

from __future__ import annotations

import base64
import json

import pytest
from container_cloud import ZONE, ContainerCloud, eventually

STARTUP = """#!/bin/bash
echo "boot of $(hostname)" >> /var/log/startup-runs
exit 3
"""
GUEST = "curl -s -H 'Metadata-Flavor: Google' http://metadata.google.internal/computeMetadata/v1/"


@pytest.fixture(scope="module")
def solo(container_cloud: ContainerCloud) -> str:
    """The external address of a node with one worker."""
    keys = container_cloud.key.with_suffix(".pub").read_text().strip()
    gone = (
        keys.rsplit(" ", 1)[0]
        + ' google-ssh {"userName":"x","expireOn":"2020-01-01T00:00:00+0000"}'
    )
    ((_, external),) = container_cloud.create(
        "solo",
        **{"ssh-keys": f"ubuntu:{keys}\nalice:{keys}\nmallory:{gone}", "startup-script": STARTUP},
    )
    return external


def test_the_system_is_up_without_a_failed_unit(container_cloud: ContainerCloud, solo: str) -> None:
    state = eventually(
        lambda: container_cloud.try_ssh(solo, "systemctl is-system-running --wait").stdout.strip()
    )
    assert state == "running"
    assert container_cloud.ssh(solo, "systemctl --failed --no-legend") == ""
    assert container_cloud.ssh(solo, "cat /proc/1/comm") == "systemd"
    assert container_cloud.ssh(solo, "sudo id -u") == "0"


def test_accounts_come_from_the_metadata(container_cloud: ContainerCloud, solo: str) -> None:
    assert container_cloud.ssh(solo, "sudo whoami; id -un", user="alice") == "root\nalice"
    assert container_cloud.ssh(solo, "id -u ubuntu") == "1000"
    assert container_cloud.try_ssh(solo, "true", user="mallory").returncode == 255


def test_accounts_follow_the_metadata(container_cloud: ContainerCloud, solo: str) -> None:
    path = f"{container_cloud.path('solo')}?updateMask=metadata"
    metadata = container_cloud.call("GET", container_cloud.path("solo"))["metadata"]
    keys = container_cloud.key.with_suffix(".pub").read_text().strip()
    changed = {**metadata, "ssh-keys": f"ubuntu:{keys}\nbob:{keys}"}
    container_cloud.call("PATCH", path, {"metadata": changed})
    eventually(lambda: container_cloud.try_ssh(solo, "sudo true", user="bob").returncode == 0)
    eventually(lambda: container_cloud.try_ssh(solo, "true", user="alice").returncode == 255)
    assert "alice" not in container_cloud.ssh(solo, "getent group google-sudoers")
    container_cloud.call("PATCH", path, {"metadata": metadata})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("instance/attributes/accelerator-type", "v4-8"),
        ("instance/attributes/agent-worker-number", "0"),
        ("instance/attributes/instance-id", "solo"),
        ("project/project-id", "local-project"),
    ],
)
def test_metadata_from_inside(
    container_cloud: ContainerCloud, solo: str, path: str, expected: str
) -> None:
    assert container_cloud.ssh(solo, GUEST + path) == expected


def test_metadata_knows_the_addresses_of_who_asks(
    container_cloud: ContainerCloud, solo: str
) -> None:
    ((internal, external),) = container_cloud.addresses("solo")
    found = json.loads(container_cloud.ssh(solo, f"{GUEST}instance/?recursive=true"))
    interface = found["networkInterfaces"][0]
    assert interface["ip"] == internal
    assert interface["accessConfigs"][0]["externalIp"] == external == solo
    assert found["zone"].endswith(f"zones/{ZONE}")


def test_published_host_keys_are_those_of_sshd(container_cloud: ContainerCloud, solo: str) -> None:
    path = f"{container_cloud.path('solo')}:getGuestAttributes"

    def published() -> dict[str, str]:
        answer = container_cloud.call("POST", path, {"queryPath": "hostkeys/"})
        items = answer["guestAttributes"][0].get("queryValue", {}).get("items", [])
        return {item["key"]: item["value"] for item in items}

    keys = eventually(published)
    lines = container_cloud.ssh(solo, "cat /etc/ssh/ssh_host_*_key.pub").splitlines()
    real = {line.split()[0]: line.split()[1] for line in lines}
    assert keys == real
    assert set(keys) == {"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"}
    assert base64.b64decode(keys["ssh-ed25519"])


def test_the_host_name_is_the_machines_own(container_cloud: ContainerCloud, solo: str) -> None:
    name = container_cloud.control("state")["nodes"]
    machine = next(n for n in name if n["node"] == "solo")["workers"][0]["machine"]
    assert container_cloud.ssh(solo, "hostname") == machine
    answer = container_cloud.call("POST", f"{container_cloud.path('solo')}:getGuestAttributes", {})
    items = answer["guestAttributes"][0]["queryValue"]["items"]
    assert machine in [item["value"] for item in items if item["key"] == "hostname"]


# In CI each role that a stage applies to machines has packages installed.
@pytest.mark.night
def test_packages_can_be_installed(container_cloud: ContainerCloud, solo: str) -> None:
    container_cloud.ssh(solo, "sudo apt-get update -qq")
    container_cloud.ssh(solo, "sudo apt-get install -qq --no-install-recommends python3-venv")
    container_cloud.ssh(solo, "python3 -m venv ~/venv && ~/venv/bin/pip install -q tomli")


def test_kernel_settings_stay_in_the_machine(container_cloud: ContainerCloud, solo: str) -> None:
    with open("/proc/sys/vm/max_map_count") as setting:
        before = setting.read()
    wanted = str(int(before) + 1)
    container_cloud.ssh(solo, f"sudo sysctl -q -w vm.max_map_count={wanted}")
    assert container_cloud.ssh(solo, "cat /proc/sys/vm/max_map_count") == wanted
    with open("/proc/sys/vm/max_map_count") as setting:
        assert setting.read() == before


def test_reboot_from_inside(container_cloud: ContainerCloud, solo: str) -> None:
    runs = eventually(lambda: container_cloud.try_ssh(solo, "cat /var/log/startup-runs").stdout)
    assert runs.count("boot of t1v-n-") == 1
    container_cloud.ssh(solo, "echo kept > ~/file; touch /tmp/gone")
    container_cloud.ssh(solo, "sudo ip route add blackhole 203.0.113.0/24")
    ((internal, _),) = container_cloud.addresses("solo")
    keys = container_cloud.ssh(solo, "cat /etc/ssh/ssh_host_ed25519_key.pub")
    boot_id = container_cloud.boot_id(solo)
    container_cloud.try_ssh(solo, "sudo reboot")
    eventually(lambda: container_cloud.boot_id(solo) not in (None, boot_id))
    assert container_cloud.ssh(solo, "cat ~/file; ls /tmp/gone 2>/dev/null; true") == "kept"
    assert container_cloud.ssh(solo, "cat /etc/ssh/ssh_host_ed25519_key.pub") == keys
    assert f"{internal}/" in container_cloud.ssh(solo, "ip address show dev eth0")
    assert "blackhole" not in container_cloud.ssh(solo, "ip route")
    eventually(
        lambda: container_cloud.try_ssh(solo, "cat /var/log/startup-runs").stdout.count("boot") == 2
    )
    assert int(container_cloud.ssh(solo, "journalctl --list-boots --no-pager | grep -c .")) >= 2


def test_power_off_from_inside_is_final(container_cloud: ContainerCloud) -> None:
    ((_, external),) = container_cloud.create("tired")
    container_cloud.try_ssh(external, "sudo poweroff")

    def power() -> str:
        nodes = container_cloud.control("state")["nodes"]
        found: str = next(n for n in nodes if n["node"] == "tired")["workers"][0]["power"]
        return found

    eventually(lambda: power() == "stopped")
    assert container_cloud.boot_id(external) is None
    container_cloud.delete("tired")


def test_stop_and_start_keep_the_disk(container_cloud: ContainerCloud) -> None:
    ((internal, external),) = container_cloud.create("pause")
    container_cloud.ssh(external, "echo kept > ~/file")
    container_cloud.call("POST", f"{container_cloud.path('pause')}:stop", {})
    assert container_cloud.boot_id(internal) is None
    container_cloud.call("POST", f"{container_cloud.path('pause')}:start", {})
    ((same, external),) = container_cloud.addresses("pause")
    assert same == internal
    assert container_cloud.ssh(external, "cat ~/file") == "kept"
    container_cloud.delete("pause")
    assert container_cloud.boot_id(internal) is None
