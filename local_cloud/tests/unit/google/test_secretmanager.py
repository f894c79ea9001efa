"""Secret Manager as a machine sees it: its own account, its rights, Google's words."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from clouds import a_cloud
from starlette.testclient import TestClient

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.google import api
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.serve.frontend import FrontEnd
from tpu_local_cloud.serve.metadata import MetadataApp, Tokens
from tpu_local_cloud.tpu_api.call import Asked

SECRETS = "/v1/projects/local-project/secrets"
READER = "roles/secretmanager.secretAccessor"
DEFAULT = "123456789012-compute@developer.gserviceaccount.com"
EVERYWHERE = ["https://www.googleapis.com/auth/cloud-platform"]
LATEST = f"{SECRETS}/wandb/versions/latest:access"


def call(cloud: Cloud, method: str, path: str, body: Any = None, **query: str) -> Any:
    sent = json.dumps(body or {}).encode()
    return api.answer(cloud, Asked(method, path, query, sent, token=True))


def words(cloud: Cloud, path: str = LATEST, scopes: list[str] | None = None) -> str:
    try:
        found = api.answer_machine(cloud, path, DEFAULT, EVERYWHERE if scopes is None else scopes)
    except ApiError as error:
        return f"{error.http} {error.message}"
    return base64.b64decode(found["payload"]["data"]).decode()


@pytest.fixture
def cloud() -> Cloud:
    made = a_cloud()
    call(made, "POST", "/v1/projects/local-project/services/secretmanager.googleapis.com:enable")
    call(made, "POST", SECRETS, {"replication": {"automatic": {}}}, secretId="wandb")
    for text in (b"first", b"second"):
        data = {"payload": {"data": base64.b64encode(text).decode()}}
        call(made, "POST", f"{SECRETS}/wandb:addVersion", data)
    return made


def allow(cloud: Cloud, of: str = f"{SECRETS}/wandb") -> None:
    bindings = [{"role": READER, "members": [f"serviceAccount:{DEFAULT}"]}]
    call(cloud, "POST", f"{of}:setIamPolicy", {"policy": {"bindings": bindings}})


DENIED = (
    "403 Permission 'secretmanager.versions.access' denied for resource "
    "'projects/local-project/secrets/{}/versions/latest' (or it may not exist)."
)


def test_an_editor_reads_no_secret(cloud: Cloud) -> None:
    assert words(cloud) == DENIED.format("wandb")


def test_what_is_not_there_looks_like_what_is_not_allowed(cloud: Cloud) -> None:
    assert words(cloud, LATEST.replace("wandb", "other")) == DENIED.format("other")


@pytest.mark.parametrize("of", [f"{SECRETS}/wandb", "/v1/projects/local-project"])
def test_the_role_opens_one_secret_or_all(cloud: Cloud, of: str) -> None:
    allow(cloud, of)
    assert words(cloud) == "second"
    assert words(cloud, LATEST.replace("latest", "1")) == "first"


def test_a_token_needs_the_scope(cloud: Cloud) -> None:
    allow(cloud)
    found = words(cloud, scopes=["https://www.googleapis.com/auth/devstorage.read_only"])
    assert found == "403 Request had insufficient authentication scopes."


def test_disabled_and_missing_versions(cloud: Cloud) -> None:
    allow(cloud)
    call(cloud, "POST", f"{SECRETS}/wandb/versions/2:disable")
    name = "projects/123456789012/secrets/wandb/versions"
    assert words(cloud) == f"400 Secret Version [{name}/2] is in DISABLED state."
    assert (
        words(cloud, LATEST.replace("latest", "7")) == f"404 Secret Version [{name}/7] not found."
    )


def test_the_api_is_off_until_it_is_switched_on() -> None:
    fresh = a_cloud()
    assert words(fresh).startswith("403 Secret Manager API has not been used in project")


def test_tokens_end(cloud: Cloud) -> None:
    body = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    cloud.create("us-central2-b", "n1", body, "v2")
    node = cloud.node("us-central2-b", "n1")
    tokens = Tokens(cloud)
    given = tokens.give(node)["access_token"]
    assert tokens.give(node)["access_token"] == given
    assert tokens.who(given) == (DEFAULT, EVERYWHERE)
    with pytest.raises(ApiError, match="invalid authentication credentials"):
        tokens.who("ya29.another")


def test_a_request_without_a_token_is_refused(cloud: Cloud) -> None:
    answer = TestClient(MetadataApp(FrontEnd(cloud)).asgi).get(LATEST)
    assert answer.status_code == 401


def test_the_checksum_is_that_of_the_standard(cloud: Cloud) -> None:
    data = {"payload": {"data": base64.b64encode(b"123456789").decode()}}
    call(cloud, "POST", f"{SECRETS}/wandb:addVersion", data)
    shown = call(cloud, "GET", f"{SECRETS}/wandb/versions/latest:access")
    assert shown["payload"]["dataCrc32c"] == str(0xE3069283)
