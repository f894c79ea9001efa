"""Work that Ctrl-C, SIGTERM or the death of Ansible stops, and what it still does at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.stoppable import stoppable

# A process of a task, as Ansible starts it: its parent passes signals on, or is killed.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from ansible_collections.tpu.fleet.plugins.plugin_utils._core import stoppable as tested

tested.LOOK_EVERY = 0.05
notes = Path(sys.argv[1])

def note(text):
    with notes.open("a") as out:
        out.write(text + "\\n")

def as_ansible(number, _frame):
    note(f"passed on {number}")
    os._exit(1)

if os.fork():
    time.sleep(60)  # Ansible itself
os.setsid()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, as_ansible)
with tested.stoppable():
    try:
        note(f"works {os.getpid()}")
        time.sleep(60)
        note("not stopped")
    finally:
        # The second signal comes while an answer is waited for.
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        note("ended properly")
note("goes on")
"""


def lines_of(notes: Path, last: str) -> list[str]:
    for _look in range(1200):
        lines = notes.read_text().splitlines() if notes.exists() else []
        if any(line.startswith(last) for line in lines):
            return lines
        time.sleep(0.05)
    raise AssertionError(f"there is no {last!r} in {lines}")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_is_stopped_does_what_it_does_at_its_end(
    how: signal.Signals, tmp_path: Path, import_env: dict[str, str]
) -> None:
    notes = tmp_path / "notes"
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM, str(notes)], env=import_env)
    pid = int(lines_of(notes, "works")[0].split()[1])
    try:
        if how == signal.SIGKILL:
            parent.kill()
            parent.wait(60)
        else:
            os.kill(pid, how)
        passed_on = signal.SIGTERM if how == signal.SIGKILL else how
        assert lines_of(notes, "passed on")[1:] == ["ended properly", f"passed on {passed_on:d}"]
    finally:
        parent.kill()
        parent.wait(60)


def test_handlers_are_as_before_when_the_work_is_over() -> None:
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in stops]
    with contextlib.suppress(ValueError), stoppable():
        assert [signal.getsignal(number) for number in stops] != before
        raise ValueError
    assert [signal.getsignal(number) for number in stops] == before
