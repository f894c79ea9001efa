"""Where the APIs are."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import (
    SERVICES,
    GoogleApis,
    endpoint_of,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    FakeSession,
    client_with,
)


@pytest.mark.parametrize(
    ("name", "given", "tpu", "where"),
    [
        (
            "compute",
            None,
            "https://tpu.googleapis.com/",
            "https://compute.googleapis.com/compute/v1/",
        ),
        ("iam", None, "https://tpu.mtls.googleapis.com/", "https://iam.googleapis.com/"),
        ("compute", None, "http://127.0.0.1:8470/", "http://127.0.0.1:8470/compute/v1/"),
        ("serviceusage", None, "http://localhost:8470", "http://localhost:8470/"),
        ("storage", "http://localhost:1/x", "https://tpu.googleapis.com/", "http://localhost:1/x/"),
    ],
)
def test_where_an_api_is(name: str, given: str | None, tpu: str, where: str) -> None:
    assert endpoint_of(name, given, tpu) == where


def test_an_api_elsewhere_is_not_guessed() -> None:
    with pytest.raises(_errors.TpuError, match="compute_endpoint"):
        endpoint_of("compute", None, "https://tpu.example.com/")
    assert SERVICES["compute"].env == "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"


def test_a_session_that_is_given_serves_all_apis() -> None:
    session = FakeSession({"name": "p"})
    client, _clock = client_with(session)
    assert GoogleApis(client).transport("compute").read("projects/p") == {"name": "p"}
    assert [call.path for call in session.calls] == ["compute/v1/projects/p"]
