"""What is around instances in Compute Engine: networks, disks that they boot from, zones.

Each answer is checked against Google's discovery document.
"""

from __future__ import annotations

import runpy
from typing import Any

import pytest
import requests
from clouds import a_cloud
from compute_client import BOOT, FAMILY, HERE, IMAGE, LINK, ComputeClient
from emulator import ROOT, Emulator

from tpu_local_cloud.model.shared import catalog, known_methods
from tpu_local_cloud.serve.frontend import FrontEnd

ZONE, REGION = "us-east5-a", "us-east5"


class Compute(ComputeClient):
    """A client with the requests of these tests."""

    def insert(self, name: str, **more: Any) -> Any:
        """Create an instance."""
        body = {
            "name": name,
            "machineType": f"zones/{ZONE}/machineTypes/ct6e-standard-1t",
            "disks": [BOOT],
            "networkInterfaces": [{"network": "global/networks/default"}],
            **more,
        }
        return self.post(f"zones/{ZONE}/instances", body)


@pytest.fixture
def compute(cloud: Emulator) -> Compute:
    return Compute(cloud)


# Networks ------------------------------------------------------------------------------------


def test_the_network(compute: Compute) -> None:
    [network] = compute.get("global/networks")["items"]
    assert network == compute.get("global/networks/default")
    assert (network["name"], network["autoCreateSubnetworks"]) == ("default", True)
    assert network["id"].isdigit()
    assert network["creationTimestamp"].endswith("-08:00")
    assert f"{LINK}/regions/{REGION}/subnetworks/default" in network["subnetworks"]
    status, text = compute.refused("GET", "global/networks/none")
    assert (status, text) == (404, f"The resource '{HERE}/global/networks/none' was not found")


def test_each_region_has_a_subnetwork(compute: Compute) -> None:
    [one] = compute.get(f"regions/{REGION}/subnetworks", filter="name=default")["items"]
    assert one == compute.get(f"regions/{REGION}/subnetworks/default")
    assert (one["ipCidrRange"], one["gatewayAddress"]) == ("10.202.0.0/20", "10.202.0.1")
    assert one["network"] == f"{LINK}/global/networks/default"
    scopes = compute.get("aggregated/subnetworks")["items"]
    found = {s: each["subnetworks"][0]["ipCidrRange"] for s, each in scopes.items()}
    assert set(found) == {f"regions/{region}" for region in catalog.REGIONS}
    assert len(set(found.values())) == len(found)
    for path in (f"regions/{REGION}/subnetworks/none", "regions/mars/subnetworks"):
        assert compute.ask("GET", path).status_code in (400, 404)


def test_what_a_node_is_in_exists(cloud: Emulator, compute: Compute) -> None:
    url = f"{cloud.url}v2/{HERE}/locations/{ZONE}/nodes"
    body = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"}
    requests.post(url, params={"nodeId": "n1"}, json=body, timeout=30).raise_for_status()
    node = requests.get(f"{url}/n1", timeout=30).json()
    subnetwork = compute.get(node["networkConfig"]["subnetwork"].partition(f"{HERE}/")[2])
    assert node["cidrBlock"] == subnetwork["ipCidrRange"]
    network = compute.get(node["networkConfig"]["network"].partition(f"{HERE}/")[2])
    assert subnetwork["network"] == network["selfLink"]


def test_another_network(cloud: Emulator, compute: Compute) -> None:
    compute.post("global/networks", {"name": "lab", "autoCreateSubnetworks": True})
    assert [n["name"] for n in compute.get("global/networks")["items"]] == ["default", "lab"]
    subnet = compute.get("regions/us-east5/subnetworks/lab")
    assert subnet["network"] == compute.get("global/networks/lab")["selfLink"]
    assert compute.get("global/networks/lab/getEffectiveFirewalls") == {}
    rule = {"name": "web", "network": "global/networks/lab", "allowed": [{"IPProtocol": "tcp"}]}
    compute.post("global/firewalls", rule)
    [found] = compute.get("global/networks/lab/getEffectiveFirewalls")["firewalls"]
    assert (found["name"], found["network"]) == ("web", f"{LINK}/global/networks/lab")
    compute.insert("one", networkInterfaces=[{"network": "global/networks/lab"}])
    url = f"{cloud.url}v2/{HERE}/locations/{ZONE}/nodes"
    body = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"}
    body |= {"networkConfig": {"network": "lab", "subnetwork": "lab"}}
    requests.post(url, params={"nodeId": "n1"}, json=body, timeout=30).raise_for_status()
    for user in ("global/firewalls/web", f"zones/{ZONE}/instances/one"):
        status, text = compute.refused("DELETE", "global/networks/lab")
        assert (status, user in text) == (400, True)
        compute.delete(user)
    assert compute.refused("DELETE", "global/networks/lab")[0] == 400
    requests.delete(f"{url}/n1", timeout=30).raise_for_status()
    compute.delete("global/networks/lab")
    assert [n["name"] for n in compute.get("global/networks")["items"]] == ["default"]


