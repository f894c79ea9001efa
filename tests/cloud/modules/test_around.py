"""The modules around the slice, over HTTP against the emulator: each twice, checked before."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._compute import client as _compute
from ansible_collections.tpu.fleet.plugins.module_utils._compute.client import values_of
from ansible_collections.tpu.fleet.plugins.module_utils._google import (
    service_account_apply as _account_apply,
)
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_settings import wanted
from ansible_collections.tpu.fleet.plugins.module_utils._google.service_account_plan import altered
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.modules import project_ssh_key
from emulator import Emulator

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHfGJ5hQ9zjPzM4Z8f1oTzqkzV6Uj5s7p3Zt1eX2yW3v"
DISK = {"name": "data", "zone": Emulator.zone, "wait_sleep": 0.05}
MOSH = {"source_ranges": ["203.0.113.0/24"], "target_tags": ["mosh"]}
TPU = "tpu.googleapis.com"


def ask(cloud: Emulator, method: str, path: str, body: Any = None, ok: bool = True) -> Any:
    answer = requests.request(method, cloud.url + path, json=body, timeout=60)
    assert answer.ok is ok, answer.text
    return answer.json()


def disk_of(cloud: Emulator, name: str = "data") -> Any:
    return ask(cloud, "GET", f"compute/v1/projects/{cloud.project}/zones/{cloud.zone}/disks/{name}")


def node(cloud: Emulator, name: str, kind: str = "v4-8", owner: str = "managed") -> None:
    labels = {"tpu-fleet": owner} if owner else {}
    cloud.populate(1, prefix=name, acceleratorType=kind, labels=labels)


def disks_of(cloud: Emulator, name: str) -> list[tuple[str, str]]:
    found = Client(cloud.project, endpoint=cloud.url).nodes.get(cloud.zone, name)
    return [(d["sourceDisk"].rpartition("/")[2], d["mode"]) for d in found.data_disks]


def twice(module: Any, name: str, args: dict[str, Any]) -> Any:
    """Run in check mode, for real, and both again: only the real first changes anything."""
    foreseen = module(name, args, check=True)
    done = module(name, args)
    assert foreseen["changed"] is True, foreseen
    assert done["changed"] is True, done
    assert foreseen["diff"] == done["diff"]
    for check in (True, False):
        again = module(name, args, check=check)
        assert again["rc"] == 0, again
        assert again["changed"] is False, again
    return done


# The API ------------------------------------------------------------------------------------------


def test_the_tpu_api_is_enabled(cloud: Emulator, module: Any) -> None:
    path = f"v1/projects/{cloud.project}/services/{TPU}"
    ask(cloud, "POST", f"{path}:disable", {})
    closed = module("tpu_vm_info", {})
    assert closed["kind"] == "permission"
    assert closed["remedy"].startswith(f"Run: gcloud services enable {TPU}")
    done = twice(module, "project_service", {"wait_sleep": 0.05})
    assert done["enabled"] == [TPU]
    assert done["diff"] == {"before": {TPU: "DISABLED"}, "after": {TPU: "ENABLED"}}
    assert module("tpu_vm_info", {})["tpu_vms"] == []


def test_check_mode_enables_nothing(cloud: Emulator, module: Any) -> None:
    path = f"v1/projects/{cloud.project}/services/container.googleapis.com"
    assert module("project_service", {"names": ["container.googleapis.com"]}, check=True)["changed"]
    assert ask(cloud, "GET", path)["state"] == "DISABLED"


def test_a_project_without_billing_says_what_to_do(cloud: Emulator, module: Any) -> None:
    cloud.fault("billing_disabled", count=1)
    refused = module("project_service", {"names": ["container.googleapis.com"]})
    assert refused["flavour"] == "billing"
    assert "gcloud billing projects link local-project" in refused["msg"]


@pytest.mark.parametrize(("name", "kind"), [("tpu", "bad_request"), ("no.such.api", "permission")])
def test_a_wrong_api(module: Any, name: str, kind: str) -> None:
    refused = module("project_service", {"names": [name]})
    assert refused["kind"] == kind
    assert name in refused["msg"]


# The project's key --------------------------------------------------------------------------------


def metadata(cloud: Emulator) -> dict[str, str]:
    project = ask(cloud, "GET", f"compute/v1/projects/{cloud.project}")
    items = project["commonInstanceMetadata"].get("items", [])
    return {item["key"]: item["value"] for item in items}


def test_a_key_goes_in_and_out_and_nothing_else_changes(cloud: Emulator, module: Any) -> None:
    others = f"bob:{KEY} bob@home\n# by hand\ncarol:ssh-rsa AAAA carol"
    cloud.server.cloud.set_project_metadata({"ssh-keys": others, "note": "stays"})
    done = twice(module, "project_ssh_key", {"user": "alice", "key": f"{KEY} alice@lab"})
    assert done["users"] == ["alice", "bob", "carol"]
    assert metadata(cloud) == {"ssh-keys": f"{others}\nalice:{KEY} alice@lab", "note": "stays"}
    gone = {"user": "alice", "key": f"{KEY} another comment", "state": "absent"}
    twice(module, "project_ssh_key", gone)
    assert metadata(cloud) == {"ssh-keys": others, "note": "stays"}


def test_a_change_by_others_at_the_same_moment_is_kept(
    cloud: Emulator, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client writes between the module's second look and its own writing."""
    looks, real = [], values_of

    def look_and_be_late(metadata: Any) -> dict[str, str]:
        looks.append(metadata)
        if len(looks) == 2:
            cloud.server.cloud.set_project_metadata({"theirs": "1"})
        return real(metadata)

    monkeypatch.setattr(_compute, "values_of", look_and_be_late)
    monkeypatch.setattr(project_ssh_key, "values_of", look_and_be_late)
    assert module("project_ssh_key", {"user": "alice", "key": KEY})["changed"]
    assert len(looks) == 3
    assert metadata(cloud) == {"ssh-keys": f"alice:{KEY}", "theirs": "1"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"user": "Alice"}, "is not a user name"),
        ({"key": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "is a private key"),
        ({"key": "AAAA"}, "does not begin with a key type"),
    ],
)
def test_a_wrong_key_is_refused(
    cloud: Emulator, module: Any, wrong: dict[str, str], words: str
) -> None:
    assert words in module("project_ssh_key", {"user": "alice", "key": KEY, **wrong})["msg"]
    assert metadata(cloud) == {}


