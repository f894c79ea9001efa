"""A machine that alice and mallory share, on a local cloud of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet
from hostile_user import shared

ACCOUNT = "serviceAccount:123456789012-compute@developer.gserviceaccount.com"


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The machine, which is not set up yet."""
    fleet = Fleet(tmp_path_factory.mktemp("hostile"), NOTHING)
    fleet.up("--speed", "10")
    try:
        put_into_secret_manager(fleet)
        # The machine knows how to apply itself; the rounds take either way from here.
        fleet.declare(shared.declared(fleet.folder / "controller", "host"))
        fleet.play("tpu.fleet.provision")
        yield fleet
    finally:
        fleet.down()


def put_into_secret_manager(fleet: Fleet) -> None:
    """Have the value that mallory's service asks for: root fetches it as the service starts."""

    def call(path: str, body: Any = None) -> None:
        url = f"http://127.0.0.1:{fleet.port}/v1/projects/local-project{path}"
        requests.post(url, json=body, timeout=60).raise_for_status()

    call("/services/secretmanager.googleapis.com:enable")
    call("/secrets?secretId=hers", {"replication": {"automatic": {}}})
    data = base64.b64encode(b"from-google").decode()
    call("/secrets/hers:addVersion", {"payload": {"data": data}})
    role = {"role": "roles/secretmanager.secretAccessor", "members": [ACCOUNT]}
    call("/secrets/hers:setIamPolicy", {"policy": {"bindings": [role]}})