def test_a_network_in_custom_mode(cloud: Emulator, compute: Compute) -> None:
    compute.post("global/networks", {"name": "lab", "autoCreateSubnetworks": False})
    assert "subnetworks" not in compute.get("global/networks/lab")
    place = "regions/us-east5/subnetworks"
    body = {"name": "lab-east", "network": "global/networks/lab", "ipCidrRange": "10.9.0.0/24"}
    compute.post(place, body)
    made = compute.get(f"{place}/lab-east")
    assert (made["ipCidrRange"], made["gatewayAddress"]) == ("10.9.0.0/24", "10.9.0.1")
    assert compute.get("global/networks/lab")["subnetworks"] == [made["selfLink"]]
    assert [s["name"] for s in compute.get(place)["items"]] == ["default", "lab-east"]
    assert compute.refused("POST", place, body)[0] == 409
    for wrong in ({"ipCidrRange": "10.9.0.1/24"}, {"network": "global/networks/nope"}):
        assert compute.refused("POST", place, {**body, "name": "other", **wrong})[0] == 400
    card = {"network": "global/networks/lab", "subnetwork": f"{place}/lab-east"}
    compute.insert("one", networkInterfaces=[card])
    status, text = compute.refused("DELETE", f"{place}/lab-east")
    assert (status, f"zones/{ZONE}/instances/one" in text) == (400, True)
    compute.delete(f"zones/{ZONE}/instances/one")
    assert compute.refused("DELETE", "global/networks/lab")[0] == 400
    assert compute.refused("DELETE", f"{place}/default")[0] == 400
    compute.delete(f"{place}/lab-east")
    compute.delete("global/networks/lab")


def test_the_firewall_of_a_network(compute: Compute) -> None:
    before = compute.get("global/networks/default/getEffectiveFirewalls")["firewalls"]
    assert {rule["name"] for rule in before} >= {"default-allow-ssh", "default-allow-internal"}
    rule = {"name": "web", "allowed": [{"IPProtocol": "tcp", "ports": ["80"]}]}
    compute.post("global/firewalls", rule)
    after = compute.get("global/networks/default/getEffectiveFirewalls")["firewalls"]
    [web] = [rule for rule in after if rule not in before]
    assert web == compute.get("global/firewalls/web")
    assert all(rule["id"].isdigit() and rule["creationTimestamp"] for rule in after)
    found = compute.get("global/firewalls", filter="name=web")
    assert [rule["name"] for rule in found["items"]] == ["web"]
    assert compute.ask("GET", "global/networks/none/getEffectiveFirewalls").status_code == 404


# Disks ---------------------------------------------------------------------------------------


def test_an_instance_boots_from_a_disk_that_exists(compute: Compute) -> None:
    compute.insert("one")
    instance = compute.get(f"zones/{ZONE}/instances/one")
    path = instance["disks"][0]["source"].partition(f"{HERE}/")[2]
    disk = compute.get(path)
    assert (disk["name"], disk["sizeGb"], disk["status"]) == ("one", "10", "READY")
    assert disk["users"] == [instance["selfLink"]]
    assert disk["type"].endswith("/diskTypes/hyperdisk-balanced")
    assert disk["id"] != instance["id"]
    image = disk["sourceImage"].partition("/projects/")[2].partition("/")
    assert image[0] == "ubuntu-os-accelerator-images"
    assert FAMILY in image[2]
    assert disk["creationTimestamp"].endswith("-08:00")
    assert compute.get(f"zones/{ZONE}/disks")["items"] == [disk]
    assert compute.get("aggregated/disks")["items"][f"zones/{ZONE}"]["disks"] == [disk]
    assert compute.get(f"zones/{ZONE}/disks", filter="name!=one").get("items") is None
    status, text = compute.refused("DELETE", path)
    assert (status, "is already being used by" in text) == (400, True)
    compute.delete(f"zones/{ZONE}/instances/one")
    assert compute.ask("GET", path).status_code == 404
    assert "items" not in compute.get(f"zones/{ZONE}/disks")