def test_oslogin_is_warned_of(cloud: Emulator, module: Any) -> None:
    cloud.server.cloud.set_project_metadata({"enable-oslogin": "TRUE"})
    assert "enable-oslogin" in module("project_ssh_key", {"user": "a", "key": KEY})["warned"]


# The firewall -------------------------------------------------------------------------------------


def rules(cloud: Emulator) -> dict[str, Any]:
    listed = ask(cloud, "GET", f"compute/v1/projects/{cloud.project}/global/firewalls")["items"]
    return {rule["name"]: rule for rule in listed}


def test_a_rule_is_made_corrected_and_deleted(cloud: Emulator, module: Any) -> None:
    twice(module, "firewall_rule", MOSH)
    rule = rules(cloud)["tpu-fleet-mosh"]
    assert rule["allowed"] == [{"IPProtocol": "udp", "ports": ["60000-61000"]}]
    assert (rule["sourceRanges"], rule["targetTags"]) == (["203.0.113.0/24"], ["mosh"])
    assert rule["description"] == "Mosh to TPU VMs [tpu-fleet: managed]"
    done = twice(module, "firewall_rule", {**MOSH, "source_ranges": ["198.51.100.7/32"]})
    assert done["diff"] == {
        "before": {"source_ranges": ["203.0.113.0/24"]},
        "after": {"source_ranges": ["198.51.100.7/32"]},
    }
    twice(module, "firewall_rule", {"state": "absent"})
    assert "tpu-fleet-mosh" not in rules(cloud)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"source_ranges": ["0.0.0.0/0"]}, "is every address"),
        ({"source_ranges": ["::/0"]}, "is every address"),
        ({"source_ranges": ["128.0.0.0/1", "0.0.0.0/1"]}, "too wide"),
        ({"source_ranges": []}, "would allow every address"),
        ({"source_ranges": ["203.0.113.7/24"]}, "Say 203.0.113.0/24, or 203.0.113.7/32."),
        ({"source_ranges": ["lab"]}, "is not a range of addresses"),
        ({"source_ranges": ["10.0.0.0/8", "2001:db8::/32"]}, "mixes IPv4 and IPv6"),
        ({"target_tags": []}, "would hold for every machine"),
        ({"target_tags": ["Mosh!"]}, "is no name for a network tag"),
        ({"ports": "22"}, "opens nothing else"),
        ({"ports": "60000-62000"}, "opens nothing else"),
        ({"name": "Mosh"}, "is no name for a rule"),
    ],
)
def test_what_would_open_too_much_is_refused(
    cloud: Emulator, module: Any, wrong: dict[str, Any], words: str
) -> None:
    before = rules(cloud)
    assert words in module("firewall_rule", {**MOSH, **wrong})["msg"]
    assert rules(cloud) == before


