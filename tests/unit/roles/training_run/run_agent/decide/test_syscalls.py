"""The names of system calls."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

import pytest
from run_agent.act import kernel_view
from run_agent.decide import syscalls


@pytest.mark.parametrize(
    ("number", "machine", "name"),
    [
        (202, "x86_64", "futex"),
        (98, "aarch64", "futex"),
        (4000, "x86_64", "4000"),
        (1, "s390", "1"),
    ],
)
def test_names(number: int, machine: str, name: str) -> None:
    assert syscalls.name_of(number, machine) == name


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="not in the table")
def test_this_kernels_numbers_are_those_of_the_table() -> None:
    reads, writes = os.pipe()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=reads) as process:
        deadline = time.monotonic() + 20
        seen = {}
        while seen.get("syscall") != "read" and time.monotonic() < deadline:
            time.sleep(0.02)
            seen = kernel_view.thread(process.pid, process.pid)
        os.close(writes)
        os.close(reads)
    assert (seen["syscall"], seen["on"][:6]) == ("read", "pipe:[")