def test_a_boot_disk_is_changed_like_any_other(compute: Compute) -> None:
    compute.insert("one")
    path = f"zones/{ZONE}/disks/one"
    mark = compute.get(path)["labelFingerprint"]
    compute.post(f"{path}/setLabels", {"labels": {"a": "b"}, "labelFingerprint": mark})
    compute.post(f"{path}/resize", {"sizeGb": "50"})
    disk = compute.get(path)
    assert (disk["labels"], disk["sizeGb"]) == ({"a": "b"}, "50")
    assert compute.get(f"zones/{ZONE}/instances/one")["disks"][0]["diskSizeGb"] == "50"


def test_a_boot_disk_outlives_its_instance_unless_it_is_deleted_with_it(compute: Compute) -> None:
    params = {"sourceImage": IMAGE, "diskName": "root", "diskSizeGb": "30"}
    compute.insert("one", disks=[{"boot": True, "initializeParams": params}])
    path = f"zones/{ZONE}/disks/root"
    before = compute.get(path)
    compute.delete(f"zones/{ZONE}/instances/one")
    after = compute.get(path)
    assert "users" not in after
    for key in ("id", "sizeGb", "sourceImage", "creationTimestamp"):
        assert after[key] == before[key]
    body = {
        "name": "two",
        "machineType": f"zones/{ZONE}/machineTypes/ct6e-standard-1t",
        "disks": [{"boot": True, "initializeParams": params}],
        "networkInterfaces": [{}],
    }
    exists = (409, f"The resource '{HERE}/{path}' already exists")
    assert compute.refused("POST", f"zones/{ZONE}/instances", body) == exists
    assert compute.refused("POST", f"zones/{ZONE}/disks", {"name": "root"}) == exists
    compute.delete(path)
    compute.post(f"zones/{ZONE}/instances", body)


def test_what_waits_for_capacity_has_no_disk(cloud: Emulator, compute: Compute) -> None:
    cloud.fault("stock_out", match={"service": "compute"})
    flex = {"provisioningModel": "FLEX_START", "maxRunDuration": {"seconds": "3600"}}
    wait = {"requestValidForDuration": {"seconds": "7200"}}
    compute.insert("one", scheduling={**flex, "instanceTerminationAction": "DELETE"}, params=wait)
    assert compute.get(f"zones/{ZONE}/instances/one")["status"] == "PENDING"
    assert compute.ask("GET", f"zones/{ZONE}/disks/one").status_code == 404


def test_disks_are_filtered_and_paged(compute: Compute) -> None:
    for name in ("a", "b", "c"):
        compute.post(f"zones/{ZONE}/disks", {"name": name, "labels": {"of": name}})
    first = compute.get(f"zones/{ZONE}/disks", maxResults="2")
    rest = compute.get(f"zones/{ZONE}/disks", pageToken=first["nextPageToken"])
    assert [d["name"] for d in first["items"] + rest["items"]] == ["a", "b", "c"]
    found = compute.get("aggregated/disks", filter="labels.of=b")["items"]
    assert [d["name"] for d in found[f"zones/{ZONE}"]["disks"]] == ["b"]


# Zones ---------------------------------------------------------------------------------------


