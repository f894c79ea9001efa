"""What systemd gets of the port of a service, and what follows from a stranger on it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import services_act, services_look
from ansible_collections.tpu.fleet.plugins.module_utils._host.services import Seen, Service
from ansible_collections.tpu.fleet.plugins.module_utils._host.services_look import Entry
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import Failed

PORT, PROXY = "tpu-fleet-port-notebook-a.socket", "tpu-fleet-port-notebook-a.service"


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Note the calls of systemctl; keep tokens and records in a folder of the test."""
    called: list[str] = []
    monkeypatch.setattr(services_act, "systemctl", lambda *words: called.append(" ".join(words)))
    monkeypatch.setattr(services_look, "SERVICES_DIR", str(tmp_path))
    monkeypatch.setattr(services_look, "STATE_DIR", str(tmp_path / "state"))
    return called


def entry(port_todo: str, todo: str = "", token: str = "", keep_token: bool = True) -> Entry:
    user = pwd.getpwuid(os.getuid()).pw_name
    about: dict[str, Any] = {"port": 8888, "proxied": True, "keep_token": keep_token}
    service = Service("notebook-a", "r", "d", user, ["/bin/true"], **about)
    seen = Seen(active="active", enabled=True, now_with={"port": "1"})
    return Entry(service, token=token, seen=seen, todo=todo, port_todo=port_todo)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (entry(""), []),
        (entry("start"), [f"stop {PORT} {PROXY}", f"enable --quiet {PORT}", f"start {PORT}"]),
        (entry("stop"), [f"disable --quiet {PORT}", f"stop {PORT} {PROXY}"]),
    ],
)
def test_the_port_is_taken_before_the_service_starts(
    systemd: list[str], one: Entry, expected: list[str]
) -> None:
    services_act.take_ports([one])
    assert systemd == expected


def test_that_systemd_has_the_port_is_remembered_though_another_service_fails(
    systemd: list[str],
) -> None:
    one = entry("start")
    services_act.take_ports([one])
    assert '"port": "1"' in one.state_file.read_text()


@pytest.mark.parametrize(
    ("one", "replaced"),
    [
        (entry("start"), True),
        (entry("start", token="given"), False),
        (entry("start", keep_token=False), False),
    ],
)
def test_a_token_that_a_stranger_may_have_is_replaced(
    systemd: list[str], one: Entry, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: str) -> None:
        systemd.append(" ".join(words))
        if words[0] == "start":
            raise Failed("Address already in use")

    monkeypatch.setattr(services_act, "systemctl", refuse)
    one.token_file.write_text("of yesterday")
    services_act.take_ports([one])
    assert (one.token_file.read_text() != "of yesterday") is replaced
    assert one.todo == ("restart" if replaced else "")
    assert not one.state_file.exists()
    assert one.token_file.stat().st_mode & 0o777 == (0o600 if replaced else 0o644)