def test_rules_of_others_are_left_alone_and_wide_ones_named(cloud: Emulator, module: Any) -> None:
    everybody = {
        "name": "allow-all",
        "allowed": [{"IPProtocol": "all"}],
        "sourceRanges": ["0.0.0.0/0"],
    }
    ask(cloud, "POST", f"compute/v1/projects/{cloud.project}/global/firewalls", everybody)
    done = module("firewall_rule", MOSH)
    assert done["wider_rules"] == ["allow-all"]
    assert "allow-all lets 0.0.0.0/0 in" in done["warned"]
    for args in ({**MOSH, "name": "allow-all"}, {"name": "allow-all", "state": "absent"}):
        refused = module("firewall_rule", args)
        assert refused["kind"] == "refused"
        assert "adopt: true" in refused["remedy"]
    assert rules(cloud)["allow-all"]["allowed"] == [{"IPProtocol": "all"}]
    twice(module, "firewall_rule", {**MOSH, "name": "allow-all", "adopt": True})
    assert rules(cloud)["allow-all"]["sourceRanges"] == ["203.0.113.0/24"]
    other = module("firewall_rule", {**MOSH, "owner": "somebody-else"})
    assert "belongs to 'managed'" in other["msg"]


# Disks --------------------------------------------------------------------------------------------


def test_a_disk_is_made_grown_and_labelled(cloud: Emulator, module: Any) -> None:
    done = twice(module, "disk", {**DISK, "size": "20GiB", "labels": {"team": "vision"}})
    assert [step["action"] for step in done["actions"]] == ["create"]
    done = twice(module, "disk", {**DISK, "size": "30GiB", "labels": {"year": 2026}})
    assert [step["action"] for step in done["actions"]] == ["resize", "label"]
    disk = disk_of(cloud)
    assert disk["sizeGb"] == "30"
    assert disk["labels"]["team"] == "vision"
    assert (disk["labels"]["year"], disk["labels"]["tpu-fleet"]) == ("2026", "managed")
    assert disk["type"].endswith("/pd-balanced")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"size": "10GiB"}, "disks cannot shrink"),
        ({"type": "pd-ssd"}, "type is 'pd-balanced', wanted 'pd-ssd'"),
        ({"name": "other"}, "Give it, as size: 200GiB"),
        ({"name": "No"}, "is no name for a disk"),
        ({"labels": {"tpu-fleet": "x"}}, "use the option owner"),
        ({"nodes": ["a", "b"]}, "only one node may write"),
        ({"nodes": ["nowhere"]}, "There is no node nowhere in us-central2-b"),
    ],
)
def test_what_a_disk_cannot_be(
    cloud: Emulator, module: Any, wrong: dict[str, Any], words: str
) -> None:
    module("disk", {**DISK, "size": "20GiB"})
    before = disk_of(cloud)
    assert words in module("disk", {**DISK, **wrong})["msg"]
    assert disk_of(cloud) == before


def test_one_node_writes_or_many_read(cloud: Emulator, module: Any) -> None:
    node(cloud, "solo")
    node(cloud, "pair", "v4-16")
    twice(module, "disk", {**DISK, "size": "20GiB", "nodes": ["solo-0"]})
    assert disks_of(cloud, "solo-0") == [("data", "READ_WRITE")]
    assert len(disk_of(cloud)["users"]) == 1
    both = {**DISK, "nodes": ["solo-0", "pair-0"]}
    assert "only one node may write" in module("disk", both)["msg"]
    assert (
        "has 2 workers" in module("disk", {**DISK, "nodes": ["pair-0"], "exclusive": True})["msg"]
    )
    other = module("disk", {**DISK, "nodes": ["pair-0"], "read_only": True})
    assert other["kind"] == "refused"
    assert "solo-0" in other["msg"]
    done = twice(module, "disk", {**both, "read_only": True})
    assert [step["action"] for step in done["actions"]] == ["detach", "attach", "attach"]
    assert disks_of(cloud, "solo-0") == disks_of(cloud, "pair-0") == [("data", "READ_ONLY")]
    assert len(disk_of(cloud)["users"]) == 3
    done = twice(module, "disk", {**DISK, "nodes": ["solo-0"], "exclusive": True})
    assert [step["action"] for step in done["actions"]] == ["detach", "detach", "attach"]
    assert disks_of(cloud, "pair-0") == []
    # Without the option, nothing is attached or detached.
    assert not module("disk", {**DISK, "size": "20GiB"})["changed"]
    assert disks_of(cloud, "solo-0") == [("data", "READ_WRITE")]


