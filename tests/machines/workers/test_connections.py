"""How often ordinary Ansible connects, as the sshds of small machines count it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from container_cloud import ContainerCloud
from ssh_log import SshLogs

ROOT = Path(__file__).resolve().parents[3]
TASKS = [
    {"name": "Call a module", "ansible.builtin.ping": None},
    {"name": "Call a shell", "ansible.builtin.raw": "true"},
    {"name": "Call one as root", "ansible.builtin.command": "id -un", "become": True},
]


class Controller:
    """The ansible.cfg of this repository, with a fleet of eight workers."""

    def __init__(self, cloud: ContainerCloud, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "fleet.tpu.yml"
        self.state = folder / "state"
        described = {
            "plugin": "tpu.fleet.tpu",
            "projects": ["local-project"],
            "api_endpoint": cloud.endpoint,
            "user": "ubuntu",
            "accelerator_types": ["v4-64"],
        }
        self.inventory.write_text(json.dumps(described))
        self.env = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_PRIVATE_KEY_FILE": str(cloud.key),
            "TPU_FLEET_STATE_DIR": str(self.state),
        }

    def run(self, program: str, *words: str, **env: str) -> str:
        """Run a program of Ansible."""
        done = subprocess.run(
            [str(ROOT / ".venv/bin" / program), "-i", str(self.inventory), *words],
            env={**self.env, **env},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def play(self, *tasks: dict[str, Any], **env: str) -> None:
        """Play tasks on all workers."""
        book = self.folder / "play.json"
        play = {"name": "Play", "hosts": "tpu", "gather_facts": False, "tasks": list(tasks)}
        book.write_text(json.dumps([play]))
        self.run("ansible-playbook", str(book), **env)


@pytest.fixture
def controller(container_cloud: ContainerCloud, tmp_path: Path) -> Iterator[Controller]:
    container_cloud.create("many", "v4-64", **{"local-cloud-machine": "small"})
    controller = Controller(container_cloud, tmp_path)
    try:
        yield controller
    finally:
        controller.play({"name": "Close", "ansible.builtin.meta": "reset_connection"})
        container_cloud.delete("many")


def test_all_playbooks_and_the_next_ones_share_one_connection(
    controller: Controller, container_cloud: ContainerCloud
) -> None:
    logs = SshLogs(container_cloud.state_dir)
    for _ in range(2):
        controller.play(*TASKS)
    seen = [log for log in logs.count().values() if log.connections]
    assert {(log.connections, log.logins) for log in seen} == {(1, 1)}
    # With pipelining a task is one execution.
    assert [log.executions for log in seen] == [2 * len(TASKS)] * 8


def test_the_key_exchange_is_what_the_inventory_says(controller: Controller) -> None:
    variables = json.loads(
        controller.run("ansible-inventory", "--host", "many-w0", TPU_FLEET_SSH_KEX="cheap")
    )
    options = variables["tpu_vm_ssh_options"]
    words = [f"-o{name}={value}" for name, value in options.items()]
    where = f"ubuntu@{variables['ansible_host']}"
    key = controller.env["ANSIBLE_PRIVATE_KEY_FILE"]
    done = subprocess.run(
        ["ssh", "-v", "-F", "/dev/null", "-i", key, *words, "-oBatchMode=yes", where, "true"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "kex: algorithm: curve25519-sha256\n" in done.stderr.replace("\r", "")
