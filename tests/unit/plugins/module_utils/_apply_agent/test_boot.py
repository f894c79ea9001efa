"""What a machine that sets itself up finds out about itself."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import boot, first

OLD = [
    {"internal_ip": "10.0.0.2", "external_ip": "34.1.1.1"},
    {"internal_ip": "10.0.0.3", "external_ip": "34.1.1.2"},
]


def test_what_was_said_of_the_earlier_machines_is_said_of_these() -> None:
    here = boot.Machine("222", "us-central2-b", 1, ["10.0.0.3", "10.0.0.20"], "34.9.9.9")
    instead = here.instead_of("111", OLD)
    given = {
        "hosts": ["10.0.0.2", "10.0.0.3"],
        "url": "http://10.0.0.2:8080/x?host=10.0.0.3",
        "others": "10.0.0.22 110.0.0.2 10.0.0.2.5 34.1.1.2",
        "uid": "111",
        "number": 111,
    }
    assert boot.rewritten(given, instead) == {
        # They changed places: nothing is rewritten twice.
        "hosts": ["10.0.0.3", "10.0.0.20"],
        "url": "http://10.0.0.3:8080/x?host=10.0.0.20",
        "others": "10.0.0.22 110.0.0.2 10.0.0.2.5 34.9.9.9",
        "uid": "222",
        "number": 111,
    }
    assert boot.rewritten(given, {}) == given


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("t1v-n-1-w-0:123:10.0.0.2", "10.0.0.2"),
        ("localhost", "127.0.0.1"),
        (" 10.0.0.2", "10.0.0.2"),
    ],
)
def test_where_workers_are(endpoint: str, found: str) -> None:
    assert boot.address(endpoint) == found


def test_what_the_machine_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "instance/attributes/tpu-env": "UID: '77'\nZONE: 'europe-west4-a'\nWORKER_ID: '1'\n",
        "instance/attributes/agent-worker-number": "1",
        "instance/attributes/worker-network-endpoints": "a:77:10.0.0.8,b:77:10.0.0.9",
        "instance/network-interfaces/0/access-configs/0/external-ip": "",
    }
    monkeypatch.setattr(first, "metadata", lambda path, _otherwise=None: told[path])
    here = boot.machine().variables()
    assert here == {
        "tpu_vm_uid": "77",
        "tpu_vm_zone": "europe-west4-a",
        "tpu_vm_worker_index": 1,
        "tpu_vm_worker_count": 2,
        "tpu_vm_internal_ip": "10.0.0.9",
        "tpu_vm_external_ip": None,
        "tpu_vm_slice_hosts": ["10.0.0.8", "10.0.0.9"],
        "tpu_vm_state": "READY",
    }


@pytest.mark.parametrize(
    ("group", "uid"), [("", "77"), ("projects/1/zones/z/instanceGroupManagers/g", "111")]
)
def test_what_a_machine_of_compute_engine_says_of_itself(
    group: str, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "instance/attributes/tpu-env": "TPU_WORKER_ID: '0'\nZONE: 'us-east5-a'\nNODE_ID: '0'\n",
        "instance/attributes/agent-worker-number": "0",
        "instance/attributes/worker-network-endpoints": "localhost",
        "instance/attributes/created-by": group,
        "instance/id": "77",
        "instance/network-interfaces/0/access-configs/0/external-ip": "34.9.9.9",
    }
    monkeypatch.setattr(first, "metadata", lambda path, _otherwise=None: told[path])
    here = boot.machine()
    given = {"tpu_vm_uid": "111", "tpu_vm_zone": "us-central1-b"} | here.variables()
    assert (given["tpu_vm_uid"], given["tpu_vm_zone"]) == (uid, "us-east5-a")
    assert given["tpu_vm_slice_hosts"] == ["127.0.0.1"]
    instead = here.instead_of("111", OLD[:1])
    assert instead["10.0.0.2"] == "127.0.0.1"
    assert instead.get("111", uid) == uid
