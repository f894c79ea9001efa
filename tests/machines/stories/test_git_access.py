"""Keys made on a machine, registered with GitHub, open a private repository; and then no more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, changes
from git_server import GitServer

# In CI tests/machines/hostile_user has the machine's part, local_cloud/tests/api/test_github.py
# and tests/cloud/playbooks/test_git_keys.py GitHub's.
pytestmark = pytest.mark.night

TOKEN = "ghp_the_lab"
SLICE = {"name": "gitty", "accelerator_type": "v4-8", "zone": "us-central2-b"}
PEOPLE = [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}]
CONFIGURE = ("tpu.fleet.configure", "--tags", "user_accounts,git_access")


class Lab:
    """A fleet, its GitHub, and a git server that lets in whom GitHub knows."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.url = f"http://127.0.0.1:{fleet.port}/"
        self.declared: dict[str, Any] = {
            **NOTHING,
            # Pushed, so that no secret may be anywhere but where a role put it.
            "fleet_apply": "push",
            "fleet_allocations": "unrestricted",
            "fleet_slices": [SLICE],
            "fleet_users": PEOPLE,
            "fleet_github_api_url": f"{self.url}api/v3",
        }
        self.declare()
        fleet.play("tpu.fleet.provision")
        gateway = fleet.ssh("gitty", "ip -4 route show default").split()[2]
        self.server = GitServer(gateway, self.url)
        self.github({"accounts": [{"token": TOKEN, "login": "alice"}]})
        repositories = [{"name": f"lab/{name}", "admins": ["alice"]} for name in ("code", "data")]
        self.github({"repositories": repositories})

    def declare(self, **more: Any) -> None:
        self.declared.update(more)
        self.fleet.declare(self.declared)

    def github(self, asked: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = requests.post(f"{self.url}_cloud/github", json=asked or {}, timeout=30)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def titles(self) -> list[str]:
        return sorted(key["title"].partition(": ")[2] for key in self.github()["keys"])

    def keys(self, *words: str) -> str:
        return self.fleet.run("ansible-playbook", *words, GITHUB_TOKEN=TOKEN)

    def git(self, user: str, command: str, ok: bool = True) -> str:
        """Run git as a user of the machine."""
        return self.fleet.ssh("gitty", f"sudo -iu {user} git {command} 2>&1", ok=ok)


def test_a_private_repository_is_cloned_with_keys_that_github_knows(
    fleet: Fleet, tmp_path: Path
) -> None:
    lab = Lab(fleet)
    private = tmp_path / "shared"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(private)], check=True)
    canary = private.read_text().splitlines()[2]
    server = lab.server
    commit = server.add_repository("lab/code", {"train.py": "print('hello')\n"})
    server.add_repository("lab/data", {"data.csv": "1,2\n"})
    lab.declare(
        fleet_git_hosts=[server.declaration()],
        fleet_git_keys=[
            {"name": "work", "users": ["alice"], "register": "user"},
            {
                "name": "data",
                "users": ["alice", "bob"],
                "source": "machine",
                "register": "deploy",
                "repository": "lab/data",
            },
            {
                "name": "lab",
                "users": ["bob"],
                "source": "shared",
                "host": "gitlab.com",
                "private_key": private.read_text(),
            },
        ],
        fleet_git_identities=[{"user": "alice", "name": "Alice", "email": "a@example.org"}],
    )
    with server:
        # The key of the vault is in its file and nowhere else.
        told = fleet.play(*CONFIGURE, "-vvv", "--diff")
        assert canary in fleet.ssh("gitty", "sudo cat /home/bob/.ssh/id_tpu_fleet_lab")
        assert canary not in told
        # sudo writes into the journal what it is asked: so not the key itself.
        search = "sudo grep -rlFf /dev/shm/canary /etc /home /opt /root /tmp /var || true"
        found = fleet.ssh("gitty", f"echo '{canary}' > /dev/shm/canary; {search}")
        assert found.split() == ["/home/bob/.ssh/id_tpu_fleet_lab"]

        # Nobody is let in before GitHub knows the keys.
        url = "git@github.com:lab/code.git"
        assert "Permission denied (publickey)" in lab.git("alice", f"clone {url}", ok=False)
        dry = lab.keys("tpu.fleet.git_keys", "--check")
        assert changes(dry)["localhost"][0] == 1
        assert lab.titles() == []
        lab.keys("tpu.fleet.git_keys")
        assert lab.titles() == ["alice@gitty work", "gitty data"]
        assert TOKEN not in fleet.ssh("gitty", "sudo journalctl --no-pager | tail -n 2000")

        lab.git("alice", f"clone {url}")
        assert lab.git("alice", "-C code rev-parse HEAD").strip() == commit
        fleet.ssh("gitty", "sudo -u alice tee /home/alice/code/new.txt <<< more >/dev/null")
        lab.git("alice", "-C code add new.txt")
        lab.git("alice", "-C code commit -q -m More")
        lab.git("alice", "-C code push -q")
        assert server.content("lab/code", "new.txt") == "more\n"

        # The machine's key opens one repository, to read; also under its URL for the web.
        lab.git("bob", "clone https://github.com/lab/data.git")
        lab.git("bob", "-C data -c user.name=B -c user.email=b@x.y commit -q --allow-empty -m No")
        assert "marked as read only" in lab.git("bob", "-C data push", ok=False)
        assert "Permission denied" in lab.git("bob", f"clone {url}", ok=False)
        assert {"gitty data"} == {
            access["title"].partition(": ")[2]
            for access in server.accesses()
            if access["repository"] == "lab/data"
        }

        # A server with another host key is not believed, whoever asks.
        server.stop()
        server.new_host_key()
        server.start()
        says = lab.git("alice", "-C code fetch", ok=False)
        assert "Host key verification failed" in says
        lab.declare(fleet_git_hosts=[server.declaration()])
        fleet.play(*CONFIGURE)
        lab.git("alice", "-C code fetch")

        # Not declared any more, it is at GitHub no more; and with the slice goes the rest.
        lab.declare(fleet_git_keys=lab.declared["fleet_git_keys"][:1])
        lab.keys("tpu.fleet.git_keys")
        assert lab.titles() == ["alice@gitty work"]
        lab.keys("tpu.fleet.teardown", "-e", "teardown=gitty", "--check")
        assert lab.titles() == ["alice@gitty work"]
        lab.keys("tpu.fleet.teardown", "-e", "teardown=gitty")
        assert lab.titles() == []
        record = json.loads((fleet.folder / "state" / "github_keys.json").read_text())
        assert list(record.values()) == [[]]