def test_all_of_googles_zones_are_listed(cloud: Emulator, compute: Compute) -> None:
    zones = [each["name"] for each in compute.get("zones")["items"]]
    locations = requests.get(f"{cloud.url}v2/{HERE}/locations", timeout=30).json()["locations"]
    assert set(zones) >= {each["locationId"] for each in locations}
    regions = [each["name"] for each in compute.get("regions")["items"]]
    assert {zone.rpartition("-")[0] for zone in zones} == set(regions)
    assert len(regions) > 40


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("zones/mars", (404, f"The resource '{HERE}/zones/mars' was not found")),
        ("regions/mars", (404, f"The resource '{HERE}/regions/mars' was not found")),
        (
            "zones/mars/instances",
            (400, "Invalid value for field 'zone': 'mars'. Unknown zone."),
        ),
        (
            "regions/mars/subnetworks",
            (400, "Invalid value for field 'region': 'mars'. Unknown region."),
        ),
    ],
)
def test_unknown_places(compute: Compute, path: str, expected: tuple[int, str]) -> None:
    assert compute.refused("GET", path) == expected


# What the local cloud does not have ----------------------------------------------------------


def test_our_list_of_methods_is_googles() -> None:
    """Renew it with local_cloud/scripts/cut_compute_document.py when the installed one is newer."""
    cut = runpy.run_path(str(ROOT / "local_cloud/scripts/cut_compute_document.py"))
    assert cut["NAMES"].read_text() == cut["names"](cut["installed"]())


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "compute/v1/{}/zones/z/instanceGroups/mig/listInstances",
         "compute.instanceGroups.listInstances"),
        ("GET", "compute/v1/{}/zones/z/instanceGroups/mig", "compute.instanceGroups.get"),
        ("PATCH", "compute/v1/{}/zones/z/instanceGroupManagers/m",
         "compute.instanceGroupManagers.patch"),
        ("POST", "compute/v1/{}/zones/z/instances/i/setMachineType",
         "compute.instances.setMachineType"),
        ("PUT", "compute/v1/{}/zones/z/instances/i", "compute.instances.update"),
        ("GET", "compute/beta/{}/regions/r/addresses", "compute.addresses.list"),
        ("GET", "compute/v1/{}/global/snapshots", "compute.snapshots.list"),
        ("DELETE", "compute/v1/{}/global/operations/o", "compute.globalOperations.delete"),
        ("PATCH", "compute/v1/{}/global/networks/n", "compute.networks.patch"),
        ("GET", "storage/v1/b/bucket/notificationConfigs", "storage.notifications.list"),
        ("POST", "storage/v1/{}/hmacKeys", "storage.projects.hmacKeys.create"),
        ("POST", "v1/{}/serviceAccounts/s/keys", "iam.projects.serviceAccounts.keys.create"),
        ("DELETE", "v1/{}", "cloudresourcemanager.projects.delete"),
    ],
)  # fmt: skip
def test_what_google_has_and_the_local_cloud_has_not_is_named(
    cloud: Emulator, method: str, path: str, name: str
) -> None:
    answer = requests.request(method, f"{cloud.url}{path.format(HERE)}", json={}, timeout=30)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (501, 501)
    assert error["message"].startswith(f"The local cloud has no {name}.")


def test_no_method_of_googles_looks_like_a_missing_page() -> None:
    front = FrontEnd(a_cloud())
    for line in (known_methods.DOCUMENTS / "methods.txt").read_text().splitlines():
        _name, method, shape = line.split(" ")
        path = "/" + shape.replace("{v}", "v1").replace("{}", "x")
        reply = front.reply(method, path, {}, {}, b"{}")
        assert reply.headers["Content-Type"].startswith("application/json"), line


def test_a_service_that_only_google_has(cloud: Emulator) -> None:
    """Where `tpu-local-cloud env` leads gcloud."""
    answer = requests.post(f"{cloud.url}_absent/logging/v2/entries:list", json={}, timeout=30)
    assert answer.status_code == 501
    text = answer.json()["error"]["message"]
    assert text.startswith("The local cloud has no logging.googleapis.com.")


@pytest.mark.parametrize("path", ["tpu", "compute/v1/nothing", "v2/projects/p/locations/z/knots"])
def test_what_google_has_not_is_its_page(cloud: Emulator, path: str) -> None:
    answer = requests.get(f"{cloud.url}{path}", timeout=30)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"].startswith("text/html")
    assert f"The requested URL <code>/{path}</code> was not found" in answer.text
