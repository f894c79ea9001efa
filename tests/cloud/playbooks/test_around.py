"""The playbooks around the slices: foreseen, done, and nothing left to do."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from emulator import Emulator

Play = Callable[..., str]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHfGJ5hQ9zjPzM4Z8f1oTzqkzV6Uj5s7p3Zt1eX2yW3v"
SOLO = {"name": "solo-0", "accelerator_type": "v4-8", "zone": Emulator.zone, "tags": ["mosh"]}
LATER = {"name": "later", "accelerator_type": "v4-8", "zone": Emulator.zone}
# What becomes root there forgets from where we come, as sudo does.
LEADER = """
all:
  hosts:
    here:
      ansible_connection: local
      ansible_become: true
      ansible_become_exe: env -u SSH_CONNECTION
      ansible_become_flags: ""
  children: {tpu_leaders: {hosts: {here: {}}}}
"""
FLEET: dict[str, Any] = {
    "fleet_allocations": "unrestricted",
    "fleet_slices": [SOLO, LATER],
    "fleet_services": ["container.googleapis.com"],
    "fleet_project_keys": [{"user": "alice", "key": f"{KEY} alice"}],
    "fleet_mosh": {"source_ranges": ["203.0.113.0/24"], "target_tags": ["mosh"]},
    "fleet_disks": [
        # It is in the zone of its slices.
        {"name": "checkpoints", "size": "20GiB", "slices": ["solo-0", "later"], "read_only": True},
        {"name": "spare", "size": "10GiB", "zone": Emulator.zone},
    ],
    "fleet_service_account": {"buckets": [{"name": "lab-data", "access": "write"}]},
    "fleet_checkpoint_buckets": [{"name": "lab-checkpoints"}],
}

WRITES = {"roles/storage.legacyBucketReader", "roles/storage.objectUser"}


def changes(out: str) -> int:
    return sum(int(number) for number in re.findall(r"changed=(\d+)", out))


def get(cloud: Emulator, path: str) -> Any:
    answer = requests.get(cloud.url + path, timeout=60)
    answer.raise_for_status()
    return answer.json()


def access(cloud: Emulator, bucket: str) -> dict[str, set[str]]:
    """Return the roles of each who has some, but for those of the project's roles."""
    found: dict[str, set[str]] = {}
    for binding in get(cloud, f"storage/v1/b/{bucket}/iam")["bindings"]:
        for member in binding["members"]:
            if not member.startswith("project"):
                found.setdefault(member, set()).add(binding["role"])
    return found


@pytest.fixture
def prepared(cloud: Emulator, tmp_path: Path) -> Emulator:
    """A project with a slice and a bucket, and a controller that has its key."""
    (tmp_path / "state").mkdir(mode=0o700)
    key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "state" / "key")]
    subprocess.run(key, check=True)
    cloud.populate(1, prefix="solo", labels={"tpu-fleet": "managed"})
    path = f"storage/v1/b?project={cloud.project}"
    requests.post(cloud.url + path, json={"name": "lab-data"}, timeout=60).raise_for_status()
    return cloud


@pytest.fixture
def new(prepared: Emulator) -> Emulator:
    """The same with the TPU API off."""
    path = f"v1/projects/{prepared.project}/services/tpu.googleapis.com:disable"
    requests.post(prepared.url + path, json={}, timeout=60).raise_for_status()
    return prepared


def test_without_the_api_the_plan_says_what_is_missing_and_nothing_else(
    new: Emulator, play: Play
) -> None:
    fleet = {key: FLEET[key] for key in ("fleet_slices", "fleet_allocations")}
    words = ("ansible-playbook", "tpu.fleet.site", "--check")
    out = play(*words, fleet=fleet, ok=False)
    assert "gcloud services enable tpu.googleapis.com" in " ".join(out.split())
    assert not re.search("Invalid host pattern|plugin", out)


# Each of five plays starts a module for each entry. In CI tests/cloud/modules/test_around.py has
# the modules, in check mode, for real and again, and the tests beside this one have the plays.
@pytest.mark.night
def test_all_is_foreseen_done_and_then_done(new: Emulator, play: Play) -> None:
    for part, count in (("enable_api", 1), ("project", 5)):
        words = ("ansible-playbook", f"tpu.fleet.{part}")
        assert changes(play(*words, "--check", "--diff", fleet=FLEET)) == count
        assert changes(play(*words, "--diff", fleet=FLEET)) == count, part
    out = play("ansible-playbook", "tpu.fleet.project", "--check", fleet=FLEET)
    assert changes(out) == 0
    assert "site.yml attaches the disks of later" in out
    compute = f"compute/v1/projects/{new.project}"
    disk = get(new, f"{compute}/zones/{new.zone}/disks/checkpoints")
    assert len(disk["users"]) == 1
    assert "tpu-fleet-mosh" in str(get(new, f"{compute}/global/firewalls"))
    assert get(new, "storage/v1/b/lab-checkpoints")["location"] == "US-CENTRAL2"


def test_a_fleet_file_without_any_of_it_changes_nothing(prepared: Emulator, play: Play) -> None:
    fleet = {key: FLEET[key] for key in ("fleet_slices", "fleet_allocations")}
    assert changes(play("ansible-playbook", "tpu.fleet.project", fleet=fleet)) == 0


