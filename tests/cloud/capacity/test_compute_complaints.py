"""What people complain about TPUs on Compute Engine, each as a test.

Some concern people's hands (a size that differs from the topology, a placement policy, a libtpu
that does not know TPU7x): there the test shows that it is refused, or cannot be written. Others
concern what Compute Engine does not say: there it shows what we say instead.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_list import failures_of
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apis import apis_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import (
    FleetApplier,
    Pace,
    Result,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.slices import check_slices
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import CloudClock, Emulator
from warm_ansible import run_ansible

ZONE, FAR, NEW = "us-central1-b", "us-east5-a", "us-central1-c"
DELAYS = {"create": 60.0, "delete": 30.0, "update": 0.0, "fail": 45.0}
DELAYS |= {"queue_grant": 10.0, "queue_look": 60.0}
ONE = {"name": "one", "accelerator_type": "v6e-1", "zones": [ZONE], "api": "compute"}
WIDE = {"name": "wide", "accelerator_type": "v6e-16", "zones": [ZONE], "api": "compute"}
FLEX = {"tier": "flex_start", "max_run_duration": "1h", "valid_for": "30m"}
FOURS = {"machine_type": "ct6e-standard-4t"}
UNDECIDED = "Compute Engine does not show whether capacity or quota is missing"


class Lab:
    """A controller, and a cloud whose time passes only when the controller waits."""

    def __init__(self, cloud: Emulator) -> None:
        self.cloud, self.clock = cloud, CloudClock(cloud)
        self.client = Client(cloud.project, endpoint=cloud.url, clock=self.clock)
        self.slices = ComputeSlices(self.client)
        self.said: list[str] = []

    def apply(self, *slices: dict[str, Any], timeout: float = 900.0) -> Result:
        """Let a new controller do its work."""
        params = {"slices": list(slices), "allocations": "unrestricted"}
        fleet = Fleet.from_params(params, self.cloud.project)
        cloud = apis_of(self.client, fleet)
        progress = self.said.append
        # Without chance: what is told at the end is about a moment between two requests.
        poll, again = Backoff(first=2.0, jitter=0.0), Backoff(first=30.0, most=600.0, jitter=0.0)
        pace = Pace(poll=poll, again=again, report=30.0)
        return FleetApplier(
            cloud, fleet, timeout=timeout, strict=False, progress=progress, pace=pace
        ).apply()

    def raw(self, name: str, zone: str = ZONE) -> Any:
        return self.ask("GET", f"zones/{zone}/instances/{name}").json()

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        url = f"{self.cloud.url}compute/v1/projects/{self.cloud.project}/{path}"
        return requests.request(method, url, json=body, timeout=60)

    def workers(self, name: str, zone: str = ZONE) -> list[Any]:
        return [one.raw for one in self.slices.workers(zone, name)]


@pytest.fixture
def lab() -> Iterator[Lab]:
    cloud = Emulator(clock="manual", delays=DELAYS)
    yield Lab(cloud)
    cloud.stop()


def text(result: Result) -> str:
    (status,) = result.statuses
    return f"{status.phase}: {status.text}"


@pytest.mark.parametrize("fault", ["quota", "stock_out"])
def test_quota_is_invisible_while_a_request_waits(lab: Lab, fault: str) -> None:
    """PENDING looks the same without quota and without capacity, so we say that it does."""
    match = {"service": "compute"} if fault == "quota" else {"zone": ZONE}
    lab.cloud.fault(fault, match=match, **({"limit": 0} if fault == "quota" else {}))
    found = text(lab.apply({**ONE, **FLEX}))
    assert found.startswith(f"queued: WAITING_FOR_RESOURCES in {ZONE}")
    assert UNDECIDED in found


@pytest.mark.parametrize(("fault", "words"), [("quota", "no quota"), ("stock_out", "no capacity")])
def test_quota_is_told_apart_where_the_api_tells(lab: Lab, fault: str, words: str) -> None:
    match = {"service": "compute"} if fault == "quota" else {"zone": ZONE}
    lab.cloud.fault(fault, match=match, **({"limit": 0} if fault == "quota" else {}))
    found = text(lab.apply(ONE, timeout=180.0))
    assert words in found
    assert "does not show whether" not in found


def test_a_failed_flex_start_vm_leaves_no_trace(lab: Lab) -> None:
    """The instance is gone; its operation is not, and says why."""
    lab.cloud.fault("stock_out", match={"zone": ZONE})
    result = lab.apply({**ONE, **FLEX}, timeout=1815.0)
    assert lab.ask("GET", f"zones/{ZONE}/instances").json().get("items", []) == []
    assert "no capacity" in text(result)
    (failed,) = failures_of(lab.slices, ZONE)
    assert (failed["name"], failed["kind"]) == ("one", "stock_out")
    assert "does not have enough resources available" in failed["message"]


def test_a_boot_disk_of_10_gb(lab: Lab) -> None:
    lab.apply(ONE, WIDE)
    for raw in [lab.raw("one"), *lab.workers("wide")]:
        assert raw["disks"][0]["diskSizeGb"] == "100"


def test_a_scope_is_missing(lab: Lab) -> None:
    """With the default scopes a machine reads no bucket of its own, and says so late."""
    account = {"service_account": "me@p.iam.gserviceaccount.com"}
    lab.apply({**ONE, **account}, {**WIDE, **account})
    for raw in [lab.raw("one"), *lab.workers("wide")]:
        (account,) = raw["serviceAccounts"]
        assert account["scopes"] == ["https://www.googleapis.com/auth/cloud-platform"]


def test_old_tools_see_nothing(lab: Lab, tmp_path: Path) -> None:
    lab.apply({**ONE, "zones": [FAR]})
    nodes = f"{lab.cloud.url}v2/projects/{lab.cloud.project}/locations/{FAR}/nodes"
    assert requests.get(nodes, timeout=10).json().get("nodes", []) == []
    assert requests.get(f"{nodes}/one", timeout=10).status_code == 404
    inventory = tmp_path / "fleet.tpu.yml"
    inventory.write_text(f"plugin: tpu.fleet.tpu\nprojects: [{lab.cloud.project}]\n")
    words = ("ansible-inventory", "-i", str(inventory), "--list")
    done = run_ansible(words, {**os.environ, **lab.cloud.env(HOME=str(tmp_path))}, tmp_path)
    assert done.returncode == 0, done.stderr
    listing = json.loads(done.stdout)
    assert listing["tpu"]["hosts"] == ["one"]
    assert listing["_meta"]["hostvars"]["one"]["tpu_vm_api"] in (
        "compute",
        {"__ansible_unsafe": "compute"},
    )


@pytest.mark.parametrize(
    ("slice_", "vms", "said"),
    [
        ({"accelerator_type": "v6e-8"}, 1, "v6e-8 (ct6e-standard-8t)"),
        ({"machine_type": "ct6e-standard-4t", "topology": "2x4"}, 2, "v6e-8 (2 ct6e-standard-4t)"),
    ],
)
def test_v6e_8_is_one_vm_or_two(lab: Lab, slice_: dict[str, Any], vms: int, said: str) -> None:
    wanted = {"name": "eight", "zones": [ZONE], "api": "compute", **slice_}
    result = lab.apply(wanted)
    assert text(result) == f"ready: {said} in {ZONE}"
    assert len(lab.workers("eight")) == vms
    assert lab.apply(wanted).actions == ()
    other = {"accelerator_type": "v6e-8"} if vms == 2 else {**FOURS, "topology": "2x4"}
    differs = text(lab.apply({"name": "eight", "zones": [ZONE], "api": "compute", **other}))
    assert "differs: machine_type is 'ct6e-standard-" in differs


def test_a_placement_policy_is_refused_and_never_ours(lab: Lab) -> None:
    lab.apply(WIDE)
    region = "regions/us-central1"
    ours = lab.ask("GET", f"{region}/resourcePolicies/wide").json()
    assert ours["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4"}
    assert "groupPlacementPolicy" not in ours
    group = lab.ask("GET", f"zones/{ZONE}/instanceGroupManagers/wide").json()
    assert group["resourcePolicies"]["workloadPolicy"].endswith("/resourcePolicies/wide")
    placement = {"name": "near", "groupPlacementPolicy": {"collocation": "COLLOCATED"}}
    assert lab.ask("POST", f"{region}/resourcePolicies", placement).ok
    template = lab.ask("GET", f"{region}/instanceTemplates/wide").json()["properties"]
    assert "resourcePolicies" not in template
    near = {"name": "near", "properties": {**template, "resourcePolicies": ["near"]}}
    assert lab.ask("POST", f"{region}/instanceTemplates", near).ok
    body = {
        "name": "other",
        "instanceTemplate": f"{region}/instanceTemplates/near",
        "targetSize": 4,
        "targetSizePolicy": {"mode": "BULK"},
    }
    refused = lab.ask("POST", f"zones/{ZONE}/instanceGroupManagers", body)
    assert refused.status_code == 400
    assert "Use workload policy instead." in refused.json()["error"]["message"]


def test_a_size_that_differs_from_the_topology_cannot_be_declared(lab: Lab) -> None:
    """A size is never declared: it follows from the topology."""
    lab.apply({**WIDE, "accelerator_type": "v6e-32"})
    group = lab.ask("GET", f"zones/{ZONE}/instanceGroupManagers/wide").json()
    assert (group["targetSize"], len(lab.workers("wide"))) == (8, 8)
    wrong = {"name": "wide", "zone": ZONE, **FOURS, "topology": "4x3"}
    data = {"fleet_slices": [wrong], "fleet_allocations": "unrestricted"}
    (problem,) = [one for one in check_slices(data) if one.field.endswith("topology")]
    assert (problem.value, problem.message) == ("4x3", "cannot be formed of ct6e-standard-4t")
    assert "4x4" in problem.remedy


@pytest.mark.parametrize(("version", "count"), [("0.10.1", 1), ("0.10.2", 0)])
def test_tpu7x_needs_a_libtpu_that_knows_it(version: str, count: int) -> None:
    """The JAX of a venv brings its libtpu, so the fleet file is checked before anything is made."""
    data = {
        "fleet_allocations": "unrestricted",
        "fleet_slices": [{"name": "new", "zone": NEW, "accelerator_type": "v7x-8"}],
        "fleet_venvs": [{"name": "main", "framework": "jax", "framework_version": version}],
    }
    found = [one for one in check_slices(data) if one.field.endswith("framework_version")]
    assert len(found) == count
    for problem in found:
        assert "does not find the chips or workers of new" in problem.message
        assert problem.remedy.startswith("Use 0.10.2 or newer")


def test_set_metadata_replaces_what_google_wrote(lab: Lab) -> None:
    """A careless writer breaks the slice: its workers no longer know each other."""
    lab.apply(WIDE)

    def google() -> list[dict[str, str]]:
        keys = ("agent-worker-number", "tpu-env", "worker-network-endpoints", "accelerator-type")
        items = [
            {item["key"]: item["value"] for item in raw["metadata"]["items"]}
            for raw in lab.workers("wide")
        ]
        return [{key: each[key] for key in keys} for each in items]

    before = google()
    assert [each["agent-worker-number"] for each in before] == ["0", "1", "2", "3"]
    for metadata, purge in itertools.product(({"a": "1"}, {}), ([], ["metadata"])):
        lab.apply({**WIDE, "metadata": metadata, "purge": purge})
        assert google() == before
