"""Where a profile is opened: XProf here, or a board that can show it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from tpu_fleet.commands import profile_open
from tpu_fleet.commands.profile_open import Here, InBoard, hold, in_boards, way
from tpu_fleet.commands.tunnel import Served

LOGS = {"run": "/home/alice/checkpoints/digits"}
BOARD = InBoard("tensorboard-digits", LOGS["run"])


def board(**more: Any) -> dict[str, Any]:
    return {"name": "digits", "user": "alice", "logs": LOGS, **more}


@pytest.mark.parametrize(
    "other",
    [
        board(logs={"a": "/a", "b": "/b"}),
        board(logs={"a": "gs://bucket/a"}),
        board(venv="jax"),
        board(enabled=False),
    ],
)
def test_a_board_that_cannot_show_it_is_passed_over(other: dict[str, Any]) -> None:
    assert in_boards([other, board()]) == [BOARD]


class Inventory:
    def __init__(self, **said: Any) -> None:
        self._said = said

    def said(self, name: str, default: Any) -> Any:
        return self._said.get(name, default)


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(profile_open, "find_spec", lambda _name: None)
    return monkeypatch


def test_xprof_here_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_open, "find_spec", lambda _name: SimpleNamespace())
    assert way() == Here()


def test_without_it_a_board(nothing_here: pytest.MonkeyPatch) -> None:
    nothing_here.setattr(profile_open, "read_inventory", lambda: Inventory(fleet_boards=[board()]))
    assert way() == BOARD


@pytest.mark.parametrize(
    "said", [{}, {"fleet_boards": [board()], "fleet_tensorboard_profile": False}]
)
def test_without_both_the_remedy(nothing_here: pytest.MonkeyPatch, said: dict[str, Any]) -> None:
    nothing_here.setattr(profile_open, "read_inventory", lambda: Inventory(**said))
    with pytest.raises(click.ClickException, match=r"pip install 'tpu-fleet\[xprof\]'"):
        way()


def served(enabled: bool = True) -> Served:
    name, about = "tensorboard-digits", ("tensorboard", "TensorBoard digits", "/", enabled)
    return Served(name, "solo", "alice", 6006, *about, "", "/s/ssh_tunnels")


def test_it_is_copied_as_the_boards_user_and_shown_through_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs: list[Any] = []
    held: list[Served] = []

    def on_all(_known: Any, names: list[str], job: Any, *_more: Any, **_also: Any) -> list[Result]:
        jobs.append(job)
        return [Result(name, Kind.DONE, exit_status=0) for name in names]

    monkeypatch.setattr(profile_open, "on_all", on_all)
    monkeypatch.setattr(profile_open, "known_fleet", lambda _refresh: None)
    monkeypatch.setattr(profile_open, "read_services", lambda: [served()])
    monkeypatch.setattr(profile_open, "hold_tunnel", lambda service, *_more: held.append(service))
    BOARD.hold(tmp_path)
    # Root writes nothing in a folder of a user's.
    assert jobs[0].command.startswith("exec sudo -n -u alice /bin/sh -c ")
    assert f"{LOGS['run']} {tmp_path.name}" in jobs[0].command
    assert held == [served()]


def test_a_board_that_no_worker_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(profile_open, "read_services", lambda: [served(enabled=False)])
    with pytest.raises(click.ClickException, match="no worker serves it now"):
        BOARD.hold(tmp_path)


def test_xprof_that_ends_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.exit('no such module: ' + sys.argv[1])")
    monkeypatch.setattr(profile_open.serve_profiles, "__file__", str(program))
    with pytest.raises(click.ClickException, match=f"XProf has ended: no such module: {tmp_path}"):
        Here().hold(tmp_path)


def test_xprof_here_is_shown_until_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    @contextmanager
    def running(words: list[str], _said: Any) -> Iterator[SimpleNamespace]:
        commands.append(words)
        yield SimpleNamespace(poll=lambda: None, wait=interrupted)

    monkeypatch.setattr(profile_open, "running", running)
    monkeypatch.setattr(profile_open, "answers", lambda _port: bool(commands))
    hold(Here(), tmp_path)
    said = capsys.readouterr().out
    assert "XProf: http://127.0.0.1:" in said
    assert "It is closed." in said
    # Nothing of the folder in which the program lies is imported.
    assert commands[0][:2] == [sys.executable, "-P"]
    assert commands[0][3] == str(tmp_path)