def test_a_warning_and_all_errors_are_told(prepared: Emulator, play: Play) -> None:
    """By the one action that runs the module for each entry."""
    prepared.server.cloud.set_project_metadata({"enable-oslogin": "TRUE"})
    out = play("ansible-playbook", "tpu.fleet.project_key", "--diff", fleet=FLEET)
    assert "take no keys from metadata" in " ".join(out.split())
    assert f"+alice:{KEY}" in out
    prepared.fault("iam_denied", match={"permission": "compute.disks.create"})
    out = play("ansible-playbook", "tpu.fleet.disks", fleet=FLEET, ok=False)
    assert out.count("compute.disks.create") >= len(FLEET["fleet_disks"])


def test_the_buckets_for_checkpoints_and_queue_are_made_and_then_as_declared(
    prepared: Emulator, play: Play
) -> None:
    words = ("ansible-playbook", "tpu.fleet.buckets")
    people = {"writers": ["user:alice@lab.example"], "readers": ["group:lab@lab.example"]}
    fleet: dict[str, Any] = {key: FLEET[key] for key in ("fleet_slices", "fleet_allocations")}
    fleet["fleet_checkpoint_buckets"] = FLEET["fleet_checkpoint_buckets"]
    fleet["fleet_queue"] = {"bucket": "gs://lab-queue/queue", **people}
    out = play(*words, "--check", "--diff", fleet=fleet)
    assert changes(out) == 1
    assert re.search(r"\+.*US-CENTRAL2", out)
    assert re.search(r"\+.*user:alice@lab.example", out)
    assert changes(play(*words, fleet=fleet)) == 1
    for name in ("lab-checkpoints", "lab-queue"):
        assert get(prepared, f"storage/v1/b/{name}")["location"] == "US-CENTRAL2"
    assert access(prepared, "lab-queue") == {
        "serviceAccount:123456789012-compute@developer.gserviceaccount.com": WRITES,
        "user:alice@lab.example": WRITES,
        "group:lab@lab.example": {"roles/storage.legacyBucketReader", "roles/storage.objectViewer"},
    }
    assert changes(play(*words, fleet=fleet)) == 0


def test_mosh_from_nowhere_known_is_refused(
    prepared: Emulator, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_SSH_RETRIES", "0")
    monkeypatch.setenv("ANSIBLE_TIMEOUT", "1")
    fleet = {**FLEET, "fleet_mosh": {"target_tags": ["mosh"]}}
    out = play("ansible-playbook", "tpu.fleet.firewall", fleet=fleet, ok=False)
    assert "source_ranges: [203.0.113.7/32]" in " ".join(out.split())
    assert "tpu-fleet-mosh" not in str(
        get(prepared, f"compute/v1/projects/{prepared.project}/global/firewalls")
    )


@pytest.mark.parametrize(
    ("connection", "seen"),
    [
        ("203.0.113.7 50000 10.128.0.2 22", "203.0.113.7/32"),
        # In CI tests/unit/plugins/module_utils/_compute/test_firewall_plan.py has such ranges.
        pytest.param(
            "2001:db8::7 50000 2001:db8::2 22", "2001:db8::7/128", marks=pytest.mark.night
        ),
    ],
)
def test_mosh_from_where_the_slices_see_us(
    cloud: Emulator, play: Play, monkeypatch: pytest.MonkeyPatch, connection: str, seen: str
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", connection)
    # We are root already, and become it nevertheless.
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")
    fleet = {"fleet_mosh": {"target_tags": ["mosh"]}, "fleet_allocations": "unrestricted"}
    play("ansible-playbook", "tpu.fleet.firewall", fleet=fleet, hosts=LEADER)
    rule = get(cloud, f"compute/v1/projects/{cloud.project}/global/firewalls/tpu-fleet-mosh")
    assert rule["sourceRanges"] == [seen]


def test_site_makes_the_rule(cloud: Emulator, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "203.0.113.7 50000 10.128.0.2 22")
    fleet = {"fleet_mosh": {"target_tags": ["mosh"]}, "fleet_allocations": "unrestricted"}
    firewalls = f"compute/v1/projects/{cloud.project}/global/firewalls"
    play("ansible-playbook", "tpu.fleet.site", fleet=fleet, hosts=LEADER)
    assert get(cloud, f"{firewalls}/tpu-fleet-mosh")["sourceRanges"] == ["203.0.113.7/32"]


# In CI tests/cloud/modules/test_around.py has the rule in check mode.
@pytest.mark.night
def test_site_foresees_the_rule(
    cloud: Emulator, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "203.0.113.7 50000 10.128.0.2 22")
    fleet = {"fleet_mosh": {"target_tags": ["mosh"]}, "fleet_allocations": "unrestricted"}
    # Before the first slice nobody can say from where we come; that is no mistake.
    play("ansible-playbook", "tpu.fleet.site", "--check", fleet=fleet)
    play("ansible-playbook", "tpu.fleet.site", "--check", fleet=fleet, hosts=LEADER)
    firewalls = f"compute/v1/projects/{cloud.project}/global/firewalls"
    assert "tpu-fleet-mosh" not in str(get(cloud, firewalls))


def test_all_mistakes_are_told_before_anything_is_changed(new: Emulator, play: Play) -> None:
    wrong = {
        "fleet_mosh": {"source_ranges": ["0.0.0.0/0"], "target_tags": ["mosh"]},
        "fleet_service_account": {"roles": ["roles/editor"]},
        "fleet_disks": [{"name": "d", "slices": ["sloo-0"], "size": 3}],
    }
    out = play("ansible-playbook", "tpu.fleet.enable_api", fleet={**FLEET, **wrong}, ok=False)
    for words in (
        "0.0.0.0/0 is every address",
        "roles/editor reaches everything",
        "fleet_disks[0].size",
    ):
        assert words in " ".join(out.split()), out
    assert get(new, f"v1/projects/{new.project}/services/tpu.googleapis.com")["state"] == "DISABLED"
