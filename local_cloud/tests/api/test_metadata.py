"""The metadata server over HTTP: it knows a client by the address of its request."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
import uvicorn
from emulator import Emulator
from google.auth import jwt

from tpu_local_cloud.serve.frontend import FrontEnd
from tpu_local_cloud.serve.metadata import MetadataApp

FLAVOR = {"Metadata-Flavor": "Google"}
WORKERS = ("127.0.0.2", "127.0.0.3")


class Asker:
    """Asks as the worker that has an address."""

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.mount("http://", _From(address))

    def __call__(
        self, path: str, method: str = "GET", headers: dict[str, str] = FLAVOR, **more: Any
    ) -> requests.Response:
        url = f"{self._url}computeMetadata/v1/{path}"
        return self._session.request(method, url, headers=headers, timeout=20, **more)


class _From(requests.adapters.HTTPAdapter):
    def __init__(self, address: str) -> None:
        self._address = (address, 0)
        super().__init__()

    def init_poolmanager(self, *words: Any, **more: Any) -> None:
        super().init_poolmanager(*words, source_address=self._address, **more)


@pytest.fixture
def workers(cloud: Emulator) -> Iterator[list[Asker]]:
    """Serve the machines of a node of two workers, which live on loopback addresses."""
    cloud.populate(1, acceleratorType="v4-16", metadata={"foo": "bar"})
    model = cloud.server.cloud
    node = model.node(cloud.zone, "node-0")
    for worker, address in enumerate(WORKERS):
        node.machines[worker]["internal_ip"] = address
    model.addresses.enter(node)
    app = MetadataApp(FrontEnd(model))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    server = uvicorn.Server(uvicorn.Config(app.asgi, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    yield [Asker(url, address) for address in WORKERS]
    app.closing = True
    server.should_exit = True
    thread.join(20)


def test_who_asks_is_told_by_the_address(workers: list[Asker]) -> None:
    found = [ask("instance/attributes/agent-worker-number").text for ask in workers]
    assert found == ["0", "1"]


def test_lists_and_the_universe(workers: list[Asker]) -> None:
    assert workers[0]("instance/tags").text == "[]"
    assert workers[0]("universe/universe-domain").text == "googleapis.com"
    assert workers[0]("instance/service-accounts/default/aliases").text == "default"
    listed = workers[0]("instance/service-accounts/default/").text.split()
    assert listed == ["aliases", "email", "scopes"]
    assert workers[0]("instance/disks/0/type").text == "PERSISTENT"


def test_a_stranger_is_told_nothing(workers: list[Asker]) -> None:
    stranger = Asker(workers[0]._url, "127.0.0.9")
    assert stranger("instance/attributes/foo").status_code == 404


@pytest.mark.parametrize("headers", [{}, {**FLAVOR, "X-Forwarded-For": "1.2.3.4"}])
def test_requests_that_others_may_have_caused_are_refused(
    workers: list[Asker], headers: dict[str, str]
) -> None:
    assert workers[0]("instance/attributes/foo", headers=headers).status_code == 403


def test_values_and_directories(workers: list[Asker]) -> None:
    answer = workers[0]("instance/attributes/foo")
    assert (answer.text, answer.headers["Metadata-Flavor"]) == ("bar", "Google")
    assert "foo" in workers[0]("instance/attributes/").text.splitlines()
    assert workers[0]("instance/attributes/startup-script").status_code == 404


NOTHING = "no notifications have been received yet, try again later"


def test_maintenance_is_read_in_the_machine(cloud: Emulator, workers: list[Asker]) -> None:
    path, as_json = "instance/upcoming-maintenance", {"alt": "json"}
    none = workers[0](path)
    assert (none.status_code, none.text) == (503, NOTHING)
    none = workers[0](path, params=as_json)
    assert (none.status_code, none.json()) == (503, {"error": NOTHING})
    node = f"nodes/{cloud.project}/{cloud.zone}/node-0"
    cloud.control(f"{node}:schedule-maintenance", {"in": 3600})
    for ask in workers:
        seen = ask(path, params=as_json).json()
        assert (seen["maintenance_status"], seen["type"]) == ("PENDING", "SCHEDULED")
        assert "window_start_time" in ask(path).text.split()
        assert ask(f"{path}/can_reschedule").text == "true"


def test_preemption_is_read_in_the_machine(cloud: Emulator, workers: list[Asker]) -> None:
    assert workers[1]("instance/preempted").text == "FALSE"
    node = f"nodes/{cloud.project}/{cloud.zone}/node-0"
    cloud.control(f"{node}:preempt", {"notice": 30})
    assert workers[1]("instance/preempted").text == "TRUE"
    assert cloud.control("state", method="GET")["nodes"][0]["state"] == "READY"


def test_a_machine_outlives_its_node(cloud: Emulator, workers: list[Asker]) -> None:
    before = workers[1]("instance/attributes/tpu-env").text
    node = f"nodes/{cloud.project}/{cloud.zone}/node-0"
    cloud.control(f"{node}:lose")
    assert cloud.control("state", method="GET")["nodes"] == []
    # Another node has the name by now, and other machines.
    cloud.populate(1, acceleratorType="v4-8")
    state = cloud.control("state", method="GET")["nodes"][0]
    assert not {worker["internal_ip"] for worker in state["workers"]} & set(WORKERS)
    assert workers[1]("instance/attributes/tpu-env").text == before
    assert workers[1]("instance/service-accounts/default/token").status_code == 200
    cloud.control("reset")
    assert workers[1]("instance/id").status_code == 404


def test_the_whole_tree(workers: list[Asker]) -> None:
    whole = workers[1]("", params={"recursive": "true", "alt": "json"}).json()
    assert whole["instance"]["networkInterfaces"][0]["ip"] == WORKERS[1]
    assert whole["instance"]["attributes"]["foo"] == "bar"


def test_guest_attributes_reach_the_api(cloud: Emulator, workers: list[Asker]) -> None:
    path = "instance/guest-attributes/hostkeys/ssh-rsa"
    assert workers[1](path, "PUT", data="AAAAB3").status_code == 200
    node = f"v2/projects/{cloud.project}/locations/{cloud.zone}/nodes/node-0"
    body = {"queryPath": "hostkeys/ssh-rsa"}
    answer = requests.post(f"{cloud.url}{node}:getGuestAttributes", json=body, timeout=20).json()
    first, second = answer["guestAttributes"]
    assert first == {}
    assert second["queryValue"]["items"] == [
        {"namespace": "hostkeys", "key": "ssh-rsa", "value": "AAAAB3"}
    ]


def test_many_wait_for_a_change_and_all_see_it(cloud: Emulator, workers: list[Asker]) -> None:
    etag = workers[0]("instance/attributes/foo").headers["ETag"]
    query = {"wait_for_change": "true", "last_etag": etag, "timeout_sec": "15"}

    def wait(index: int) -> tuple[str, float]:
        ask = Asker(workers[0]._url, WORKERS[index % 2])
        text = ask("instance/attributes/foo", params=query).text
        return text, time.monotonic()

    # More than the server has threads for, so that none of them can be held by a wait.
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(wait, index) for index in range(60)]
        time.sleep(1)
        assert not any(future.done() for future in waiting)
        node = f"v2/projects/{cloud.project}/locations/{cloud.zone}/nodes/node-0"
        changed = time.monotonic()
        requests.patch(
            f"{cloud.url}{node}",
            params={"updateMask": "metadata"},
            json={"metadata": {"foo": "new"}},
            timeout=20,
        ).raise_for_status()
        seen = [future.result(20) for future in waiting]
    assert {text for text, _ in seen} == {"new"}
    assert max(moment for _, moment in seen) - changed < 5


def test_a_wait_ends_at_its_limit(workers: list[Asker]) -> None:
    etag = workers[0]("instance/attributes/foo").headers["ETag"]
    query = {"wait_for_change": "true", "last_etag": etag, "timeout_sec": "1"}
    begun = time.monotonic()
    assert workers[0]("instance/attributes/foo", params=query).text == "bar"
    assert 0.9 < time.monotonic() - begun < 5


def test_an_old_etag_is_answered_at_once(workers: list[Asker]) -> None:
    query = {"wait_for_change": "true", "last_etag": "0", "timeout_sec": "15"}
    begun = time.monotonic()
    assert workers[0]("instance/attributes/foo", params=query).text == "bar"
    assert time.monotonic() - begun < 5


def test_a_value_in_the_form_that_is_asked_for(workers: list[Asker]) -> None:
    ask = workers[0]
    name = "instance/attributes/foo"
    assert (ask(name).text, ask(f"{name}?alt=text").text) == ("bar", "bar")
    assert ask(f"{name}?alt=json").json() == "bar"
    assert ask("project/numeric-project-id?alt=json").json() == 123456789012
    assert ask("project/?alt=json").json() == ["attributes/", "numeric-project-id", "project-id"]
    told = ask("project/?recursive=true&alt=text").text
    assert told.splitlines() == ["numeric-project-id 123456789012", "project-id local-project"]
    assert ask(f"{name}?alt=xml").status_code == 400


def test_the_service_account_is_the_default_one(workers: list[Asker]) -> None:
    place = "instance/service-accounts/default"
    email = "123456789012-compute@developer.gserviceaccount.com"
    assert workers[0](f"{place}/email").text == email
    assert workers[0](f"{place}/scopes").text == "https://www.googleapis.com/auth/cloud-platform"
    info = workers[0](f"{place}/?recursive=true").json()
    assert info["email"] == email
    assert workers[0](f"instance/service-accounts/{email}/?recursive=true").json() == info
    both = workers[0]("instance/service-accounts/?recursive=true").json()
    assert both == {email: info, "default": info}
    assert workers[0](f"instance/service-accounts/{email}/token").status_code == 200


def test_an_identity(cloud: Emulator, workers: list[Asker]) -> None:
    place = "instance/service-accounts/default/identity"
    assert workers[0](place).status_code == 400
    token = workers[1](f"{place}?audience=https://x.y&format=full").text
    payload = jwt.decode(token, verify=False)
    assert (payload["aud"], payload["iss"]) == ("https://x.y", "https://accounts.google.com")
    assert payload["email"] == "123456789012-compute@developer.gserviceaccount.com"
    node = cloud.server.cloud.node(cloud.zone, "node-0")
    told = payload["google"]["compute_engine"]
    assert (told["instance_name"], told["zone"]) == (node.machines[1]["machine_id"], cloud.zone)
    short = jwt.decode(workers[0](f"{place}?audience=a").text, verify=False)
    assert "google" not in short
    assert workers[0]("instance/service-accounts/other@x/identity?audience=a").status_code == 404
