"""What people get for their own computer logs them in, whatever becomes of addresses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fleet import NOTHING, Fleet, changes, wait_until

ZONE = "us-central2-b"


class Laptop:
    """The computer of somebody: ssh as it is there, with a ~/.ssh of its own."""

    def __init__(self, folder: Path, key: Path) -> None:
        self.ssh_folder = folder / "ssh"
        self.ssh_folder.mkdir(parents=True)
        config = f"Include ~/.ssh/tpu-fleet/config\nHost *\n  IdentityFile {key}\n  BatchMode yes\n"
        (self.ssh_folder / "config").write_text(config)

    def unpack(self, folder: Path) -> None:
        """Put the folder where its text says."""
        shutil.rmtree(self.ssh_folder / "tpu-fleet", ignore_errors=True)
        shutil.copytree(folder / "tpu-fleet", self.ssh_folder / "tpu-fleet")

    def ssh(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run ssh; it takes ~ from the password file, so the folder is mounted there."""
        script = 'mount --bind "$0" ~/.ssh && exec ssh "$@"'
        Path("~/.ssh").expanduser().mkdir(mode=0o700, exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CLOUDSDK_")}
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, str(self.ssh_folder), *words],
            env={**clean, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def who(self, host: str, **env: str) -> str:
        """Log in, and say as whom and where."""
        done = self.ssh(host, "whoami; hostname", **env)
        return done.stdout.strip().replace("\n", "@") or done.stderr


def maintain(fleet: Fleet, node: str, worker: int) -> None:
    """Let a machine come back with another address."""
    before = fleet.cloud()[node]["workers"][worker]["external_ip"]
    fleet.run("tpu-fleet", "cloud", "maintain", node, "--worker", str(worker), "--wait")
    wait_until(
        f"{node} has another address",
        lambda: fleet.cloud()[node]["workers"][worker]["external_ip"] != before,
        60,
    )


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
        "user_accounts_users": people,
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
    assert laptop.who("solo", PATH=_without_gcloud(tmp_path)) == f"alice@{names['solo0']}"
    assert "did not answer" not in laptop.ssh("solo", "true").stderr

    # All of them move, and two swap: gcloud knows, and then each other.
    for node, worker in (("solo", 0), ("pair", 0), ("pair", 1)):
        maintain(fleet, node, worker)
    lost = laptop.ssh("solo", "true", PATH=_without_gcloud(tmp_path))
    assert lost.returncode == 255
    assert "ask for a new folder" in lost.stderr
    gcloud = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://127.0.0.1:{fleet.port}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }
    assert laptop.who("solo", **gcloud) == f"alice@{names['solo0']}"
    for host, machine in places.items():
        assert laptop.who(host, PATH=_without_gcloud(tmp_path)) == f"alice@{names[machine]}"

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
    fleet.declare({**NOTHING, **wanted, "user_accounts_users": people[:1]})
    fleet.play("tpu.fleet.onboarding")
    assert not (onboarding / "bob").exists()
    # The controller's own configuration follows too.
    assert fleet.ssh("solo", "hostname").strip() == names["solo0"]


def _without_gcloud(folder: Path) -> str:
    """Return a PATH on which gcloud is not."""
    programs = folder / "bin"
    if not programs.exists():
        programs.mkdir()
        for place in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
            for path in Path(place).iterdir():
                link = programs / path.name
                if path.name != "gcloud" and not link.is_symlink():
                    link.symlink_to(path)
    return str(programs)


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log in with the key of the story, and no other."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
