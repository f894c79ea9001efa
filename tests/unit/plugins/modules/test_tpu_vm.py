"""The modules against a zone that is a dictionary."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

pytest.importorskip("requests")

from ansible.module_utils.testing import patch_module_args
from ansible_collections.tpu.fleet.plugins.module_utils._tpu import connection
from ansible_collections.tpu.fleet.plugins.module_utils._wire import auth as _auth
from ansible_collections.tpu.fleet.plugins.modules import tpu_vm, tpu_vm_info, tpu_vm_maintenance
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    Answer,
    FakeSession,
    error,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.modules.fake_zone import FakeZone

ZONE = "us-central2-b"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> FakeZone:
    """Let every client speak with a fake zone."""
    fake = FakeZone()
    monkeypatch.setattr(connection, "session_for", lambda *_args: FakeSession(answer=fake))
    for name in ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "CLOUDSDK_AUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return fake


class Runner:
    """Runs a module as Ansible does."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, module: Any, check: bool = False, **args: Any) -> dict[str, Any]:
        given = {"api_endpoint": "http://127.0.0.1:1", "project": "p", **args}
        given["_ansible_check_mode"] = check
        with patch_module_args(given), pytest.raises(SystemExit):
            module.main()
        return dict(json.loads(self.capsys.readouterr().out))

    def vm(self, check: bool = False, **args: Any) -> dict[str, Any]:
        base = {"name": "n", "zone": ZONE, "accelerator_type": "v4-8", "wait_sleep": 0.05}
        return self(tpu_vm, check, **{**base, **args})


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], zone: FakeZone) -> Runner:
    return Runner(capsys)


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"labels": {"team": "x"}}, "create"),
    ({"labels": {"team": "y"}, "description": "d", "tags": ["t"]}, "patch"),
    ({"state": "stopped"}, "stop"),
    ({"state": "started"}, "start"),
    ({"state": "absent"}, "delete"),
]


def test_each_change_in_check_mode_for_real_and_again(run: Runner, zone: FakeZone) -> None:
    for args, action in CHANGES:
        before = json.dumps(zone.nodes)
        dry = run.vm(check=True, **args)
        assert json.dumps(zone.nodes) == before
        real = run.vm(**args)
        assert json.dumps(zone.nodes) != before
        for result in (dry, real):
            assert result["changed"], args
            assert [item["action"] for item in result["actions"]] == [action]
            assert result["diff"]["before"] != result["diff"]["after"]
        after = json.dumps(zone.nodes)
        for check in (True, False):
            again = run.vm(check=check, **args)
            assert not again["changed"], args
            assert again["diff"]["before"] == again["diff"]["after"]
        assert json.dumps(zone.nodes) == after


def test_new_node_is_marked_as_ours(run: Runner, zone: FakeZone) -> None:
    run.vm(owner="alice")
    assert zone.nodes["n"]["labels"]["tpu-fleet"] == "alice"
    assert zone.nodes["n"]["metadata"] == {"enable-guest-attributes": "TRUE"}


def test_what_others_put_there_stays(run: Runner, zone: FakeZone) -> None:
    run.vm(metadata={"a": "1"}, ssh_keys=["ubuntu:ssh-rsa AAAA"])
    zone.nodes["n"]["metadata"]["ssh-keys"] += "\neve:ssh-rsa BBBB"
    zone.nodes["n"]["metadata"]["theirs"] = "2"
    run.vm(metadata={"a": "3"}, ssh_keys=["ubuntu:ssh-rsa CCCC"])
    assert zone.nodes["n"]["metadata"] == {
        "enable-guest-attributes": "TRUE",
        "a": "3",
        "theirs": "2",
        "ssh-keys": "ubuntu:ssh-rsa AAAA\neve:ssh-rsa BBBB\nubuntu:ssh-rsa CCCC",
    }


def test_nodes_of_others_are_left_alone(run: Runner, zone: FakeZone) -> None:
    run.vm()
    zone.nodes["n"]["labels"] = {"mine": "1"}
    zone.changes.clear()
    for args in ({}, {"state": "absent"}, {"state": "stopped"}, {"labels": {"a": "b"}}):
        for check in (True, False):
            result = run.vm(check=check, **args)
            assert result["kind"] == "refused", result
            assert "adopt: true" in result["remedy"]
    assert zone.changes == []
    assert run.vm(adopt=True)["changed"]
    assert zone.nodes["n"]["labels"]["tpu-fleet"] == "managed"
    assert not run.vm()["changed"]


def test_fixed_field_is_never_changed(run: Runner, zone: FakeZone) -> None:
    run.vm()
    result = run.vm(accelerator_type="v4-16", recreate=True)
    assert "accelerator_type is 'v4-8', wanted 'v4-16'" in result["msg"]
    assert zone.nodes["n"]["id"] == "1"


