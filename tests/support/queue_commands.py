"""`tpu-fleet` as a process, in a fleet whose queue is in a bucket of the local cloud."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator import ROOT, Emulator


def declare(
    folder: Path,
    cloud: Emulator,
    slices: Sequence[Mapping[str, Any]],
    users: Sequence[Mapping[str, Any]],
    queue: Mapping[str, Any],
) -> None:
    """Write the inventory of a fleet into a folder."""
    inventory = folder / "inventory"
    shutil.copytree(ROOT / "inventory", inventory)
    shutil.rmtree(inventory / "group_vars" / "all")
    (inventory / "group_vars" / "all").mkdir()
    where = inventory / "fleet.tpu.yml"
    where.write_text(where.read_text().replace("http://127.0.0.1:8470/", cloud.url))
    declared = {
        "fleet_allocations": "unrestricted",
        "fleet_zone": "us-central2-b",
        "fleet_slices": slices,
        "fleet_users": users,
        "fleet_venvs": [{"name": "jax", "path": "/opt/venvs/jax"}],
        "fleet_queue": queue,
    }
    (inventory / "group_vars" / "all" / "lab.yml").write_text(json.dumps(declared))


def environment(folder: Path, cloud: Emulator) -> dict[str, str]:
    """Return the variables of a process that works on the fleet of a folder."""
    found: dict[str, str] = cloud.env(
        ANSIBLE_INVENTORY=str(folder / "inventory"),
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
        TPU_FLEET_STATE_DIR=str(folder / "state"),
        XDG_CACHE_HOME=str(folder / "cache"),
        PYTHONPATH=f"{ROOT / 'src'}:{ROOT / 'collections'}",
    )
    return found


def tpu_fleet(
    folder: Path, cloud: Emulator, where: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of the fleet that a folder declares."""
    return subprocess.run(
        [sys.executable, "-m", "tpu_fleet", *words],
        cwd=where, env=environment(folder, cloud), capture_output=True, text=True, timeout=120,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
