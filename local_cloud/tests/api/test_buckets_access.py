"""What machines may do with buckets, by their service account, its roles and its scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clouds import a_cloud
from starlette.testclient import TestClient

from tpu_local_cloud.serve.frontend import FrontEnd
from tpu_local_cloud.serve.storage import StorageApp, of_machines, of_owner
from tpu_local_cloud.storage_api.access import OWNER, Caller

DEFAULT = "123456789012-compute@developer.gserviceaccount.com"
TRAINER = "trainer@elsewhere.example"
CLOUD = "https://www.googleapis.com/auth/cloud-platform"
READ_ONLY = "https://www.googleapis.com/auth/devstorage.read_only"
READ_WRITE = "https://www.googleapis.com/auth/devstorage.read_write"
UPLOAD, OBJECTS = "/upload/storage/v1/b/lab/o?uploadType=media&name=", "/storage/v1/b/lab/o"

Ask = Callable[..., int]


class World:
    """A bucket with an object, and accounts that have tokens."""

    def __init__(self) -> None:
        self.cloud = a_cloud()
        front = FrontEnd(self.cloud)
        self.scopes = (CLOUD,)
        self.owner = TestClient(StorageApp(front, of_owner(self.known)))
        self.machine = TestClient(StorageApp(front, of_machines(self.known)))
        self.owner.post("/storage/v1/b", json={"name": "lab"})
        self.owner.post(f"{UPLOAD}there", content=b"content")

    def known(self, token: str) -> Caller | None:
        """Return the account whose address is the token."""
        return Caller("account", token, self.scopes) if "@" in token else None

    def grant(self, *roles: str, member: str = f"serviceAccount:{TRAINER}") -> None:
        """Give the bucket a policy."""
        bindings = [{"role": f"roles/storage.{role}", "members": [member]} for role in roles]
        answer = self.owner.put("/storage/v1/b/lab/iam", json={"bindings": bindings})
        assert answer.status_code == 200

    def ask(self, token: str, method: str, path: str, **more: Any) -> Any:
        """Send a request from a machine."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.machine.request(method, path, headers=headers, **more)

    def may(self, token: str = TRAINER) -> set[str]:
        """Return what works, each tried once."""
        tried = {
            "get": ("GET", f"{OBJECTS}/there?alt=media"),
            "list": ("GET", OBJECTS),
            "create": ("POST", f"{UPLOAD}new-{len(self.owner.get(OBJECTS).text)}"),
            "replace": ("POST", f"{UPLOAD}there"),
            "update": ("PATCH", f"{OBJECTS}/there"),
            "bucket": ("GET", "/storage/v1/b/lab"),
            "bucket-update": ("PATCH", "/storage/v1/b/lab"),
            "policy": ("GET", "/storage/v1/b/lab/iam"),
        }
        answers = {
            word: self.ask(token, *request, **({} if request[0] == "GET" else {"content": b""}))
            for word, request in tried.items()
        }
        return {word for word, answer in answers.items() if answer.status_code == 200}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.cloud.close()


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ((), set()),
        (("objectViewer",), {"get", "list"}),
        (("objectCreator",), {"create"}),
        (("objectUser",), {"get", "list", "create", "replace", "update"}),
        (("objectAdmin",), {"get", "list", "create", "replace", "update"}),
        (("objectUser", "bucketViewer"),
         {"get", "list", "create", "replace", "update", "bucket"}),
        (("legacyBucketReader",), {"list", "bucket"}),
        (("legacyBucketWriter",), {"list", "create", "replace", "bucket"}),
        (("admin",), {"get", "list", "create", "replace", "update", "bucket", "bucket-update",
                      "policy"}),
    ],
)  # fmt: skip
def test_roles(world: World, roles: tuple[str, ...], words: set[str]) -> None:
    world.grant(*roles)
    assert world.may() == words


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (READ_ONLY, {"get", "list", "bucket"}),
        (READ_WRITE, {"get", "list", "bucket", "create", "replace", "update"}),
        ("https://www.googleapis.com/auth/logging.write", set()),
    ],
)
def test_scopes(world: World, scope: str, words: set[str]) -> None:
    world.grant("admin")
    world.scopes = (scope,)
    assert world.may() == words


