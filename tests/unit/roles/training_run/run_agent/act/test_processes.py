"""Processes as /proc describes them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from run_agent.act import (
    processes,
)


def test_processes_are_found_by_what_they_were_given(tmp_path: Path) -> None:
    for pid, content in (("5", b"A=1\0B=2\0"), ("6", b"A=1\0B=3\0"), ("7", b"XA=1\0B=2")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(content)
        (tmp_path / pid / "status").write_text("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "8/environ").write_bytes(b"A=1\0B=2\0")
    (tmp_path / "8/status").write_text("Name:\tx\nUid:\t1000\t0\t0\t0\n")
    assert processes.marked({"A": "1", "B": "2"}, 1000, tmp_path) == {5}


def test_a_process_is_named_by_pid_and_start() -> None:
    assert processes.start_time(os.getpid()) == processes.start_time(os.getpid()) is not None
    assert os.getpid() in processes.descendants(os.getppid())


@pytest.mark.parametrize(("name", "number"), [("SIGTERM", 15), ("TERM", 15), ("2", 2)])
def test_signals_by_name(name: str, number: int) -> None:
    assert processes.signal_number(name) == number


def test_of_other_users_processes_no_environment_is_read(tmp_path: Path) -> None:
    """A pipe in the place of an environment would block every process that opens it."""
    for pid, uid in (("5", 1000), ("6", 1001)):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (tmp_path / "5/environ").write_bytes(b"A=1\0")
    os.mkfifo(tmp_path / "6/environ")
    found: list[set[int]] = []
    look = threading.Thread(
        target=lambda: found.append(processes.marked({"A": "1"}, 1000, tmp_path)), daemon=True
    )
    look.start()
    look.join(20)
    assert found == [{5}]


def test_of_an_environment_and_a_command_without_end_a_part_is_read(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5/status").write_text("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n")
    for name in ("environ", "cmdline"):
        with (tmp_path / "5" / name).open("wb") as stream:
            stream.write(b"A=1\0")
            stream.truncate(2**40)
    assert processes.marked({"A": "1"}, 1000, tmp_path) == {5}
    assert processes.command_line(5, tmp_path).startswith("A=1")
