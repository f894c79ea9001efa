"""What people get for their own computer logs them in, whatever becomes of addresses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from fleet import NOTHING, Fleet, changes
from laptop import Laptop, maintain, without_gcloud

# In CI tests/machines/e2e/test_3_identity.py has addresses that move, and the unit tests of
# _inventory/onboarding.py the files that a person gets.
pytestmark = pytest.mark.night

ZONE = "us-central2-b"


def test_the_same_name_logs_in_after_its_address_changed(fleet: Fleet, tmp_path: Path) -> None:
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text().strip()
    people = [
        {"name": "alice", "uid": 2001, "keys": [public], "sudo": "all"},
        {"name": "bob", "uid": 2002, "keys": [public], "slices": ["solo"]},
    ]
    wanted = {
        "fleet_slices": [
            {"name": "solo", "accelerator_type": "v4-8", "zone": ZONE},
            {"name": "pair", "accelerator_type": "v4-16", "zone": ZONE},
        ],
        "fleet_users": people,
    }
    fleet.declare({**NOTHING, **wanted})
    fleet.play("tpu.fleet.provision")
    fleet.play("tpu.fleet.configure", "--tags", "host_base,user_accounts")
    onboarding = fleet.folder / "state" / "onboarding"
    # Other stories of this cloud have theirs there.
    shutil.rmtree(onboarding, ignore_errors=True)
    assert changes(fleet.play("tpu.fleet.onboarding", "--check"))["localhost"][0] >= 1
    assert not onboarding.exists()
    fleet.play("tpu.fleet.onboarding")
    assert changes(fleet.play("tpu.fleet.onboarding"))["localhost"] == (0, 0, 0)

    laptop = Laptop(tmp_path / "alice", key)
    laptop.unpack(onboarding / "alice")
    names = {
        f"{node['node']}{index}": worker["machine"]
        for node in fleet.cloud().values()
        for index, worker in enumerate(node["workers"])
    }
    places = {"solo": "solo0", "pair": "pair0", "pair-w0": "pair0", "pair-w1": "pair1"}
    for host, machine in places.items():
        assert laptop.who(host) == f"alice@{names[machine]}"

    # One machine moves: another one of the fleet tells where it is now, without gcloud.
    maintain(fleet, "solo", 0)
    assert laptop.who("solo", PATH=without_gcloud(tmp_path)) == f"alice@{names['solo0']}"
    assert "did not answer" not in laptop.ssh("solo", "true").stderr

    # All of them move, and two swap: gcloud knows, and then each other.
    for node, worker in (("solo", 0), ("pair", 0), ("pair", 1)):
        maintain(fleet, node, worker)
    lost = laptop.ssh("solo", "true", PATH=without_gcloud(tmp_path))
    assert lost.returncode == 255
    assert "ask for a new folder" in lost.stderr
    gcloud = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://127.0.0.1:{fleet.port}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }
    assert laptop.who("solo", **gcloud) == f"alice@{names['solo0']}"
    for host, machine in places.items():
        assert laptop.who(host, PATH=without_gcloud(tmp_path)) == f"alice@{names[machine]}"

    # An address that leads to another machine of ours is found out by its key.
    addresses = laptop.ssh_folder / "tpu-fleet" / "addresses"
    there = fleet.cloud()["pair"]["workers"][1]["external_ip"]
    lines = addresses.read_text().splitlines()
    lines[lines.index("Host solo") + 1] = f"  HostName {there}"
    addresses.write_text("\n".join(lines) + "\n")
    refused = laptop.ssh("solo", "true", TPU_FLEET_FIND="1")
    assert "Host key verification failed" in refused.stderr
    assert laptop.who("solo") == f"alice@{names['solo0']}"

    # bob has his own, with his slice only; who goes loses the folder.
    laptop.unpack(onboarding / "bob")
    fleet.play("tpu.fleet.onboarding")
    laptop.unpack(onboarding / "bob")
    assert laptop.who("solo") == f"bob@{names['solo0']}"
    assert "pair" not in (onboarding / "bob" / "tpu-fleet" / "config").read_text()
    fleet.declare({**NOTHING, **wanted, "fleet_users": people[:1]})
    fleet.play("tpu.fleet.onboarding")
    assert not (onboarding / "bob").exists()
    # The controller's own configuration follows too.
    assert fleet.ssh("solo", "hostname").strip() == names["solo0"]


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log in with the key of the story, and no other."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
