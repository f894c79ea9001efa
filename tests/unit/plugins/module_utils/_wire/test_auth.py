"""Where credentials come from, and where they go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("requests")
pytest.importorskip("google.auth")

import google.auth.credentials
import google.auth.exceptions
import google.oauth2.credentials
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import CredentialsError
from ansible_collections.tpu.fleet.plugins.module_utils._wire import auth as _auth
from ansible_collections.tpu.fleet.plugins.module_utils._wire.auth import AuthOptions

GOOGLE = "https://tpu.googleapis.com/"


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any login, and no gcloud."""
    for name in (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_QUOTA_PROJECT",
        "CLOUDSDK_CONFIG",
        "GCE_METADATA_HOST",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def gcloud_that(folder: Path, script: str) -> None:
    program = folder / "bin" / "gcloud"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def header(endpoint: str, auth: AuthOptions) -> str | None:
    """Return the Authorization header of a request to an endpoint."""
    request = requests.Request("GET", endpoint)
    prepared = _auth.session_for(endpoint, auth).prepare_request(request)
    value = prepared.headers.get("Authorization")
    return value if value is None else str(value)


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        (GOOGLE, "google"),
        ("https://us-tpu.mtls.googleapis.com", "google"),
        ("https://TPU.GoogleAPIs.com:443/", "google"),
        ("http://tpu.googleapis.com/", "other"),
        ("https://googleapis.com.evil.example/", "other"),
        ("https://tpu.googleapis.com@evil.example/", "other"),
        ("https://evilgoogleapis.com/", "other"),
        ("http://127.0.0.1:8470/", "loopback"),
        ("http://127.9.9.9:1", "loopback"),
        ("http://[::1]:8470", "loopback"),
        ("http://localhost:8470/", "loopback"),
        ("http://localhost.evil.example/", "other"),
        ("http://10.0.0.1/", "other"),
        ("", "other"),
    ],
)
def test_destination(endpoint: str, place: str) -> None:
    assert _auth.destination(endpoint) == place


def test_given_token_goes_to_google_and_to_this_computer() -> None:
    auth = AuthOptions(access_token="t")
    assert header(GOOGLE, auth) == "Bearer t"
    assert header("http://127.0.0.1:8470/", auth) == "Bearer t"


