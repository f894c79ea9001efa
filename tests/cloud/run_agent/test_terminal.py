"""Starts of programs in tmux, while its server does what servers do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_agent.act import definitions, hand, processes, terminal

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
FOR_EVER = "exec sleep 1000"


@pytest.fixture
def worker(gang: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A worker without its agent, which would end what lost its terminal."""
    (made,) = gang(FOR_EVER, workers=1)
    monkeypatch.setenv("TMUX_TMPDIR", str(made.tmux))
    yield made
    made.kill_tmux()
    launch = str(definitions.load(made.definition).paths.runtime / "launch.json")
    for parent in processes.with_argument(launch, os.getuid()):
        for pid in (*processes.descendants(parent), parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def start(worker: Any, attempt: int) -> None:
    run = definitions.load(worker.definition)
    terminal.start(run, hand.Hand(run.user), "an id", attempt, "an owner")


# Twelve programs. In CI the next test has a server of tmux that is just ending.
@pytest.mark.night
def test_a_program_starts_though_the_one_before_is_just_ending(
    gang: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session ends a moment behind the program's result, and is not another program's then."""
    (worker,) = gang("exit 0", workers=1)
    monkeypatch.setenv("TMUX_TMPDIR", str(worker.tmux))
    result = definitions.load(worker.definition).paths.user / "result.json"
    for attempt in range(1, 13):
        start(worker, attempt)
        harness.wait_until(result.exists, "the program's end")


def test_the_log_begins_also_where_the_agent_is_of_an_earlier_version(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = terminal._new_session

    def as_before(config: Any, command: list[str], launch: Path, log: list[str]) -> None:
        order = json.loads(launch.read_text())
        launch.write_text(json.dumps({**order, "log_command": log}))
        begin(config, command, launch, ["true"])

    monkeypatch.setattr(terminal, "_new_session", as_before)
    start(worker, 1)
    log = definitions.load(worker.definition).paths.log
    harness.wait_until(lambda: log.exists() and "attempt 1 of" in log.read_text(), "the log")


def test_a_program_starts_though_the_server_is_just_ending(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmux = terminal._tmux
    refused: list[str] = []
    place = worker.tmux / f"tmux-{os.getuid()}" / "default"

    def ending(user: str, *arguments: str) -> Any:
        """Give the first new session a server that takes the connection and ends."""
        if arguments[0] != "new-session" or refused:
            return tmux(user, *arguments)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
            server.listen()
            end = threading.Thread(target=lambda: server.accept()[0].close(), daemon=True)
            end.start()
            done = tmux(user, *arguments)
            end.join(20)
        place.unlink()
        refused.append(done.err.decode())
        return done

    monkeypatch.setattr(terminal, "_tmux", ending)
    start(worker, 1)
    assert worker.sessions() == ["demo"]
    assert "server exited unexpectedly" in refused[0]


def test_a_program_that_began_is_not_started_twice(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    tmux = terminal._tmux

    def killed(user: str, *arguments: str) -> Any:
        """Do it, and have the server killed before it answers."""
        done = tmux(user, *arguments)
        if arguments[0] != "new-session":
            return done
        asked.append(arguments[0])
        return done._replace(code=1, err=b"server exited unexpectedly")

    monkeypatch.setattr(terminal, "_tmux", killed)
    with pytest.raises(terminal.CannotStart, match="server exited unexpectedly"):
        start(worker, 1)
    assert asked == ["new-session"]


def test_another_error_of_tmux_is_told_at_once(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmux = terminal._tmux
    asked: list[str] = []
    # Another session of theirs keeps the server.
    tmux(
        definitions.load(worker.definition).user, "new-session", "-d", "-s", "mine", "sleep", "1000"
    )

    def unwilling(user: str, *arguments: str) -> Any:
        asked.append(arguments[0])
        arguments = ("no-such-command",) if arguments[0] == "new-session" else arguments
        return tmux(user, *arguments)

    monkeypatch.setattr(terminal, "_tmux", unwilling)
    with pytest.raises(terminal.CannotStart, match="tmux: unknown command: no-such-command"):
        start(worker, 1)
    assert asked.count("new-session") == 1


def test_somebody_elses_session_of_that_name_is_left_alone(worker: Any) -> None:
    run = definitions.load(worker.definition)
    terminal._tmux(run.user, "new-session", "-d", "-s", "demo", "sleep", "1000")
    with pytest.raises(terminal.CannotStart, match="a tmux session 'demo' of their own"):
        start(worker, 1)
    assert worker.sessions() == ["demo"]
    terminal._tmux(run.user, "rename-session", "-t", "=demo", "demo of mine")
    start(worker, 1)
    assert sorted(worker.sessions()) == ["demo", "demo", "mine", "of"]
