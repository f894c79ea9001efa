"""Ansible's own inventory of Compute Engine, google.cloud.gcp_compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from cloud_of_clients import LocalCloud

ZONE = "us-east5-a"
FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
IMAGE = f"projects/ubuntu-os-accelerator-images/global/images/family/{FAMILY}"


@pytest.fixture(scope="module", autouse=True)
def _plugins() -> None:
    init_plugin_loader()


def inventory(path: Path, **options: Any) -> InventoryManager:
    file = path / "gcp.yml"
    common = {
        "plugin": "google.cloud.gcp_compute",
        "projects": [LocalCloud.project],
        "auth_kind": "accesstoken",
        "access_token": "token",
    }
    file.write_text(yaml.safe_dump({**common, **options}))
    return InventoryManager(loader=DataLoader(), sources=[str(file)])


def insert(cloud: LocalCloud, name: str, **more: Any) -> None:
    body = {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/ct6e-standard-1t",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE}}],
        "networkInterfaces": [{"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
        **more,
    }
    cloud.post(f"compute/v1/projects/{cloud.project}/zones/{ZONE}/instances", body)


@pytest.mark.parametrize("images", [False, True], ids=["plain", "with images"])
def test_hosts(cloud: LocalCloud, tmp_path: Path, images: bool) -> None:
    insert(cloud, "one", labels={"role": "trainer"})
    insert(cloud, "two")
    found = inventory(tmp_path, retrieve_image_info=images, hostnames=["name"])
    assert {host.name for host in found.get_hosts()} == {"one", "two"}
    one = found.get_host("one").vars
    assert (one["zone"], one["labels"]) == (ZONE, {"role": "trainer"})
    if images:
        assert one["image"].startswith(FAMILY)


def test_a_filter_of_a_zone(cloud: LocalCloud, tmp_path: Path) -> None:
    insert(cloud, "one", labels={"role": "trainer"})
    insert(cloud, "two")
    found = inventory(tmp_path, zones=[ZONE], filters=["labels.role = trainer"], hostnames=["name"])
    assert {host.name for host in found.get_hosts()} == {"one"}