def test_this_computer_gets_no_token_unasked(nothing: Path) -> None:
    (nothing / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    gcloud_that(nothing, "echo leaked")
    assert header("http://127.0.0.1:8470/", AuthOptions()) is None


@pytest.mark.parametrize(
    "auth",
    [
        AuthOptions(access_token="t"),
        AuthOptions(service_account_file="f"),
        AuthOptions(impersonate_service_account="a@b"),
    ],
)
def test_credentials_go_nowhere_else(auth: AuthOptions) -> None:
    with pytest.raises(CredentialsError, match=r"only https://\*\.googleapis\.com"):
        _auth.session_for("https://api.example/", auth)


def test_google_credentials_do_not_go_to_this_computer() -> None:
    with pytest.raises(CredentialsError, match="are not sent to"):
        _auth.session_for("http://127.0.0.1/", AuthOptions(service_account_file="f"))


def test_other_endpoint_without_credentials_gets_none(nothing: Path) -> None:
    gcloud_that(nothing, "echo leaked")
    assert header("http://10.0.0.1:8470/", AuthOptions()) is None


def test_options_do_not_show_the_token() -> None:
    assert "secret" not in repr(AuthOptions(access_token="secret"))


def test_no_credentials_names_the_command(nothing: Path) -> None:
    with pytest.raises(CredentialsError) as caught:
        header(GOOGLE, AuthOptions())
    assert "Run: gcloud auth application-default login" in str(caught.value)
    assert "no gcloud command" in str(caught.value)


def test_nothing_is_looked_up_before_the_first_request(nothing: Path) -> None:
    _auth.session_for(GOOGLE, AuthOptions())


def test_gcloud_login_is_the_last_resort(nothing: Path) -> None:
    gcloud_that(nothing, 'test "$1 $2" = "auth print-access-token" && echo from-gcloud')
    assert header(GOOGLE, AuthOptions()) == "Bearer from-gcloud"


def test_gcloud_impersonates(nothing: Path) -> None:
    gcloud_that(nothing, 'echo "$4"')
    auth = AuthOptions(impersonate_service_account="a@b")
    assert header(GOOGLE, auth) == "Bearer --impersonate-service-account=a@b"


def test_gcloud_without_login_is_an_error(nothing: Path) -> None:
    gcloud_that(nothing, "echo 'You do not currently have an active account' >&2; exit 1")
    with pytest.raises(CredentialsError, match="active account"):
        header(GOOGLE, AuthOptions())


def test_application_default_comes_before_gcloud(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcloud_that(nothing, "echo from-gcloud")
    monkeypatch.setattr("google.auth.default", lambda scopes: (Ready("from-adc"), "p"))
    assert header(GOOGLE, AuthOptions()) == "Bearer from-adc"


def test_named_file_without_credentials_is_not_passed_over(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcloud_that(nothing, "echo from-gcloud")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(nothing / "missing.json"))
    with pytest.raises(CredentialsError, match=r"missing\.json"):
        header(GOOGLE, AuthOptions())


@pytest.mark.parametrize("content", [None, "{}", "not json", json.dumps({"type": "x"})])
def test_service_account_file_that_is_none(nothing: Path, content: str | None) -> None:
    path = nothing / "key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError, match=r"key\.json"):
        header(GOOGLE, AuthOptions(service_account_file=str(path)))


class Ready(google.auth.credentials.Credentials):  # type: ignore[misc]
    """Credentials that get another token each time."""

    def __init__(self, token: str | None, error: Exception | None = None) -> None:
        super().__init__()
        self.token = token
        self.error = error
        self.refreshed = 0

    def refresh(self, _request: Any) -> None:
        self.refreshed += 1
        if self.error:
            raise self.error
        self.token = f"new-{self.refreshed}"


def test_token_is_found_once_and_renewed_when_refused() -> None:
    found: list[Ready] = []

    def find() -> Ready:
        found.append(Ready(None))
        return found[-1]

    credentials = _auth.GoogleCredentials(find)
    assert (written(credentials), written(credentials)) == ("Bearer new-1", "Bearer new-1")
    assert credentials.renew()
    assert written(credentials) == "Bearer new-2"
    assert len(found) == 1


def written(supplier: _auth.TokenSupplier) -> str:
    """Return the Authorization header that is written for a request."""
    headers = {}  # type: dict[str, str]
    supplier.write("GET", GOOGLE, headers)
    return {name.lower(): value for name, value in headers.items()}["authorization"]


def test_given_token_cannot_be_renewed() -> None:
    assert not _auth.StaticToken("t").renew()


def test_refused_refresh_names_the_command() -> None:
    refused = google.auth.exceptions.RefreshError("invalid_grant: Token has been expired")
    credentials = _auth.GoogleCredentials(lambda: Ready(None, refused))
    with pytest.raises(CredentialsError, match=r"invalid_grant.*Run: gcloud auth"):
        written(credentials)


def headers_of(auth: AuthOptions) -> dict[str, str]:
    """Return the headers of a request to Google, by their names in lower case."""
    request = requests.Request("GET", GOOGLE)
    prepared = _auth.session_for(GOOGLE, auth).prepare_request(request)
    return {name.lower(): str(value) for name, value in prepared.headers.items()}


def test_a_persons_quota_project_is_named(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = google.oauth2.credentials.Credentials("t", quota_project_id="pays")
    monkeypatch.setattr("google.auth.default", lambda scopes: (login, "p"))
    sent = headers_of(AuthOptions())
    assert sent["authorization"] == "Bearer t"
    assert sent["x-goog-user-project"] == "pays"


def test_a_given_token_has_the_quota_project_of_the_environment(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "x-goog-user-project" not in headers_of(AuthOptions(access_token="t"))
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "pays")
    assert headers_of(AuthOptions(access_token="t"))["x-goog-user-project"] == "pays"


@pytest.mark.parametrize(
    ("configured", "sent"),
    [("pays", "pays"), ("example.com:pays", "example.com:pays"), ("LEGACY", None), ("", None)],
)
def test_gclouds_login_has_the_quota_project_of_its_configuration(
    nothing: Path, configured: str, sent: str | None
) -> None:
    gcloud_that(nothing, f'case $1 in auth) echo t;; config) echo "{configured}";; esac')
    found = headers_of(AuthOptions())
    assert found["authorization"] == "Bearer t"
    assert found.get("x-goog-user-project") == sent
