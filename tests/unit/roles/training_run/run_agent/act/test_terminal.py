"""Files that root may run, and the session in which a program starts."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_agent.act import as_user, terminal

OURS, THEIRS = b"demo demo\n", b"demo \n"


def test_root_runs_only_what_nobody_else_can_change(tmp_path: Path) -> None:
    program = tmp_path / "py-spy"
    program.touch(0o755)
    tmp_path.chmod(0o777)
    assert not terminal.only_roots(program)
    assert not terminal.only_roots(tmp_path / "missing")


class Tmux:
    """Has the session of a run, or none."""

    def __init__(self, session: bytes) -> None:
        self.session = session
        self.asked: list[str] = []

    def __call__(self, _user: str, what: str, *_words: str) -> as_user.Done:
        self.asked.append(what)
        if what == "kill-session":
            self.session = b""
        elif what == "new-session" and self.session:
            return as_user.Done(1, b"", b"duplicate session: demo\n")
        elif what == "new-session":
            self.session = OURS
            return as_user.Done(0, b"0 0\n", b"")
        return as_user.Done(0, self.session, b"")


def begun(session: bytes, monkeypatch: pytest.MonkeyPatch) -> Tmux:
    tmux = Tmux(session)
    config: Any = SimpleNamespace(run="demo", user=pwd.getpwuid(os.getuid()).pw_name)
    monkeypatch.setattr(terminal, "_tmux", tmux)
    terminal._new_session(config, ["true"], Path("/nowhere/launch.json"), ["cat"])
    return tmux


def test_a_session_begins_with_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun(b"", monkeypatch).asked == ["new-session"]


def test_a_session_that_an_attempt_left_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = begun(OURS, monkeypatch).asked
    assert asked == ["new-session", "display-message", "kill-session", "new-session"]


def test_a_session_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(terminal.CannotStart, match="has a tmux session 'demo' of their own"):
        begun(THEIRS, monkeypatch)
