"""Machines are known by their keys, not by their addresses."""

from __future__ import annotations

import re

from fleet import Fleet, changes, wait_until

METADATA = "http://metadata.google.internal/computeMetadata/v1/instance"


def name_of(fleet: Fleet, host: str) -> str:
    """Ask a machine who it is, through Ansible."""
    command = f"curl -s -H Metadata-Flavor:Google {METADATA}/name"
    out = fleet.run("ansible", host, "-m", "ansible.builtin.command", "-a", command)
    return out.strip().splitlines()[-1]


def maintain(fleet: Fleet, node: str, worker: int, address: str) -> None:
    fleet.run(
        "tpu-fleet", "cloud", "maintain", node, "--worker", str(worker), "--external-ip", address,
        "--wait",
    )  # fmt: skip
    wait_until(
        f"{node} is back at {address}",
        lambda: (
            (seen := fleet.cloud()[node])["state"] == "READY"
            and seen["workers"][worker]["external_ip"] == address
        ),
        60,
    )


def test_an_address_that_moves_to_another_machine_misleads_nobody(fleet: Fleet) -> None:
    before = fleet.cloud()
    old_pair = before["pair"]["workers"][1]["external_ip"]
    network = old_pair.rsplit(".", 1)[0]
    names = {
        "pair-w1": before["pair"]["workers"][1]["machine"],
        "solo": before["solo"]["workers"][0]["machine"],
    }
    # pair-w1 gets a new address, and solo the one that pair-w1 had.
    maintain(fleet, "pair", 1, f"{network}.201")
    maintain(fleet, "solo", 0, old_pair)

    # The old ssh configuration leads to the wrong machine, whose key is refused.
    refused = fleet.ssh("pair-w1", "true", ok=False)
    assert "Host key verification failed" in refused

    recap = changes(fleet.play("tpu.fleet.reprovision"))
    assert all(lost == failed == 0 for _, lost, failed in recap.values())
    assert {host: name_of(fleet, host) for host in names} == names
    assert fleet.ssh("solo", "hostname").strip() == names["solo"]


def test_a_forged_host_key_is_refused(fleet: Fleet) -> None:
    forge = (
        "sudo sh -c 'mkdir /root/keys && mv /etc/ssh/ssh_host_* /root/keys/ "
        '&& ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key '
        "&& systemctl restart ssh'"
    )
    mend = (
        "rm -f /etc/ssh/ssh_host_* && mv /root/keys/ssh_host_* /etc/ssh/ && rmdir /root/keys "
        "&& systemctl restart ssh"
    )
    # Set before the key is forged: nobody can log in afterwards to mend it.
    fleet.ssh("solo", f"sudo systemd-run --on-active=60 sh -c '{mend}'")
    fleet.ssh("solo", forge)
    out = fleet.run(
        "ansible",
        "solo",
        "-m",
        "ansible.builtin.ping",
        ok=False,
        ANSIBLE_SSH_ARGS="-o ControlMaster=no",
    )
    assert "UNREACHABLE" in out
    assert re.search(r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed", out)
    assert "known_hosts" in out
    wait_until(
        "solo has its own key again",
        lambda: "pong" in fleet.run("sh", "-c", "ansible solo -m ansible.builtin.ping || true"),
        150,
    )
