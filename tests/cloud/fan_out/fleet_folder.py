"""A folder of a fleet whose workers are hosts of the farm, and the command called in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._inventory.host_keys import ssh_arguments
from sshd import Farm

ROOT = Path(__file__).resolve().parents[3]
TPU_FLEET = Path(sys.executable).with_name("tpu-fleet")


class Fleet:
    """A folder of a fleet: an inventory of hosts of the farm, a state folder."""

    def __init__(self, folder: Path, farm: Farm, slices: dict[str, int]):
        self.folder, self.farm = folder, farm
        self.state = folder / "state"
        self.state.mkdir(parents=True)
        (folder / "ansible.cfg").write_text("[defaults]\ninventory = hosts.yml\n")
        at = iter(farm.hosts())
        self.groups: dict[str, dict[str, dict[str, Any]]] = {"tpu": {}}
        self.real: dict[str, str] = {}
        for name, count in slices.items():
            for worker in range(count):
                host, server, address = next(at)
                mine = name if count == 1 else f"{name}-w{worker}"
                self.real[mine] = host
                options = farm.options(host, server)
                self.groups["tpu"][mine] = {
                    "ansible_host": address,
                    "ansible_user": self.user,
                    "ansible_ssh_private_key_file": str(farm.key),
                    "tpu_vm_ssh_options": options,
                }
                self.groups.setdefault(f"tpu_slice_{name}", {})[mine] = {}
        self.write()

    def write(self) -> None:
        """Write the inventory: what the fleet says when it is asked."""
        for host in self.groups["tpu"].values():
            host["ansible_ssh_common_args"] = ssh_arguments(host["tpu_vm_ssh_options"])
        children = {group: {"hosts": hosts} for group, hosts in self.groups.items()}
        variables = {
            "fleet_state_dir": str(self.state),
            "fleet_ssh_user": self.user,
            "fleet_ssh_private_key_file": str(self.farm.key),
        }
        inventory = {"all": {"children": children, "vars": variables}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))

    @property
    def user(self) -> str:
        return self.farm.targets(1)[0].user

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if "ANSIBLE" not in name}
        return {
            **ours,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "TPU_FLEET_STATE_DIR": str(self.state),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def run(
        self, *words: str | Path, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call the command in the folder."""
        return subprocess.run(
            (TPU_FLEET, *words),
            cwd=self.folder,
            env={**self.environment, **(more or {})},
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Call it, and go on."""
        return subprocess.Popen(
            (TPU_FLEET, *words),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
