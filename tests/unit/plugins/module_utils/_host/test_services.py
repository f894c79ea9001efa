"""What systemd gets of a service, and what happens to one that is there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import services
from ansible_collections.tpu.fleet.plugins.module_utils._host.services import Seen, Service


def service(**more: Any) -> Service:
    words: dict[str, Any] = {
        "name": "notebook-a",
        "role": "notebook_server",
        "description": "JupyterLab a",
        "user": "alice",
        "command": ["/opt/lab/bin/python", "-m", "jupyterlab"],
    }
    return Service(**{**words, **more})


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain", '"plain"'),
        ("two words", '"two words"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb", '"a\\nb"'),
    ],
)
def test_systemd_reads_a_word_as_it_is(word: str, written: str) -> None:
    assert services.quoted(word) == written


def test_an_assignment_has_dollars_of_its_own() -> None:
    assert services.assigned("PRICE", "5$ 10%") == '"PRICE=5$ 10%%"'


def test_the_unit() -> None:
    lines = services.unit_text(
        service(
            environment={"B": "2", "A": "1"},
            environment_files=["/etc/tpu-fleet/secrets/x.env"],
            before_start=[["/bin/sh", "-c", 'test -n "$TOKEN"']],
            workdir="/home/alice/100% notes",
            memory_max="25%",
        )
    ).splitlines()
    for line in (
        "User=alice",
        "WorkingDirectory=/home/alice/100%% notes",
        "EnvironmentFile=/etc/tpu-fleet/secrets/x.env",
        'ExecStartPre="/bin/sh" "-c" "test -n \\"$$TOKEN\\""',
        'ExecStart="/opt/lab/bin/python" "-m" "jupyterlab"',
        "MemoryMax=25%",
        "Restart=always",
        "NoNewPrivileges=yes",
        "WantedBy=multi-user.target",
    ):
        assert line in lines
    assert lines.index('Environment="A=1"') < lines.index('Environment="B=2"')


def test_secrets_from_google_are_fetched_by_a_unit_that_has_nothing_of_the_user() -> None:
    files = ["/etc/tpu-fleet/secrets/x.env", "/home/alice/mine.env"]
    assert [services.set_of(path) for path in files] == ["x", ""]
    wanted = service(environment_files=files, fetched=["x"], before_start=[["/bin/true"]])
    lines = services.unit_text(wanted).splitlines()
    # Without the file, which a failed fetch does not leave there, the service does not start.
    assert "EnvironmentFile=/run/tpu-fleet/secrets/notebook-a/x.env" in lines
    assert "After=tpu-fleet-secrets-notebook-a.service" in lines
    assert "Wants=tpu-fleet-secrets-notebook-a.service" in lines
    # A command with "+" is root's, and has the variables of the user's files: there is none.
    assert [line for line in lines if line.startswith("Exec")] == [
        f'ExecStartPre=-"/usr/bin/find" "{wanted.temporary}" "-mindepth" "1" "-delete"',
        'ExecStartPre="/bin/true"',
        'ExecStart="/opt/lab/bin/python" "-m" "jupyterlab"',
    ]
    fetches = services.fetch_text(wanted).splitlines()
    program = "/usr/local/bin/tpu-fleet-secrets"
    assert f'ExecStart={program} fetch --service "notebook-a" --user "alice" x' in fetches
    assert not [line for line in fetches if line.startswith(("Environment", "User="))]
    assert "tpu-fleet-secrets" not in services.unit_text(service(environment_files=files))


def test_sudo_works_without_hardening() -> None:
    text = services.unit_text(service(hardening=False))
    assert "NoNewPrivileges" not in text
    assert "CapabilityBoundingSet" not in text
    assert "MemoryMax" not in text


def test_what_everybody_may_know() -> None:
    known = services.record(service(port=8888, facts={"kind": "notebook"}), "/x.token")
    assert known["unit"] == "tpu-fleet-notebook-a.service"
    assert (known["kind"], known["port"], known["token_file"]) == ("notebook", 8888, "/x.token")
    assert "token_file" not in services.record(service(), "")


NOW = {"files": "1", "secrets": {"/s": 5}, "venv": "/v1"}


@pytest.mark.parametrize(
    ("wish", "active", "started_with", "todo"),
    [
        ({}, "inactive", {}, "start"),
        ({}, "failed", NOW, "start"),
        ({}, "active", NOW, ""),
        ({}, "activating", NOW, ""),
        ({}, "active", {**NOW, "files": "0"}, "restart"),
        ({}, "active", {**NOW, "secrets": {"/s": 4}}, "restart"),
        ({}, "active", {**NOW, "venv": "/v0"}, ""),
        ({"restart_on_upgrade": True}, "active", {**NOW, "venv": "/v0"}, "restart"),
        # It was never seen to come up.
        ({}, "active", {}, "restart"),
        ({"enabled": False}, "active", NOW, "stop"),
        ({"enabled": False}, "inactive", NOW, ""),
        ({"enabled": False}, "activating", {}, "stop"),
    ],
)
def test_what_happens(
    wish: dict[str, Any], active: str, started_with: dict[str, Any], todo: str
) -> None:
    seen = Seen(active=active, started_with=started_with, now_with=NOW)
    assert services.action(service(**wish), seen) == todo


def test_temporary_files_are_where_no_other_user_can_create_any() -> None:
    lines = services.unit_text(service()).splitlines()
    assert 'Environment="TMPDIR=/var/lib/tpu-fleet/tmp/notebook-a"' in lines
    assert "StateDirectory=tpu-fleet/tmp/notebook-a" in lines
    assert "StateDirectoryMode=0700" in lines
    # A service may declare another folder.
    own = services.unit_text(service(environment={"TMPDIR": "/data/tmp"})).splitlines()
    assert [line for line in own if "TMPDIR" in line][-1] == 'Environment="TMPDIR=/data/tmp"'


PROXIED: dict[str, Any] = {"proxied": True, "port": 8888}


@pytest.mark.parametrize("ipv6", [True, False])
def test_systemd_listens_on_the_port_before_any_user_can(ipv6: bool) -> None:
    lines = services.port_text(service(**PROXIED), ipv6).splitlines()
    addresses = ["127.0.0.1:8888", "[::1]:8888"] if ipv6 else ["127.0.0.1:8888"]
    listens = [line.partition("=")[2] for line in lines if line.startswith("ListenStream=")]
    assert listens == addresses
    # Without dependencies on what is started later, it is part of sockets.target at boot.
    assert "WantedBy=sockets.target" in lines
    assert not [line for line in lines if line.startswith(("After=", "DefaultDependencies="))]
    # Another user gets another socket: the first one could keep it open.
    assert services.port_text(service(**PROXIED, user="bob"), ipv6) != "\n".join([*lines, ""])


def test_connections_go_to_a_socket_that_only_the_user_can_reach() -> None:
    one = service(**PROXIED)
    lines = services.proxy_text(one).splitlines()
    assert one.socket == "/run/tpu-fleet/notebook-a/http"
    assert "User=alice" in lines
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.endswith(
        "systemd-socket-proxyd --connections-max=4096 /run/tpu-fleet/notebook-a/http"
    )
    # systemd would give the port up.
    assert "StartLimitIntervalSec=0" in lines
    assert (service().socket, service().port_unit, service().proxy_unit) == ("", "", "")


@pytest.mark.parametrize(
    ("wish", "listening", "port", "todo"),
    [
        (PROXIED, False, "1", "start"),
        (PROXIED, True, "1", ""),
        # The port or its user changed.
        (PROXIED, True, "0", "restart"),
        ({**PROXIED, "enabled": False}, True, "1", "stop"),
        ({**PROXIED, "enabled": False}, False, "1", ""),
        ({}, False, "1", ""),
    ],
)
def test_the_port_is_let_go_only_when_it_changes(
    wish: dict[str, Any], listening: bool, port: str, todo: str
) -> None:
    seen = Seen(
        active="active",
        listening=listening,
        started_with={**NOW, "files": "old", "port": port},
        now_with={**NOW, "port": "1"},
    )
    assert services.port_action(service(**wish), seen) == todo


def test_who_listens_on_unix_sockets() -> None:
    table = """Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20460 /run/tpu-fleet/notebook-a/http
0000000000000000: 00000003 00000000 00000000 0001 03 20461 /run/connected
0000000000000000: 00000003 00000000 00000000 0001 03  1088
0000000000000000: 00000002 00000000 00010000 0001 01 20462 /home/a/two words
"""
    assert services.unix_listeners(table) == {"/run/tpu-fleet/notebook-a/http", "/home/a/two words"}


@pytest.mark.parametrize(
    ("cgroups", "there"),
    [
        ("0::/system.slice/tpu-fleet-ray.service\n", True),
        ("12:cpu:/a\n0::/system.slice/tpu-fleet-ray.service/worker\n", True),
        ("0::/system.slice/tpu-fleet-ray.service-more\n", False),
        ("0::/user.slice\n", False),
    ],
)
def test_whose_process_it_is(cgroups: str, there: bool) -> None:
    assert services.in_unit(cgroups, "tpu-fleet-ray.service") is there
