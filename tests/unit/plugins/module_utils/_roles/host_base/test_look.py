"""What delays a fresh machine."""

from __future__ import annotations

import os

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.host_base import look as first_boot

DONE = "Id=cloud-final.service\nActiveState=inactive\nMainPID=0\nJob=0\n"
RUNS = "Id=google-startup-scripts.service\nActiveState=activating\nMainPID=0\nJob=0\n"
WAITS = "Id=cloud-final.service\nActiveState=inactive\nMainPID=0\nJob=57\n"
NO_JOB = "Id=ssh.service\nActiveState=active\nMainPID=12\n"


@pytest.mark.parametrize(
    ("show", "busy"),
    [
        ("", []),
        (f"{DONE}\n{NO_JOB}", []),
        (f"{DONE}\n{RUNS}", [("google-startup-scripts.service is still running", 0)]),
        (
            RUNS.replace("MainPID=0", "MainPID="),
            [("google-startup-scripts.service is still running", 0)],
        ),
        (WAITS, [("cloud-final.service has not started yet", 0)]),
    ],
)
def test_units_at_work(show: str, busy: list[tuple[str, int]]) -> None:
    assert first_boot.units_at_work(show) == busy


def test_the_process_is_named() -> None:
    show = RUNS.replace("MainPID=0", f"MainPID={os.getpid()}")
    ((obstacle, process),) = first_boot.units_at_work(show)
    assert f"process {os.getpid()}: " in obstacle
    assert process == os.getpid()


def test_limits_and_release_are_read() -> None:
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            8388608              unlimited            bytes     \n"
        "Max open files            1024                 20000                files     \n"
    )
    assert first_boot.hard_limits(limits) == {"stack": "unlimited", "nofile": "20000"}
    assert first_boot.os_release('ID=ubuntu\nVERSION_ID="22.04"\n') == {
        "ID": "ubuntu",
        "VERSION_ID": "22.04",
    }
