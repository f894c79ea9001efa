"""Slices that are preempted, created again and deleted."""

from __future__ import annotations

import json

from fleet import Fleet


def test_inventory_names_the_unusable_with_the_reason(fleet: Fleet) -> None:
    fleet.run("tpu-fleet", "cloud", "preempt", "solo")
    listed = json.loads(fleet.run("ansible-inventory", "--list"))
    assert listed["tpu_unavailable"]["hosts"] == ["solo"]
    assert set(listed["tpu"]["hosts"]) == {"pair-w0", "pair-w1"}
    assert "preempted" in str(listed["_meta"]["hostvars"]["solo"]["tpu_vm_unavailable_reason"])
    kept = [
        {"name": name, "accelerator_type": kind, "zone": "us-central2-b", "on_preempt": "keep"}
        for name, kind in (("solo", "v4-8"), ("pair", "v4-16"))
    ]
    said = json.dumps({"fleet_slices": kept})
    refused = fleet.play("tpu.fleet.provision", "-e", said, ok=False)
    assert "PREEMPTED" in refused
    assert "on_preempt: recreate" in refused


def test_a_preempted_slice_is_made_again_unless_its_owner_keeps_it(fleet: Fleet) -> None:
    before = fleet.cloud()
    assert before["solo"]["state"] == "PREEMPTED"
    fleet.play("tpu.fleet.provision")
    after = fleet.cloud()
    assert after["solo"]["state"] == "READY"
    assert after["solo"]["uid"] != before["solo"]["uid"]
    assert after["pair"]["uid"] == before["pair"]["uid"]
    assert fleet.ssh("solo", "hostname").strip() == after["solo"]["workers"][0]["machine"]


def test_teardown_deletes_what_is_named_and_nothing_else(fleet: Fleet) -> None:
    refused = fleet.play("tpu.fleet.teardown", ok=False)
    assert "solo, pair" in refused
    assert set(fleet.cloud()) == {"solo", "pair"}
    fleet.play("tpu.fleet.teardown", "-e", "teardown=solo")
    assert set(fleet.cloud()) == {"pair"}
