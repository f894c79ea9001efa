"""The keys of a fleet at GitHub, against the local one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._github import client as _github
from ansible_collections.tpu.fleet.plugins.module_utils._github.client import GitHubError, check_url
from emulator import Emulator

TOKEN = "ghp_full"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
WORK = {"name": "work", "users": ["alice"], "register": "user"}
DEPLOY = {"name": "data", "users": ["alice"], "register": "deploy", "repository": "lab/private"}


def public(number: int) -> str:
    return KEY[:-4] + f"{number:04}"


def host(name: str, number: int, slice_name: str = "", **names: str) -> dict[str, Any]:
    keys = names or {"work": "alice"}
    users: dict[str, Any] = {}
    for offset, (key, user) in enumerate(keys.items()):
        users.setdefault(user, {"keys": {}})["keys"][key] = {"public": public(number + offset)}
    return {"host": name, "slice": slice_name or name.partition("-w")[0], "users": users}


class Hub:
    """The module and the local GitHub."""

    def __init__(self, cloud: Emulator, module: Any, folder: Path) -> None:
        self.cloud = cloud
        self.module = module
        self.record = folder / "state" / "github_keys.json"
        cloud.control(
            "github",
            {
                "accounts": [{"token": TOKEN, "login": "alice"}],
                "repositories": [{"name": "lab/private", "admins": ["alice"]}],
            },
        )

    def run(self, *keys: dict[str, Any], ok: bool = True, **more: Any) -> dict[str, Any]:
        env = {"GITHUB_TOKEN": more.pop("token", TOKEN)}
        check = more.pop("check", False)
        given = {"token": more.pop("given")} if "given" in more else {}
        args = {
            **given,
            "fleet": "lab",
            "keys": list(keys),
            "hosts": [host("solo", 1)],
            "slices": ["solo", "pair"],
            "record": str(self.record),
            "api_url": f"{self.cloud.url}api/v3",
            **more,
        }
        result = self.module("github_key", args, check=check, env=env)
        assert (result["rc"] == 0) is ok, result
        assert TOKEN not in json.dumps(result)
        return result

    def titles(self) -> list[str]:
        return sorted(key["title"] for key in self.cloud.control("github", method="GET")["keys"])

    def add(self, title: str, key: str) -> None:
        api = _github.GitHub(f"{self.cloud.url}api/v3", TOKEN)
        api.add("/user/keys", {"title": title, "key": key})


@pytest.fixture
def hub(cloud: Emulator, module: Any, tmp_path: Path) -> Hub:
    return Hub(cloud, module, tmp_path)


def test_what_waits_for_github_fails_nothing_where_it_may_wait(hub: Hub) -> None:
    refused = hub.run(WORK, token="", ok=False, state="ready")
    assert "There is no token for GitHub" in refused["msg"]
    for state in ("ready", "present"):
        told = hub.run(WORK, token="", state=state, later=True)
        assert "There is no token for GitHub" in told["waits"]
        assert (told["changed"], told["registered"], hub.titles()) == (False, [], [])
    # A token that is not accepted, and GitHub that is away.
    assert "GITHUB_TOKEN" in hub.run(WORK, token="ghp_old", later=True)["waits"]
    away = hub.run(WORK, api_url="http://127.0.0.1:9/api/v3", later=True)
    assert away["waits"]
    assert "waits" not in hub.run(WORK, later=True)
    assert hub.titles() == ["tpu-fleet lab: alice@solo work"]


def test_register_twice_then_take_the_slice_away(hub: Hub) -> None:
    title = "tpu-fleet lab: alice@solo work"
    dry = hub.run(WORK, check=True)
    assert (dry["changed"], dry["added"], hub.titles()) == (True, [title], [])
    assert not hub.record.exists()
    assert hub.run(WORK)["added"] == [title]
    assert oct(hub.record.stat().st_mode)[-3:] == "600"
    again = hub.run(WORK)
    assert (again["changed"], hub.titles()) == (False, [title])
    # A machine that cannot be asked now keeps its key; one whose slice goes does not.
    assert not hub.run(WORK, hosts=[])["changed"]
    assert hub.run(WORK, hosts=[], slices=["pair"])["removed"] == [title]
    assert hub.titles() == []
    assert not hub.run(WORK, hosts=[], slices=["pair"], token="")["changed"]


@pytest.mark.parametrize(
    "declared",
    [
        {key: value for key, value in WORK.items() if key != "register"},
        {**WORK, "users": ["bob"]},
        {**WORK, "name": "other"},
        {**WORK, "slices": ["pair"]},
    ],
)
def test_what_is_not_declared_any_more_goes(hub: Hub, declared: dict[str, Any]) -> None:
    hub.run(WORK)
    assert hub.run(declared, hosts=[])["removed"] == ["tpu-fleet lab: alice@solo work"]
    assert hub.titles() == []


def test_a_machine_made_anew_brings_another_key(hub: Hub) -> None:
    hub.run(WORK)
    result = hub.run(WORK, hosts=[host("solo", 7)])
    assert (len(result["removed"]), len(result["added"])) == (1, 1)
    assert len(hub.titles()) == 1


def test_one_key_for_all_is_registered_once_and_goes_with_the_last_slice(hub: Hub) -> None:
    shared = {**WORK, "source": "shared"}
    hosts = [host("solo", 1), host("pair-w0", 1), host("pair-w1", 1)]
    assert hub.run(shared, hosts=hosts)["added"] == ["tpu-fleet lab: work"]
    assert not hub.run(shared, hosts=[], slices=["pair"])["changed"]
    assert hub.run(shared, hosts=[], slices=[])["removed"] == ["tpu-fleet lab: work"]


def test_a_key_of_a_machine_is_named_after_it(hub: Hub) -> None:
    machine = {**WORK, "source": "machine", "users": ["alice", "bob"]}
    both = host("solo", 1)
    both["users"]["bob"] = both["users"]["alice"]
    assert hub.run(machine, hosts=[both])["added"] == ["tpu-fleet lab: solo work"]


def test_deploy_keys_open_one_repository_and_change_by_being_made_anew(hub: Hub) -> None:
    hosts = [host("solo", 1, data="alice")]
    hub.run(DEPLOY, hosts=hosts)
    keys = hub.cloud.control("github", method="GET")["keys"]
    assert [(key["of"], key["read_only"]) for key in keys] == [("lab/private", True)]
    result = hub.run({**DEPLOY, "read_only": False}, hosts=hosts)
    assert (len(result["removed"]), len(result["added"])) == (1, 1)
    keys = hub.cloud.control("github", method="GET")["keys"]
    assert [key["read_only"] for key in keys] == [False]


def test_keys_of_others_stay_whatever_they_are_called(hub: Hub) -> None:
    hub.add("tpu-fleet lab: alice@solo old", public(50))
    hub.add("laptop", public(1))
    # The machine's key is there already, under a title that is not ours: so it stays.
    assert not hub.run(WORK)["changed"]
    assert not hub.run(slices=[], hosts=[])["changed"]
    assert hub.titles() == ["laptop", "tpu-fleet lab: alice@solo old"]


def test_a_key_that_somebody_renamed_is_not_ours_any_more(hub: Hub) -> None:
    hub.run(WORK)
    data = json.loads(hub.record.read_text())
    number = data["lab"][0]["id"]
    hub.cloud.server.cloud.around.github_keys.get(f"{number:08}")["title"] = "mine now"  # type: ignore[index]
    assert hub.run(slices=[], hosts=[])["removed"] == []
    assert hub.titles() == ["mine now"]
    assert json.loads(hub.record.read_text()) == {"lab": []}


def test_two_fleets_share_an_account_and_a_record(hub: Hub) -> None:
    hub.run(WORK)
    hub.run(WORK, fleet="two", hosts=[host("solo", 9)])
    hub.run(slices=[], hosts=[], fleet="two")
    assert hub.titles() == ["tpu-fleet lab: alice@solo work"]


def test_more_keys_than_a_page_holds(hub: Hub) -> None:
    for number in range(100, 260):
        hub.add(f"other {number}", public(number))
    hub.run(WORK)
    assert not hub.run(WORK)["changed"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"token": ""},
            "There is no token for GitHub, and tpu-fleet lab: alice@solo work must be registered",
        ),
        (
            {"token": "ghp_x"},
            "The token in GITHUB_TOKEN: GitHub answered 401 to GET /user/keys: Bad credentials. "
            "Give a token that is valid: set GITHUB_TOKEN, or fleet_github_token",
        ),
        # What the fleet file gives comes before the environment.
        ({"given": "ghp_y"}, "The token in fleet_github_token: GitHub answered 401 to GET"),
        ({"api_url": "http://github.example/"}, "others could read it on the way"),
        ({"api_url": "ftp://x"}, "is no address"),
        ({"api_url": "http://127.0.0.1:1/"}, "does not answer: ConnectionError. Check the net"),
    ],
)
def test_what_stops_it_is_said_with_a_remedy(
    hub: Hub, changes: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_github, "TRIES", 1)
    assert says in hub.run(WORK, ok=False, **changes)["msg"]


def test_a_key_in_use_elsewhere_is_an_error_that_names_it(hub: Hub) -> None:
    hub.cloud.control("github", {"accounts": [{"token": "ghp_bob", "login": "bob"}]})
    api = _github.GitHub(f"{hub.cloud.url}api/v3", "ghp_bob")
    api.add("/user/keys", {"title": "bob's", "key": public(1)})
    says = hub.run(WORK, ok=False)["msg"]
    assert "422 to POST /user/keys: Validation Failed; key is already in use. A key opens" in says


def test_a_repository_that_is_gone_takes_its_keys_along(hub: Hub) -> None:
    hub.run(DEPLOY, hosts=[host("solo", 1, data="alice")])
    hub.cloud.server.cloud.around.github_repositories.drop("lab/private")
    assert hub.run(DEPLOY, hosts=[], slices=[])["removed"] == []
    says = hub.run(DEPLOY, hosts=[host("solo", 1, data="alice")], ok=False)["msg"]
    assert "404 to GET /repos/lab/private/keys: Not Found. Check the repository's name" in says


def test_github_that_is_busy_is_asked_again(hub: Hub) -> None:
    hub.cloud.fault("unavailable", match={"service": "github"}, count=2)
    assert hub.run(WORK)["added"]


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://api.github.com", True),
        ("https://git.lab.example/api/v3", True),
        ("http://127.0.0.1:8470/api/v3", True),
        ("http://[::1]/", True),
        ("http://10.0.0.1/", False),
        ("http://127.0.0.1.example.org/", False),
        ("https://user@host/", False),
        ("", False),
    ],
)
def test_where_the_token_may_go(url: str, fine: bool) -> None:
    if fine:
        check_url(url)
    else:
        with pytest.raises(GitHubError):
            check_url(url)