def test_a_disk_of_one_worker_stays_with_it(cloud: Emulator, module: Any) -> None:
    node(cloud, "pair", "v4-16")
    for name in ("data", "scratch"):
        module("disk", {**DISK, "name": name, "size": "20GiB"})
    path = f"v2alpha1/projects/{cloud.project}/locations/{cloud.zone}/nodes/pair-0"
    source = f"projects/{cloud.project}/zones/{cloud.zone}/disks/scratch"
    scratch = {"sourceDisk": source, "mode": "READ_WRITE", "workerIds": ["1"]}
    ask(cloud, "PATCH", f"{path}?updateMask=data_disks", {"dataDisks": [scratch]})
    twice(module, "disk", {**DISK, "nodes": ["pair-0"], "read_only": True})
    assert scratch in ask(cloud, "GET", path)["dataDisks"]
    assert len(ask(cloud, "GET", path)["dataDisks"]) == 2


def test_nodes_of_others_get_and_lose_nothing(cloud: Emulator, module: Any) -> None:
    node(cloud, "theirs", owner="")
    module("disk", {**DISK, "size": "20GiB"})
    refused = module("disk", {**DISK, "nodes": ["theirs-0"]})
    assert refused["kind"] == "refused"
    assert disks_of(cloud, "theirs-0") == []
    twice(module, "disk", {**DISK, "nodes": ["theirs-0"], "adopt": True})
    refused = module("disk", {**DISK, "nodes": [], "exclusive": True})
    assert refused["kind"] == "refused"
    assert disks_of(cloud, "theirs-0") == [("data", "READ_WRITE")]


def test_a_disk_with_data_is_deleted_only_when_told(cloud: Emulator, module: Any) -> None:
    node(cloud, "solo")
    module("disk", {**DISK, "size": "20GiB", "nodes": ["solo-0"]})
    gone = {**DISK, "state": "absent", "delete_data": True}
    assert "is attached to solo-0" in module("disk", gone)["msg"]
    path = f"compute/v1/projects/{cloud.project}/zones/{cloud.zone}/disks/data"
    told = ask(cloud, "DELETE", path, ok=False)["error"]
    assert told["errors"][0]["reason"] == "resourceInUseByAnotherResource"
    assert "is already being used by 'projects/local-project/zones" in told["message"]
    module("disk", {**DISK, "nodes": [], "exclusive": True})
    refused = module("disk", {**DISK, "state": "absent"})
    assert refused["kind"] == "refused"
    assert "it was last attached at" in refused["msg"]
    assert "delete_data: true" in refused["remedy"]
    assert disk_of(cloud)["name"] == "data"
    twice(module, "disk", gone)


def test_an_empty_disk_of_ours_may_go(module: Any) -> None:
    module("disk", {**DISK, "size": "20GiB"})
    twice(module, "disk", {**DISK, "state": "absent"})


def test_disks_of_others(cloud: Emulator, module: Any) -> None:
    zone = f"compute/v1/projects/{cloud.project}/zones/{cloud.zone}"
    ask(cloud, "POST", f"{zone}/disks", {"name": "data", "sizeGb": "20"})
    for args in ({"size": "30GiB"}, {"state": "absent", "delete_data": True}):
        assert module("disk", {**DISK, **args})["kind"] == "refused"
    twice(module, "disk", {**DISK, "adopt": True})
    # What was not made by us may hold data, adopted or not.
    refused = module("disk", {**DISK, "state": "absent"})
    assert "it was made by others" in refused["msg"]


