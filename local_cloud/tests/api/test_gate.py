"""Access to a local cloud: no web page, and no other user of the computer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from emulator import Emulator
from starlette.testclient import TestClient

from tpu_local_cloud.commands.lifecycle import owners
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.serve import peers, server
from tpu_local_cloud.serve.frontend import FrontEnd
from tpu_local_cloud.serve.gate import METADATA_HOSTS, Gate, named, no_page
from tpu_local_cloud.serve.metadata import MetadataApp

NODES = f"v2/projects/{Emulator.project}/locations/{Emulator.zone}/nodes"
BODY = json.dumps({"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"})
NOBODY = 65534
# Each kind of thing that the one port serves.
PLACES = (
    ("POST", f"{NODES}?nodeId=evil"),
    ("GET", NODES),
    ("GET", "_cloud/state"),
    ("POST", "_cloud/reset"),
    ("DELETE", "_cloud/faults"),
    ("GET", "compute/v1/projects/local-project"),
    ("GET", "api/v3/user/keys"),
    ("POST", "upload/storage/v1/b/mine/o?name=x&uploadType=media"),
    ("GET", "nothing/of/it"),
)
PAGE = {"Origin": "https://evil.example"}


def ask(cloud: Emulator, method: str, path: str, **headers: str) -> requests.Response:
    return requests.request(method, cloud.url + path, data=BODY, headers=headers, timeout=30)


def refused(answer: requests.Response, why: str) -> bool:
    message = answer.json()["error"]["message"]
    return (
        answer.status_code == 403 and "The local cloud refuses this" in message and why in message
    )


@pytest.mark.parametrize(("method", "path"), PLACES)
def test_a_name_that_is_not_ours_is_refused_everywhere(
    cloud: Emulator, method: str, path: str
) -> None:
    port = urlsplit(cloud.url).port
    for host in ("rebound.evil.example", f"rebound.evil.example:{port}", "localhost.evil", "[::2]"):
        assert refused(ask(cloud, method, path, Host=host), "is for the host"), host
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        answer = ask(cloud, method, path, Host=host)
        assert "refuses this" not in answer.text, host


@pytest.mark.parametrize(("method", "path"), PLACES)
@pytest.mark.parametrize(
    "signs",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
    ids=str,
)
def test_a_web_page_is_refused_everywhere(
    cloud: Emulator, method: str, path: str, signs: dict[str, str]
) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
        assert refused(ask(cloud, method, path, **{**signs, "Content-Type": kind}), "web page")


def test_nothing_came_of_what_was_refused(cloud: Emulator) -> None:
    """As any page in a browser can send it, without asking first."""
    port = urlsplit(cloud.url).port
    plain = {"Content-Type": "text/plain", "Host": f"rebound.evil.example:{port}", **PAGE}
    assert ask(cloud, "POST", f"{NODES}?nodeId=evil", **plain).status_code == 403
    assert cloud.control("state", method="GET")["nodes"] == []
    cloud.populate(1)
    assert ask(cloud, "POST", "_cloud/reset", **plain).status_code == 403
    assert len(cloud.control("state", method="GET")["nodes"]) == 1


def test_a_browser_on_a_page_of_ours_sends_json_only(cloud: Emulator) -> None:
    ours = {"Origin": cloud.url.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    path = f"{NODES}?nodeId=n1"
    for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
        assert refused(ask(cloud, "POST", path, **{**ours, "Content-Type": kind}), "send appl")
    assert ask(cloud, "GET", "_cloud/state", **{"Sec-Fetch-Site": "none"}).status_code == 200
    kind = "application/json; charset=utf-8"
    assert ask(cloud, "POST", path, **{**ours, "Content-Type": kind}).status_code == 200


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_program_sends_what_kind_it_likes(cloud: Emulator, kind: str) -> None:
    assert ask(cloud, "POST", f"{NODES}?nodeId=n1", **{"Content-Type": kind}).status_code == 200


def test_what_is_shown_of_a_request_is_plain(cloud: Emulator) -> None:
    text = ask(cloud, "GET", NODES, Origin="https://x\x1b[31m" + "y" * 1000).json()
    assert "\x1b" not in text["error"]["message"]
    assert len(text["error"]["message"]) < 400


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
_CLIENT = """
import sys, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
headers = {"Content-Type": "application/json", "X-Forwarded-For": "127.0.0.1"}
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode() or None, headers)
try:
    print(opener.open(request, timeout=30).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def as_user(uid: int, url: str, body: str = "") -> str:
    """Ask as another user of this computer."""
    argv = ["/usr/bin/python3", "-I", "-c", _CLIENT, url, body]
    done = subprocess.run(
        argv, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, check=True
    )
    return done.stdout


@as_root
def test_another_user_of_the_computer_is_refused(cloud: Emulator) -> None:
    for path, body in ((f"{NODES}?nodeId=evil", BODY), ("_cloud/reset", "{}"), (NODES, "")):
        said = as_user(NOBODY, cloud.url + path, body)
        assert said.startswith("403 ")
        assert "it comes from user nobody, and the cloud belongs to root" in said
        assert "tpu-local-cloud up" in said
    assert cloud.control("state", method="GET")["nodes"] == []
    assert as_user(0, cloud.url + NODES).strip() == "200"


@as_root
def test_who_started_it_by_sudo_goes_on_as_himself() -> None:
    with Emulator(owners=owners({"SUDO_UID": str(NOBODY)})) as cloud:
        assert as_user(NOBODY, f"{cloud.url}{NODES}?nodeId=n1", BODY).strip() == "200"
        assert as_user(NOBODY - 1, cloud.url + NODES).startswith("403 ")


@pytest.fixture(params=["netlink", "proc"])
def connection(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection, with each way to look it up."""
    if request.param == "proc":

        def none(*_: Any) -> None:
            raise OSError("no sock_diag")

        monkeypatch.setattr(peers, "_by_netlink", none)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        yield client, server
        client.close()
        server.close()


def test_the_owner_of_a_connection(connection: tuple[socket.socket, socket.socket]) -> None:
    client, server = connection
    ends = client.getsockname(), server.getsockname()
    assert peers.owner(*ends) == os.geteuid()
    client.shutdown(socket.SHUT_WR)
    assert peers.owner(*ends) == os.geteuid()


def test_a_connection_that_was_left_is_nobodys(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    """The kernel shows it with root's uid."""
    client, server = connection
    ends = client.getsockname(), server.getsockname()
    client.close()
    deadline = time.monotonic() + 30
    while peers.owner(*ends) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert peers.owner(("127.0.0.1", 1), ends[1]) is None


def test_the_metadata_server_answers_to_its_names_and_to_no_page(cloud: Emulator) -> None:
    app = MetadataApp(FrontEnd(cloud.server.cloud)).asgi
    asked = TestClient(Gate(app, named((*METADATA_HOSTS, "10.99.0.1"), False), no_page))
    flavor = {"Metadata-Flavor": "Google"}
    for host in ("metadata.google.internal", "169.254.169.254", "10.99.0.1:8471", "metadata."):
        assert asked.get("/", headers={**flavor, "Host": host}).status_code == 200
    for host in ("rebound.evil.example", "127.0.0.1", "localhost:8471"):
        answer = asked.get("/", headers={**flavor, "Host": host})
        assert (answer.status_code, "is for the host" in answer.text) == (403, True)
    own = {**flavor, "Host": "metadata.google.internal"}
    assert asked.get("/", headers={**own, **PAGE}).status_code == 403


def test_the_server_has_the_gate_before_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoMachines, "metadata_address", lambda _: ("127.0.0.1", 0))
    # The port of the machines' storage.googleapis.com, which a test need not have.
    monkeypatch.setattr(server, "HTTPS", 0)
    seen: list[Any] = []
    made = Gate.__init__

    def note(self: Gate, app: Any, *checks: Any) -> None:
        seen.append(self)
        made(self, app, *checks)

    monkeypatch.setattr(Gate, "__init__", note)
    with Emulator() as cloud:
        assert len(seen) == len(cloud.server._servers) == 3
        assert [each.config.app for each in cloud.server._servers] == seen
        assert not any(each.config.proxy_headers for each in cloud.server._servers)
