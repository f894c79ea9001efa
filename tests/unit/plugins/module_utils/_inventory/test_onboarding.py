"""What people get to read, and what their ssh is."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._inventory.onboarding import (
    Machine,
    guide,
    machines_of,
    ssh_files,
)


def machine(host: str, worker: int = 0, workers: int = 1, **options: str) -> Machine:
    name = host.partition("-w")[0]
    return Machine(
        host=host,
        slice=name,
        worker=worker,
        workers=workers,
        zone="us-central2-b",
        project="lab",
        kind="v4-8",
        address=f"192.0.2.{worker + 1}",
        internal=f"10.0.0.{worker + 1}",
        options={
            "HostKeyAlias": f"tpu.7.{worker}",
            "UserKnownHostsFile": "/home/owner/known_hosts/7",
            "StrictHostKeyChecking": "yes",
            **options,
        },
        keys=(f"tpu.7.{worker} ssh-ed25519 AAAA{worker}",),
    )


SOLO = machine("solo")
PAIR = [machine("pair-w0", 0, 2), machine("pair-w1", 1, 2)]


def test_people_see_their_slices_only() -> None:
    assert machines_of({"name": "a"}, [SOLO, *PAIR]) == [SOLO, *PAIR]
    assert machines_of({"name": "a", "slices": ["pair"]}, [SOLO, *PAIR]) == PAIR


def test_a_slice_is_its_first_worker() -> None:
    assert [m.names for m in (SOLO, *PAIR)] == [("solo",), ("pair-w0", "pair"), ("pair-w1",)]


def test_nothing_in_the_files_is_of_the_computer_that_wrote_them() -> None:
    files = ssh_files("alice", PAIR, "finder")
    assert "/home/owner" not in "".join(files.values())
    assert "UserKnownHostsFile ~/.ssh/tpu-fleet/known_hosts" in files["hosts"]
    assert "StrictHostKeyChecking yes" in files["hosts"]
    assert files["known_hosts"].splitlines() == [
        "tpu.7.0 ssh-ed25519 AAAA0",
        "tpu.7.1 ssh-ed25519 AAAA1",
    ]
    assert "Match originalhost pair-w0,pair,pair-w1 exec" in files["config"]
    assert files["machines"].splitlines()[1] == "pair pair 0 us-central2-b lab 10.0.0.1 tpu.7.0"


def test_a_tunnel_of_googles_needs_no_address() -> None:
    tunneled = machine("solo", ProxyCommand="gcloud alpha compute start-iap-tunnel x %p")
    files = ssh_files("alice", [tunneled], "finder")
    assert files["addresses"] == files["machines"] == ""
    assert "ProxyCommand gcloud alpha compute" in files["hosts"]


def test_who_has_no_machine_is_told_so() -> None:
    assert "no machine" in ssh_files("alice", [], "f")["config"]
    assert "no machine" in guide({"name": "alice"}, [], {})


@pytest.mark.parametrize(
    ("data", "there", "missing"),
    [
        (
            {"runs": [{"name": "digits", "user": "alice", "slices": ["pair"]}]},
            "ssh -t pair tmux attach -t digits",
            "nothing",
        ),
        ({"runs": [{"name": "digits", "user": "bob", "slices": ["pair"]}]}, "pair", "digits"),
        ({"runs": [{"name": "digits", "user": "alice", "slices": ["x"]}]}, "pair", "digits"),
        ({"venvs": [{"name": "jax", "path": "/opt/v"}]}, "source /opt/v/bin/activate", "jax2"),
        ({"venvs": [{"name": "own", "user": "bob"}]}, "pair", "/opt/venvs/own"),
        ({"shares": [{"name": "s", "path": "/data"}]}, "/data  shared", "read only"),
        (
            {"disks": [{"path": "/ssd", "slices": ["pair"], "workers": [1]}]},
            "/ssd  data disk, on pair-w1",
            "pair-w0,",
        ),
        ({"disks": [{"path": "/disk", "read_only": True}]}, "/disk  data disk, read only", "x1"),
        (
            {"notebooks": [{"name": "lab", "user": "alice", "port": 8888, "worker": 1}]},
            "ssh -N -L 8888:localhost:8888 pair-w1",
            "8888:localhost:8888 pair\n",
        ),
        ({"notebooks": [{"name": "lab", "user": "bob", "port": 8888}]}, "pair", "8888"),
        (
            {"notebooks": [{"name": "lab", "user": "alice", "port": 8888, "token": "secret"}]},
            "JUPYTER_TOKEN",
            "notebook-lab.token",
        ),
        (
            {"boards": [{"name": "b", "user": "alice", "port": 6006, "enabled": False}]},
            "pair",
            "6006",
        ),
    ],
)
def test_people_read_of_what_is_theirs(data: dict[str, Any], there: str, missing: str) -> None:
    text = guide({"name": "alice"}, PAIR, data)
    assert there in text
    assert missing not in text


@pytest.mark.parametrize(
    ("sudo", "words"),
    [("all", "everything as root"), (None, "no sudo"), (["/bin/ls /root"], "/bin/ls /root")],
)
def test_rights_are_said(sudo: Any, words: str) -> None:
    assert words in guide({"name": "alice", "sudo": sudo}, PAIR, {})


def test_people_know_which_key_opens_and_where_another_name_goes() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    text = guide({"name": "matt", "keys": [f"{key} matt@gcp", "cut"]}, [SOLO, *PAIR], {})
    assert "ssh-ed25519 SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA matt@gcp" in text
    assert "Host solo pair pair-w*\n       IdentityFile ~/.ssh/NAME-OF-YOUR-KEY" in text
    text = guide({"name": "matt", "keys": [f"{key.replace(' ', chr(9))}\tmatt@gcp "]}, [SOLO], {})
    assert "ssh-ed25519 SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA matt@gcp" in text
    text = guide({"name": "matt"}, [SOLO], {})
    assert "none yet: send the one line of your .pub file" in text