def test_the_service_itself_refuses_two_writers(cloud: Emulator, module: Any) -> None:
    node(cloud, "a")
    node(cloud, "b")
    module("disk", {**DISK, "size": "20GiB", "nodes": ["a-0"]})
    zone = f"v2/projects/{cloud.project}/locations/{cloud.zone}"
    source = f"projects/{cloud.project}/zones/{cloud.zone}/disks"
    for disk, words in (
        ({"sourceDisk": f"{source}/data"}, "is already being used by"),
        ({"sourceDisk": f"{source}/data", "mode": "READ_ONLY"}, "is already being used by"),
        ({"sourceDisk": f"{source}/none"}, "was not found"),
        ({"sourceDisk": source.replace(cloud.zone, "europe-west4-a") + "/d"}, "not in the zone"),
        ({"sourceDisk": "data"}, "is not of the form"),
    ):
        path = f"{zone}/nodes/b-0?updateMask=data_disks"
        assert (
            words in ask(cloud, "PATCH", path, {"dataDisks": [disk]}, ok=False)["error"]["message"]
        )
        body = {
            "acceleratorType": "v4-8",
            "runtimeVersion": "tpu-ubuntu2204-base",
            "dataDisks": [disk],
        }
        refused = ask(cloud, "POST", f"{zone}/nodes?nodeId=c", body, ok=False)
        assert words in refused["error"]["message"]


# The service account ------------------------------------------------------------------------------

MACHINES = "serviceAccount:tpu-fleet@local-project.iam.gserviceaccount.com"


def policy(cloud: Emulator) -> dict[str, Any]:
    options = {"options": {"requestedPolicyVersion": 3}}
    answer: dict[str, Any] = ask(
        cloud, "POST", f"v1/projects/{cloud.project}:getIamPolicy", options
    )
    return answer


def roles(found: dict[str, Any], member: str = MACHINES) -> list[str]:
    return sorted(item["role"] for item in found["bindings"] if member in item["members"])


@pytest.fixture
def buckets(cloud: Emulator) -> None:
    for name in ("data", "checkpoints"):
        ask(cloud, "POST", f"storage/v1/b?project={cloud.project}", {"name": f"lab-{name}"})


@pytest.mark.usefixtures("buckets")
def test_an_account_gets_the_least_and_goes_without_a_trace(cloud: Emulator, module: Any) -> None:
    before = policy(cloud)["bindings"]
    wanted = {
        "buckets": [{"name": "lab-data"}, {"name": "lab-checkpoints", "access": "write"}],
        "display_name": "Machines",
    }
    done = twice(module, "service_account", wanted)
    assert done["service_account"]["email"] == MACHINES.partition(":")[2]
    assert roles(policy(cloud)) == ["roles/logging.logWriter", "roles/monitoring.metricWriter"]
    for name, role in (("data", "objectViewer"), ("checkpoints", "objectUser")):
        found = roles(ask(cloud, "GET", f"storage/v1/b/lab-{name}/iam"))
        assert found == [f"roles/storage.{each}" for each in ("legacyBucketReader", role)]
    twice(module, "service_account", {**wanted, "display_name": "Fleet"})
    twice(module, "service_account", {**wanted, "display_name": "Fleet", "state": "absent"})
    assert policy(cloud)["bindings"] == before
    assert MACHINES not in json.dumps(ask(cloud, "GET", "storage/v1/b/lab-data/iam"))


@pytest.mark.usefixtures("buckets")
def test_bindings_of_others_and_conditions_stay(cloud: Emulator, module: Any) -> None:
    conditional = {
        "role": "roles/logging.logWriter",
        "members": ["user:a@example.com"],
        "condition": {"title": "soon over", "expression": "request.time < timestamp('2027')"},
    }
    own = {"role": "roles/logging.logWriter", "members": ["user:b@example.com"]}
    now = policy(cloud)
    changed = {**now, "version": 3, "bindings": [*now["bindings"], conditional, own]}
    ask(cloud, "POST", f"v1/projects/{cloud.project}:setIamPolicy", {"policy": changed})
    module("service_account", {})
    found = policy(cloud)["bindings"]
    assert conditional in found
    assert {**own, "members": [*own["members"], MACHINES]} in found
    assert roles(policy(cloud), "user:you@example.com") == ["roles/owner"]


def test_surplus_roles_are_named_and_taken_when_told(cloud: Emulator, module: Any) -> None:
    module("service_account", {})
    now = policy(cloud)
    now["bindings"].append({"role": "roles/editor", "members": [MACHINES]})
    ask(cloud, "POST", f"v1/projects/{cloud.project}:setIamPolicy", {"policy": now})
    seen = module("service_account", {})
    assert not seen["changed"]
    assert "also has the roles roles/editor" in seen["warned"]
    twice(module, "service_account", {"purge": True})
    assert "roles/editor" not in roles(policy(cloud))


