"""What a service is told to systemd, and what happens to one that is there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import services
from ansible_collections.tpu.fleet.plugins.module_utils._host.services import (
    Listener,
    Seen,
    Service,
)


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


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout"
V4 = f"""{HEAD}
   0: 0100007F:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2001        0 111 1
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1
   2: 0100007F:22B8 0100007F:9999 01 00000000:00000000 00:00000000 00000000  2001        0 333 1
"""
V6 = f"""{HEAD}
   0: 00000000000000000000000001000000:22B9 0:0 0A 0:0 0:0 0 2001 0 444 1
   1: 00000000000000000000000000000000:22BA 0:0 0A 0:0 0:0 0 2001 0 555 1
"""


def test_who_listens() -> None:
    found = services.listeners([V4, V6, ""])
    assert [(one.port, one.inode, one.loopback) for one in found] == [
        (8888, "111", True),
        (22, "222", False),
        (8889, "444", True),
        (8890, "555", False),
    ]
    assert Listener("0200000A", 1, "1").loopback is False


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