def test_lost_node_is_made_again_when_asked(run: Runner, zone: FakeZone) -> None:
    run.vm(tier="spot")
    zone.nodes["n"]["state"] = "PREEMPTED"
    assert "recreate: true" in run.vm(tier="spot")["msg"]
    result = run.vm(tier="spot", recreate=True)
    assert [item["action"] for item in result["actions"]] == ["delete", "create"]
    assert zone.nodes["n"]["id"] == "2"


def test_created_a_moment_ago_and_not_visible_yet(run: Runner, zone: FakeZone) -> None:
    run.vm()
    zone.faults = [error(404, "NOT_FOUND")]
    result = run.vm(wait=False)
    assert not result["changed"]
    assert result["tpu_vm"]["uid"] == "1"


def test_somebody_deletes_it_first(run: Runner, zone: FakeZone) -> None:
    run.vm()
    node = zone.nodes.pop("n")
    zone.faults = [Answer(200, node)]
    assert not run.vm(state="absent")["changed"]


def test_check_mode_says_what_a_creation_would_fail_with(run: Runner) -> None:
    result = run.vm(check=True, accelerator_type="v9-8")
    assert result["failed"]
    assert "does not offer the accelerator type v9-8" in result["msg"]


def test_check_mode_shows_the_node_to_be(run: Runner) -> None:
    facts = run.vm(check=True, accelerator_type="v4-16", tier="spot")["tpu_vm"]
    assert (facts["state"], facts["tier"], facts["worker_count"]) == ("CREATING", "spot", 2)
    assert [worker["host"] for worker in facts["workers"]] == ["n-w0", "n-w1"]


def test_failure_carries_its_parts(run: Runner, zone: FakeZone) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}]
    zone.faults = [error(403, "PERMISSION_DENIED", "off [EID: 0x1]", *details)]
    result = run.vm()
    assert result["failed"]
    assert result["msg"] == "off. Run: gcloud services enable tpu.googleapis.com --project=p"
    parts = ("kind", "flavour", "http_status", "reason", "eid", "details")
    assert [result[part] for part in parts] == [
        "permission",
        "api_disabled",
        403,
        "SERVICE_DISABLED",
        "0x1",
        details,
    ]


def test_project_is_needed(run: Runner) -> None:
    assert "GOOGLE_CLOUD_PROJECT" in run.vm(project=None)["msg"]


def test_missing_library_is_named(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_auth, "HAS_REQUESTS", False)
    assert "requests" in run.vm()["msg"]


def test_google_auth_is_needed_for_google_only(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_auth, "HAS_GOOGLE_AUTH", False)
    google = {"api_endpoint": "https://tpu.googleapis.com"}
    assert "google-auth" in run.vm(**google)["msg"]
    assert run.vm(**google, access_token="t")["changed"]


def test_info_lists_and_filters(run: Runner, zone: FakeZone) -> None:
    for name, team in (("w10", "a"), ("w9", "a"), ("x", "b")):
        run.vm(name=name, labels={"team": team})
    zone.nodes["x"]["state"] = "PREEMPTED"
    zone.unreachable = ["projects/123/locations/us-east5-a"]

    def names(**args: Any) -> list[str]:
        return [item["name"] for item in run(tpu_vm_info, **args)["tpu_vms"]]

    assert names() == ["w9", "w10", "x"]
    assert names(name="x") == ["x"]
    assert names(name="x", zone=ZONE) == ["x"]
    assert names(name="gone", zone=ZONE) == []
    assert names(states=["PREEMPTED"]) == ["x"]
    assert names(labels={"team": "a"}) == ["w9", "w10"]


def test_info_says_what_is_unknown(
    run: Runner, zone: FakeZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the controller's code is loaded too, Ansible shows warnings instead of returning them.
    warned: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _self, text: warned.append(text))
    zone.unreachable = ["projects/123/locations/us-east5-a"]
    result = run(tpu_vm_info)
    assert result["unreachable_zones"] == ["us-east5-a"]
    assert "us-east5-a" in warned[0]


def test_a_maintenance_is_asked_for_each_time(run: Runner, zone: FakeZone) -> None:
    run.vm()
    zone.changes.clear()
    asked = {"name": "n", "zone": ZONE, "worker": 3}
    assert run(tpu_vm_maintenance, check=True, **asked)["changed"]
    assert zone.changes == []
    for _time in range(2):
        assert run(tpu_vm_maintenance, **asked)["changed"]
    assert zone.changes == ["POST", ["3"], "POST", ["3"]]
    assert run(tpu_vm_maintenance, check=True, name="x", zone=ZONE)["failed"]
