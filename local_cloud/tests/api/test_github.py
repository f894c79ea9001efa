"""The local GitHub: keys of users and repositories, and its refusals word for word."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from emulator import Emulator

DOCS = "https://docs.github.com/rest"
USER_KEYS = f"{DOCS}/users/keys#list-public-ssh-keys-for-the-authenticated-user"
CREATE_KEY = f"{DOCS}/users/keys#create-a-public-ssh-key-for-the-authenticated-user"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
KEYS = [KEY[:-4] + f"{number:04}" for number in range(64)]


@pytest.fixture(autouse=True)
def furnished(cloud: Emulator) -> None:
    cloud.control(
        "github",
        {
            "accounts": [
                {"token": "ghp_full", "login": "alice"},
                {"token": "ghp_narrow", "login": "alice", "scopes": ["read:public_key"]},
                {"token": "ghp_bob", "login": "bob"},
                {
                    "token": "github_pat_none",
                    "login": "alice",
                    "permissions": {"git_ssh_keys": "read"},
                },
            ],
            "repositories": [{"name": "Lab/Private", "admins": ["alice"], "readers": ["bob"]}],
        },
    )


def ask(
    cloud: Emulator, method: str, path: str, who: str = "ghp_full", **more: Any
) -> requests.Response:
    headers = {"Authorization": f"Bearer {who}"} if who else {}
    url = path if path.startswith("http") else f"{cloud.url}api/v3{path}"
    return requests.request(method, url, headers=headers, timeout=10, **more)


def test_a_key_of_a_user_lives_and_goes(cloud: Emulator) -> None:
    made = ask(cloud, "POST", "/user/keys", json={"title": "t", "key": f"{KEY} alice@pair-w0"})
    assert made.status_code == 201
    key = made.json()
    # GitHub drops comments.
    assert (key["key"], key["title"], key["read_only"]) == (KEY, "t", False)
    assert "added_by" not in key
    assert ask(cloud, "GET", "/user/keys").json() == [key]
    assert ask(cloud, "GET", f"/user/keys/{key['id']}").json() == key
    assert ask(cloud, "GET", "/user/keys", who="ghp_bob").json() == []
    gone = ask(cloud, "DELETE", f"/user/keys/{key['id']}")
    assert (gone.status_code, gone.content) == (204, b"")
    assert ask(cloud, "DELETE", f"/user/keys/{key['id']}").status_code == 404


def test_a_deploy_key_is_of_one_repository(cloud: Emulator) -> None:
    path = "/repos/lab/private/keys"
    made = ask(cloud, "POST", path, json={"title": "t", "key": KEY, "read_only": True})
    assert made.status_code == 201
    assert made.json()["read_only"] is True
    assert made.json()["added_by"] == "alice"
    again = ask(cloud, "POST", "/user/keys", json={"title": "t", "key": KEY})
    assert again.status_code == 422
    assert again.json() == {
        "message": "Validation Failed",
        "errors": [
            {
                "resource": "PublicKey",
                "code": "custom",
                "field": "key",
                "message": "key is already in use",
            }
        ],
        "documentation_url": CREATE_KEY,
        "status": "422",
    }


@pytest.mark.parametrize(
    ("method", "path", "token", "body", "status", "message", "page"),
    [
        ("GET", "/user/keys", "", None, 401, "Requires authentication", USER_KEYS),
        ("GET", "/user/keys", "ghp_wrong", None, 401, "Bad credentials", DOCS),
        # A classic token without the scope is told that there is nothing.
        ("POST", "/user/keys", "ghp_narrow", {"key": KEY}, 404, "Not Found", CREATE_KEY),
        (
            "POST",
            "/user/keys",
            "github_pat_none",
            {"key": KEY},
            403,
            "Resource not accessible by personal access token",
            CREATE_KEY,
        ),
        (
            "GET",
            "/repos/lab/private/keys",
            "ghp_bob",
            None,
            404,
            "Not Found",
            f"{DOCS}/deploy-keys/deploy-keys#list-deploy-keys",
        ),
        (
            "POST",
            "/repos/lab/none/keys",
            "ghp_full",
            {"key": KEY},
            404,
            "Not Found",
            f"{DOCS}/deploy-keys/deploy-keys#create-a-deploy-key",
        ),
        ("POST", "/user/keys", "ghp_full", {"title": "t"}, 422, "Validation Failed", CREATE_KEY),
        ("POST", "/user/keys", "ghp_full", {"key": "AAAA"}, 422, "Validation Failed", CREATE_KEY),
        ("GET", "/user/emails", "ghp_full", None, 404, "Not Found", DOCS),
    ],
)
def test_refusals(
    cloud: Emulator,
    method: str,
    path: str,
    token: str,
    body: dict[str, Any] | None,
    status: int,
    message: str,
    page: str,
) -> None:
    answer = ask(cloud, method, path, token, json=body)
    said = answer.json()
    assert (answer.status_code, said["message"]) == (status, message)
    assert (said["status"], said["documentation_url"]) == (str(status), page)


def test_what_is_no_key_is_told_as_github_does(cloud: Emulator) -> None:
    said = ask(cloud, "POST", "/user/keys", json={"key": "ssh-ed25519 AAAA"}).json()
    text = "key is invalid. You must supply a key in OpenSSH public key format"
    assert said["errors"][0]["message"] == text


def test_lists_come_in_pages(cloud: Emulator) -> None:
    for number, key in enumerate(KEYS):
        ask(cloud, "POST", "/user/keys", json={"title": str(number), "key": key})
    first = ask(cloud, "GET", "/user/keys")
    assert len(first.json()) == 30
    assert set(first.links) == {"next", "last"}
    titles, url = [], f"{cloud.url}api/v3/user/keys?per_page=25"
    while url:
        page = ask(cloud, "GET", url)
        titles += [key["title"] for key in page.json()]
        url = page.links.get("next", {}).get("url", "")
    assert titles == [str(number) for number in range(64)]
    assert len(ask(cloud, "GET", "/user/keys?per_page=1000").json()) == 64


def test_what_is_there_outlives_the_server_but_no_token_does(tmp_path: Any) -> None:
    with Emulator(state_dir=str(tmp_path)) as cloud:
        cloud.control("github", {"accounts": [{"token": "ghp_secret", "login": "alice"}]})
        ask(cloud, "POST", "/user/keys", "ghp_secret", json={"title": "t", "key": KEY})
        cloud.stop()
        cloud.start()
        keys = cloud.control("github", method="GET")["keys"]
        assert [key["title"] for key in keys] == ["t"]
        assert ask(cloud, "GET", "/user/keys", "ghp_secret").status_code == 200
    assert not [p for p in tmp_path.iterdir() if p.is_file() and b"ghp_secret" in p.read_bytes()]


def test_faults_strike_when_they_name_github(cloud: Emulator) -> None:
    cloud.fault("rate_limit", count=1)
    assert ask(cloud, "GET", "/user/keys").status_code == 200
    cloud.fault("rate_limit", match={"service": "github"}, count=1)
    limited = ask(cloud, "GET", "/user/keys")
    assert limited.status_code == 403
    assert limited.json()["message"] == "API rate limit exceeded for user ID 1."
    assert limited.headers["X-RateLimit-Remaining"] == "0"
    cloud.fault("unavailable", match={"service": "github"}, count=1)
    assert ask(cloud, "GET", "/user/keys").status_code == 503