def test_a_policy_that_others_change_meanwhile_is_kept(
    cloud: Emulator, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, real = [], altered

    def look_and_be_late(found: Any, *rest: Any) -> Any:
        looks.append(found)
        if len(looks) == 2:
            theirs = {"role": "roles/tpu.viewer", "members": ["user:them@example.com"]}
            changed = {**found, "bindings": [*found["bindings"], theirs]}
            ask(cloud, "POST", f"v1/projects/{cloud.project}:setIamPolicy", {"policy": changed})
        return real(found, *rest)

    monkeypatch.setattr(_account_apply, "altered", look_and_be_late)
    assert module("service_account", {})["changed"]
    assert len(looks) == 3
    assert roles(policy(cloud), "user:them@example.com") == ["roles/tpu.viewer"]
    assert len(roles(policy(cloud))) == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"roles": ["roles/owner"]}, "reaches everything in the project"),
        ({"roles": ["roles/editor"]}, "reaches everything in the project"),
        ({"roles": ["roles/storage.objectViewer"]}, "Name the buckets"),
        ({"roles": ["roles/iam.serviceAccountUser"]}, "rights or resources of others"),
        ({"roles": ["roles/compute.admin"]}, "rights or resources of others"),
        ({"roles": ["logWriter"]}, "is not a role"),
        ({"account_id": "a@b"}, "is no id for a service account"),
        ({"buckets": [{"name": "gs://x"}]}, "Write it without gs://"),
        ({"buckets": [{"name": "no-such-bucket"}]}, "gcloud storage buckets create"),
    ],
)
def test_what_an_account_must_not_have(
    cloud: Emulator, module: Any, wrong: dict[str, Any], words: str
) -> None:
    before = policy(cloud)
    assert words in module("service_account", wrong)["msg"]
    assert policy(cloud) == before
    assert ask(cloud, "GET", f"v1/projects/{cloud.project}/serviceAccounts") == {}


def test_accounts_of_others_are_left_alone(cloud: Emulator, module: Any) -> None:
    path = f"v1/projects/{cloud.project}/serviceAccounts"
    ask(cloud, "POST", path, {"accountId": "tpu-fleet"})
    before = policy(cloud)
    for state in ("present", "absent"):
        assert module("service_account", {"state": state})["kind"] == "refused"
    assert policy(cloud) == before
    twice(module, "service_account", {"adopt": True})


# Where they are -----------------------------------------------------------------------------------