def test_an_editor_of_the_project_reaches_its_buckets(world: World) -> None:
    assert {"get", "list", "create", "replace", "bucket"} <= world.may(DEFAULT)


def test_refusals_name_account_and_permission(world: World) -> None:
    refused = world.ask(TRAINER, "POST", f"{UPLOAD}new", content=b"x")
    error = refused.json()["error"]
    assert (refused.status_code, error["errors"][0]["reason"]) == (403, "forbidden")
    assert error["message"].startswith(
        f"{TRAINER} does not have storage.objects.create access to the Google Cloud Storage object."
    )
    refused = world.ask(TRAINER, "GET", "/storage/v1/b/lab")
    assert f"{TRAINER} does not have storage.buckets.get" in refused.json()["error"]["message"]
    by_xml = world.ask(TRAINER, "GET", "/lab/there")
    assert (by_xml.status_code, "<Code>AccessDenied</Code>" in by_xml.text) == (403, True)
    assert world.ask(TRAINER, "GET", "/storage/v1/b/none").status_code == 404


def test_without_a_token_and_with_a_wrong_one(world: World) -> None:
    assert world.ask("", "GET", f"{OBJECTS}/there").status_code == 401
    assert world.ask("ya29.another", "GET", f"{OBJECTS}/there").status_code == 401
    world.grant("objectViewer", member="allUsers")
    assert world.may("") == {"get", "list"}
    assert world.ask("ya29.another", "GET", f"{OBJECTS}/there").status_code == 401


def test_a_machines_token_counts_on_the_owners_port_too(world: World) -> None:
    headers = {"Authorization": f"Bearer {TRAINER}"}
    assert world.owner.get(f"{OBJECTS}/there", headers=headers).status_code == 403
    assert world.owner.get(f"{OBJECTS}/there").status_code == 200
    assert OWNER.shown == "Anonymous caller"


def test_permissions_are_told(world: World) -> None:
    world.grant("objectViewer")
    path = "/storage/v1/b/lab/iam/testPermissions?permissions="
    words = "storage.objects.get&permissions=storage.objects.create"
    found = world.ask(TRAINER, "GET", path + words).json()["permissions"]
    assert found == ["storage.objects.get"]


def test_a_resumable_upload_needs_rights_at_its_beginning(world: World) -> None:
    path = "/upload/storage/v1/b/lab/o?uploadType=resumable&name=r"
    assert world.ask(TRAINER, "POST", path, content=b"").status_code == 403
    world.grant("objectCreator")
    place = world.ask(TRAINER, "POST", path, content=b"").headers["location"]
    # Its address is a secret that suffices, as at Google.
    assert world.ask("", "PUT", place, content=b"x").status_code == 200
    # Overwriting needs the right to delete.
    again = world.ask(TRAINER, "POST", path, content=b"").headers["location"]
    refused = world.ask(TRAINER, "PUT", again, content=b"y")
    assert (refused.status_code, "storage.objects.delete" in refused.text) == (403, True)


def test_a_copy_needs_rights_at_both_ends(world: World) -> None:
    world.owner.post("/storage/v1/b", json={"name": "other"})
    world.grant("objectViewer")
    path = f"{OBJECTS}/there/rewriteTo/b/other/o/new"
    assert world.ask(TRAINER, "POST", path, content=b"").status_code == 403
    here = f"{OBJECTS}/there/rewriteTo/b/lab/o/new"
    assert world.ask(TRAINER, "POST", here, content=b"").status_code == 403
    world.grant("objectViewer", "objectCreator")
    assert world.ask(TRAINER, "POST", here, content=b"").status_code == 200
