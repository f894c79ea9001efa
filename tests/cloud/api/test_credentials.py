"""Every kind of Google's credentials, by google-auth's own classes, against Service Usage.

The services that give tokens are a stand-in on loopback. Requests to Google's names are led to it
and to the local cloud below requests' sessions, so that all above is what goes to Google.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import PermissionDenied
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire.auth import AuthOptions
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from recording import Exchange, RecordingEmulator

SERVICE = f"v1/projects/{RecordingEmulator.project}/services/tpu.googleapis.com"
ROBOT = "robot@local-project.iam.gserviceaccount.com"
PERSON = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
# What Google's tokens of persons and of service accounts begin with.
A_PERSONS, A_ROBOTS = "ya29.a0.", "ya29.c."


class TokenServices:
    """Google's token services and a machine's metadata server; `asked` says for what."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.quota_projects: list[str | None] = []
        services = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                services.answer(self, "")

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                services.answer(self, self.rfile.read(size).decode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: str) -> None:
        path = urlsplit(handler.path).path
        kind, told = self._told(path, body)
        self.asked.append(kind)
        if kind == "impersonation":
            self.quota_projects.append(handler.headers.get("x-goog-user-project"))
        text = (told if isinstance(told, str) else json.dumps(told)).encode()
        handler.send_response(200)
        handler.send_header("Metadata-Flavor", "Google")
        kind_of_text = "text/plain" if isinstance(told, str) else "application/json"
        handler.send_header("Content-Type", kind_of_text)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def _told(self, path: str, body: str) -> tuple[str, Any]:
        number = len(self.asked)
        if path.endswith("/allowedLocations"):
            return "locations", {"locations": ["us-central2"], "encodedLocations": "0xA30"}
        if path.endswith(":generateAccessToken"):
            ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
            return "impersonation", {"accessToken": f"{A_ROBOTS}i{number}", "expireTime": ends}
        if path.startswith("/computeMetadata/"):
            if path.endswith("/token"):
                return "metadata", {"access_token": f"{A_ROBOTS}m{number}", "expires_in": 3600}
            if path.endswith("/project/project-id"):
                return "project", RecordingEmulator.project
            return "about the machine", {"email": ROBOT, "scopes": [], "aliases": ["default"]}
        grant = parse_qs(body).get("grant_type", ["none"])[0].rpartition(":")[2]
        begins = A_ROBOTS if grant == "jwt-bearer" else A_PERSONS
        return grant, {
            "access_token": f"{begins}{number}",
            "expires_in": 3600,
            "token_type": "Bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }


@pytest.fixture
def google(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[RecordingEmulator, TokenServices]]:
    """Lead what goes to Google's names to the local cloud and to the stand-in."""
    cloud, services = RecordingEmulator(), TokenServices()
    tokens = ("oauth2.", "sts.", "iamcredentials.")
    send = requests.adapters.HTTPAdapter.send

    def led(self: Any, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        parts = urlsplit(str(request.url))
        host = str(parts.hostname)
        if host.endswith(".googleapis.com"):
            place = services.host if host.startswith(tokens) else urlsplit(cloud.url).netloc
            request.url = parts._replace(scheme="http", netloc=place).geturl()
        return send(self, request, **how)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", led)
    for name in ("GOOGLE_CLOUD_QUOTA_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    # Variables say so too, but one is read when google-auth is imported.
    monkeypatch.setenv("GCE_METADATA_IP", services.host)
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", services.host)
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / ".netrc").write_text("default login somebody password else\n")
    cloud.fault("quota_project", match={"service": "serviceusage"})
    yield cloud, services
    cloud.stop()
    services.stop()


def look(auth: AuthOptions | None = None) -> GoogleApis:
    """Ask Google's Service Usage for a service."""
    auth = auth or AuthOptions()
    client = Client(RecordingEmulator.project, endpoint="https://tpu.googleapis.com/", auth=auth)
    apis = GoogleApis(client)
    assert apis.find("serviceusage", SERVICE)
    return apis


def last(cloud: RecordingEmulator) -> Exchange:
    """Return the last request to Service Usage."""
    return [seen for seen in cloud.seen if seen.path.endswith("/services/tpu.googleapis.com")][-1]


def write(path: Path, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file the application default credentials."""
    path.write_text(json.dumps(content))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))


def key_file(path: Path) -> Path:
    """Write the key of a service account."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    about = {
        "type": "service_account",
        "client_email": ROBOT,
        "private_key": pem,
        "private_key_id": "1",
        "project_id": RecordingEmulator.project,
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    path.write_text(json.dumps(about))
    return path


Google = tuple[RecordingEmulator, TokenServices]


def test_a_persons_login_names_its_quota_project(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, services = google
    login = {**PERSON, "quota_project_id": "local-project"}
    write(tmp_path / "adc.json", login, monkeypatch)
    look()
    assert services.asked[0] == "refresh_token"
    sent = last(cloud).headers
    assert sent["x-goog-user-project"] == "local-project"
    assert sent["authorization"].startswith(f"Bearer {A_PERSONS}")
    assert "cred-type/u" in sent["x-goog-api-client"]


def test_a_persons_login_without_a_quota_project_is_refused_with_the_remedy(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, _services = google
    write(tmp_path / "adc.json", PERSON, monkeypatch)
    with pytest.raises(PermissionDenied, match="requires a quota project") as caught:
        look()
    assert caught.value.case == "quota_project"
    assert "set-quota-project" in str(caught.value.remedy)
    # As google-auth's own variable has it.
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "local-project")
    look()
    assert last(cloud).headers["x-goog-user-project"] == "local-project"


def test_a_service_account_needs_none_and_tells_its_locations(
    google: Google, tmp_path: Path
) -> None:
    cloud, services = google
    apis = look(AuthOptions(service_account_file=str(key_file(tmp_path / "key.json"))))
    assert "jwt-bearer" in services.asked
    assert "x-goog-user-project" not in last(cloud).headers
    # google-auth looks the locations up on the side.
    deadline = time.monotonic() + 60
    while last(cloud).headers.get("x-allowed-locations") != "0xA30":
        assert time.monotonic() < deadline
        time.sleep(0.05)
        apis.find("serviceusage", SERVICE)


def test_an_impersonated_account_is_asked_for_by_the_person_who_pays(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, services = google
    login = {**PERSON, "quota_project_id": "local-project"}
    write(tmp_path / "adc.json", login, monkeypatch)
    look(AuthOptions(impersonate_service_account=ROBOT))
    assert services.quota_projects == ["local-project"]
    assert last(cloud).headers["authorization"].startswith(f"Bearer {A_ROBOTS}i")
    assert "cred-type/imp" in last(cloud).headers["x-goog-api-client"]


def test_an_external_account_names_its_quota_project(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, services = google
    (tmp_path / "subject").write_text("a token of somebody else's")
    account = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": str(tmp_path / "subject")},
        "quota_project_id": "local-project",
    }
    write(tmp_path / "adc.json", account, monkeypatch)
    look()
    assert "token-exchange" in services.asked
    assert last(cloud).headers["x-goog-user-project"] == "local-project"


def test_a_machine_asks_its_metadata_server(google: Google) -> None:
    cloud, services = google
    look()
    assert "metadata" in services.asked
    assert last(cloud).headers["authorization"].startswith(f"Bearer {A_ROBOTS}m")


def test_a_refused_token_is_renewed_once(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, services = google
    login = {**PERSON, "quota_project_id": "local-project"}
    write(tmp_path / "adc.json", login, monkeypatch)
    apis = look()
    first = last(cloud).headers["authorization"]
    cloud.fault("unauthenticated", count=1, match={"service": "serviceusage"})
    assert apis.find("serviceusage", SERVICE)
    assert last(cloud).headers["authorization"] != first
    assert services.asked.count("refresh_token") == 2
