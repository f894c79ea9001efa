"""apache-libcloud's driver for Compute Engine: what it makes, lists and deletes."""

from __future__ import annotations

import pytest
from cloud_of_clients import LocalCloud
from libcloud.common.google import GoogleOAuth2Credential
from libcloud.compute.drivers.gce import GCENodeDriver

ZONE = "us-east5-a"
FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"


@pytest.fixture
def driver(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> GCENodeDriver:
    monkeypatch.setattr(GoogleOAuth2Credential, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(GoogleOAuth2Credential, "access_token", "token")
    return GCENodeDriver("me@example.com", "key", project=cloud.project, datacenter=ZONE)


def test_a_life(driver: GCENodeDriver) -> None:
    image = driver.ex_get_image_from_family(FAMILY, ["ubuntu-os-accelerator-images"])
    [size] = [each for each in driver.list_sizes() if each.name == "ct6e-standard-1t"]
    made = driver.create_node(
        *("one", size, image),
        ex_disk_type="hyperdisk-balanced",
        ex_labels={"team": "vision"},
        ex_on_host_maintenance="TERMINATE",
    )
    assert (made.name, made.state) == ("one", "running")
    assert len(made.public_ips) == 1
    [listed] = driver.list_nodes()
    assert listed.extra["labels"] == {"team": "vision"}
    found = driver.ex_get_node("one")
    assert found.extra["boot_disk"].name == "one"
    assert [disk.name for disk in driver.list_volumes()] == ["one"]
    assert driver.reboot_node(found)
    assert driver.ex_stop_node(found)
    assert driver.ex_get_node("one").state == "stopped"
    assert driver.destroy_node(found)
    assert driver.list_nodes() == []
    assert driver.list_volumes() == []


def test_what_is_around(driver: GCENodeDriver) -> None:
    [network] = driver.ex_list_networks()
    assert (network.name, network.mode) == ("default", "auto")
    [subnet] = driver.ex_list_subnetworks("us-east5")
    assert subnet.network.name == "default"
    names = {rule.name for rule in driver.ex_list_firewalls()}
    rule = driver.ex_create_firewall("web", [{"IPProtocol": "tcp", "ports": ["80"]}])
    assert {each.name for each in driver.ex_list_firewalls()} == {*names, "web"}
    assert driver.ex_destroy_firewall(rule)
    volume = driver.create_volume(20, "data", ex_disk_type="pd-balanced")
    assert driver.ex_get_volume("data").size == "20"
    assert driver.destroy_volume(volume)