def test_a_local_cloud_needs_no_other_setting(cloud: Emulator, module: Any) -> None:
    names = ("COMPUTE", "SERVICEUSAGE", "IAM", "CLOUDRESOURCEMANAGER", "STORAGE", "TPU")
    unset = {f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": "" for name in names}
    args = {"api_endpoint": cloud.url}
    assert module("disk", {**DISK, **args, "size": "20GiB"}, env=unset)["changed"]
    assert module("service_account", args, env=unset)["changed"]
    assert module("project_service", args, env=unset)["rc"] == 0


def test_another_place_must_be_told_for_each(module: Any) -> None:
    unset = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": ""}
    refused = module("firewall_rule", {**MOSH, "api_endpoint": "http://192.0.2.1/"}, env=unset)
    assert "compute_endpoint" in refused["remedy"]


@pytest.mark.parametrize("fault", ["bad_gateway", "drop"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_is_settled(cloud: Emulator, module: Any, fault: str, when: str) -> None:
    for name, args in (
        ("disk", {**DISK, "size": "20GiB"}),
        ("firewall_rule", MOSH),
        ("project_ssh_key", {"user": "alice", "key": KEY}),
        ("service_account", {}),
        ("bucket", BUCKET),
    ):
        cloud.fault(fault, match={"method": "POST"}, count=1, when=when)
        first, again = (module(name, args) for _ in range(2))
        assert (first.get("changed"), again.get("changed")) == (True, False), (name, first, again)


def test_a_missing_right_names_the_role(cloud: Emulator, module: Any) -> None:
    cloud.fault("iam_denied", match={"permission": "compute.disks.create"})
    refused = module("disk", {**DISK, "size": "20GiB"})
    assert refused["flavour"] == "iam"
    assert "--role=roles/compute.storageAdmin" in refused["remedy"]


# A bucket for checkpoints -------------------------------------------------------------------------


BUCKET = {"name": "lab-checkpoints", "location": "us-central2", "accounts": ["default"]}


def bucket_of(cloud: Emulator, name: str = "lab-checkpoints") -> Any:
    return ask(cloud, "GET", f"storage/v1/b/{name}")


def test_a_bucket_suits_rotating_checkpoints(cloud: Emulator, module: Any) -> None:
    done = twice(module, "bucket", BUCKET)
    assert [step["action"] for step in done["actions"]] == ["create", "grant"]
    found = bucket_of(cloud)
    assert found["location"] == "US-CENTRAL2"
    assert found["softDeletePolicy"]["retentionDurationSeconds"] == "0"
    assert found["iamConfiguration"] == {
        "uniformBucketLevelAccess": {"enabled": True},
        "publicAccessPrevention": "enforced",
    }
    assert found["labels"] == {"tpu-fleet": "managed"}
    assert found["lifecycle"] == wanted()["lifecycle"]
    own = f"serviceAccount:{found['projectNumber']}-compute@developer.gserviceaccount.com"
    given = roles(ask(cloud, "GET", "storage/v1/b/lab-checkpoints/iam"), own)
    assert given == ["roles/storage.legacyBucketReader", "roles/storage.objectUser"]
    twice(module, "bucket", {**BUCKET, "soft_delete_duration": "7d"})
    assert bucket_of(cloud)["softDeletePolicy"]["retentionDurationSeconds"] == "604800"
    twice(module, "bucket", {"name": BUCKET["name"], "state": "absent"})
    ask(cloud, "GET", "storage/v1/b/lab-checkpoints", ok=False)


@pytest.mark.usefixtures("buckets")
def test_a_bucket_of_others_in_the_project_is_used_and_corrected_when_told(
    cloud: Emulator, module: Any
) -> None:
    path = "storage/v1/b/lab-checkpoints"
    ask(cloud, "PATCH", path, {"labels": {"team": "vision"}})
    theirs = {"role": "roles/storage.admin", "members": ["user:b@example.com"]}
    now = ask(cloud, "GET", f"{path}/iam")
    ask(cloud, "PUT", f"{path}/iam", {**now, "bindings": [*now["bindings"], theirs]})
    wanted = {**BUCKET, "location": "US"}
    foreseen = module("bucket", wanted, check=True)
    assert "soft_delete is 7d, not 0s" in foreseen["warned"]
    twice(module, "bucket", wanted)
    assert bucket_of(cloud)["softDeletePolicy"]["retentionDurationSeconds"] == "604800"
    adopted = twice(module, "bucket", {**wanted, "adopt": True})
    assert adopted["diff"]["before"]["soft_delete"] == "7d"
    assert bucket_of(cloud)["labels"] == {"team": "vision", "tpu-fleet": "managed"}
    assert theirs in ask(cloud, "GET", f"{path}/iam")["bindings"]


def test_a_bucket_with_contents_is_never_deleted(cloud: Emulator, module: Any) -> None:
    module("bucket", BUCKET)
    place = "upload/storage/v1/b/lab-checkpoints/o?uploadType=media&name=100/commit_success.txt"
    ask(cloud, "POST", place, {})
    for check in (True, False):
        refused = module("bucket", {**BUCKET, "state": "absent"}, check=check)
        assert refused["kind"] == "refused"
        assert "has contents" in refused["msg"]
    assert bucket_of(cloud)


def test_a_name_of_another_project_is_refused(cloud: Emulator, module: Any) -> None:
    cloud.fault("iam_denied", match={"permission": "storage.buckets.get"})
    refused = module("bucket", BUCKET, check=True)
    assert refused["kind"] == "refused"
    assert "name = 'lab-checkpoints'" in refused["msg"]
    assert refused["remedy"] == f"Choose another name, such as {cloud.project}-lab-checkpoints."


def test_a_new_account_gets_access_once_policies_know_it(cloud: Emulator, module: Any) -> None:
    account = module("service_account", {})["service_account"]["email"]
    done = twice(module, "bucket", {**BUCKET, "accounts": [account]})
    assert list(done["bucket"]["access"]) == [account]
    absent = module("bucket", {**BUCKET, "accounts": [f"no-{account}"]}, check=True)
    assert absent["changed"]
