"""Keys at GitHub: those of the slices that go are removed with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from emulator import Emulator

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
TOKEN = "ghp_full"
FLEET = "managed lab"


def test_teardown_removes_the_keys_of_its_slices(cloud: Emulator, play: Any, ground: Any) -> None:
    cloud.populate(2, prefix="ours", labels={"tpu-fleet": "managed"})
    cloud.control("github", {"accounts": [{"token": TOKEN, "login": "alice"}]})
    record = []
    for number in (0, 1):
        material = KEY[:-1] + "AQ"[number]
        title = f"tpu-fleet {FLEET}: alice@ours-{number} work"
        answer = requests.post(
            f"{cloud.url}api/v3/user/keys",
            json={"title": title, "key": material},
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=10,
        )
        answer.raise_for_status()
        one = {"id": answer.json()["id"], "title": title, "material": material}
        whose = {"name": "work", "slice_name": f"ours-{number}", "user": "alice"}
        record.append({**one, **whose, "register": "user", "repository": ""})
    state = ground.folder / "state" / "github_keys.json"
    state.parent.mkdir(exist_ok=True)
    state.write_text(json.dumps({FLEET: record}))
    fleet = {
        "fleet_slices": [
            {"name": f"ours-{number}", "accelerator_type": "v4-8", "zone": cloud.zone}
            for number in (0, 1)
        ],
        "fleet_users": [{"name": "alice", "uid": 2001}],
        "fleet_git_keys": [{"name": "work", "users": ["alice"], "register": "user"}],
        "fleet_github_name": FLEET,
        "fleet_github_api_url": f"{cloud.url}api/v3",
        "fleet_github_token": TOKEN,
    }
    told = play("ansible-playbook", "tpu.fleet.teardown", "-e", "teardown=ours-0", fleet=fleet)
    assert TOKEN not in told
    titles = [key["title"] for key in cloud.control("github", method="GET")["keys"]]
    assert titles == [f"tpu-fleet {FLEET}: alice@ours-1 work"]
    assert [key["slice_name"] for key in json.loads(state.read_text())[FLEET]] == ["ours-1"]


@pytest.mark.parametrize(
    "playbook",
    # Site, which CI has, is configure and more.
    ["site", pytest.param("configure", marks=pytest.mark.night), "teardown"],
)
def test_a_token_that_is_missing_is_told_before_anything_is_done(
    cloud: Emulator, play: Any, ground: Any, monkeypatch: pytest.MonkeyPatch, playbook: str
) -> None:
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    cloud.populate(1, prefix="ours", labels={"tpu-fleet": "managed"})
    title = f"tpu-fleet {FLEET}: alice@ours-0 work"
    whose = {"name": "work", "slice_name": "ours-0", "user": "alice"}
    recorded = {"id": 1, "title": title, "material": KEY, "register": "user", "repository": ""}
    state = ground.folder / "state" / "github_keys.json"
    state.parent.mkdir(mode=0o700)
    state.write_text(json.dumps({FLEET: [{**recorded, **whose}]}))
    ours = {"name": "ours-0", "accelerator_type": "v4-8", "zone": cloud.zone}
    fleet = {
        "fleet_slices": [ours, {**ours, "name": "new"}],
        "fleet_allocations": "unrestricted",
        "fleet_users": [{"name": "alice", "uid": 2001}],
        "fleet_github_name": FLEET,
        "fleet_github_api_url": f"{cloud.url}api/v3",
    }
    given = ("-e", "teardown=ours-0", "-e", "fleet_connection_timeout=0s")
    words = ("ansible-playbook", f"tpu.fleet.{playbook}", *given)
    told = play(*words, fleet=fleet, ok=False)
    assert f"There is no token for GitHub, and {title} is registered there" in told
    assert f"by hand and no key must be registered, delete {state}" in " ".join(told.split())
    assert "Wait for the login" not in told
    nodes = cloud.control("state", method="GET")["nodes"]
    assert [(node["node"], node["state"]) for node in nodes] == [("ours-0", "READY")]
    # A key that is declared and has never been registered wants one, too.
    state.unlink()
    declared = {"fleet_git_keys": [{"name": "work", "users": ["alice"], "register": "user"}]}
    if playbook != "teardown":
        told = play(*words, fleet={**fleet, **declared}, ok=False)
        assert "work in fleet_git_keys must be registered there (register: user)" in told
    else:
        play(*words, fleet={**fleet, **declared})
