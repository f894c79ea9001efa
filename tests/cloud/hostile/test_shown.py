"""Text that workers, people and Google choose, of every kind, through the commands that show it.

Who chooses what: a worker the names, users, states, reasons and problems of runs, labels of losses,
keys of progress files, log lines, disks; whoever may create nodes their names, zones, types and
labels; whoever writes the fleet file its names and folders, which errors quote. What a worker says
is parsed before (test_commands.py); here nothing is, so that each command is safe by itself. What
`init` is told and fetches is in tests/unit/src/commands/test_init.py, `top` in
tests/unit/src/top/test_board.py, every element of the page in tests/unit/src/page/test_render.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import fleet_past
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Ending, RunStatus
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet
from click.testing import CliRunner
from fleet_seen import lab
from hostile import KINDS, controls

from tpu_fleet.cli import main
from tpu_fleet.commands import doctor, runs, status
from tpu_fleet.commands.many import Many
from tpu_fleet.contract import printing
from tpu_fleet.history.record import HISTORY
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.ansible_config import inventory_sources, state_of
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.inventory.read import PlayError


@pytest.fixture(autouse=True)
def of_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands print what has no form: a hostile text stands where a form has a word."""
    monkeypatch.setattr(printing, "written", printing.written.__wrapped__)  # type: ignore[attr-defined]


every_kind = pytest.mark.parametrize("kind", KINDS)


def said(*words: str, code: int = 0, alone: str = "") -> str:
    """Run a command; return what it says, of which nothing steers a terminal.

    `alone` stands in a line of its own, so it is there as text.
    """
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    assert controls(done.output, "\n\t") == []
    assert visible(alone)[:1000].rstrip() in done.output
    return done.output


def told(*words: str, code: int = 0) -> Any:
    """Return what a command prints for programs: all of it, and in ASCII."""
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    assert done.stdout.isascii()
    return json.loads(done.stdout)


def with_all(text: str, one: Any, **more: Any) -> Any:
    """Return a dataclass of which every text is this one."""
    named = {f.name: text for f in fields(one) if isinstance(getattr(one, f.name), str)}
    return replace(one, **{**named, **more})


def spoilt(value: Any, text: str) -> Any:
    """Return plain data of which every text is this one."""
    if isinstance(value, dict):
        return {key: spoilt(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [spoilt(one, text) for one in value]
    return text if isinstance(value, str) else value


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the history of the fleet in this folder."""
    env = {"ANSIBLE_INVENTORY": str(tmp_path / "inv"), "TPU_FLEET_STATE_DIR": str(tmp_path / "s")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return state_of(env, inventory_sources(env, Path.cwd())) / HISTORY


@every_kind
def test_status(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, now = KINDS[kind], lab().now()
    rows = [with_all(text, row) for row in now.rows]
    answers = Answers([run_of(text)])
    view = replace(
        now.view,
        **{
            name: spoilt(getattr(now.view, name), text)
            for name in ("nodes", "queued", "grant", "prices", "warnings", "unreachable_zones")
        },
    )
    view = replace(view, warnings=[text])
    monkeypatch.setattr(status, "collect", lambda: (rows, answers, view))
    said("status", alone=f"Warning: {text}")
    assert told("status")["workers"][0]["zone"] == text
    monkeypatch.setattr(status, "collect", lambda: (rows, answers, replace(view, problem=text)))
    said("status")


def run_of(text: str) -> Run:
    """Return a run of which every text is this one."""
    status = RunStatus(
        text, text, text, 1, text, text, step=7, loss=text, reason=text, problems=(text,),
        behind=text, behind_user=text, log_path=text, ending=Ending("", (text, text)),
        loss_trouble={"what": text, "step": 7, "at": 5.0}, exit_code=1, saved_at=5.0, since=5.0,
    )  # fmt: skip
    return Run(text, text, 0, text, status, 9.0)


@every_kind
def test_runs(kind: str, monkeypatch: pytest.MonkeyPatch, history: Path) -> None:
    text = KINDS[kind]
    lost = Result("w1", Kind.REFUSED, says=text, remedy=text)
    answers = Answers([run_of(text)], [Result("w0", Kind.DONE, 0), lost])
    known = Known(Path("/ssh_config"), Fleet({}, {}))
    monkeypatch.setattr(runs, "ask_for_runs", lambda *_: answers)
    monkeypatch.setattr(runs, "remember", lambda *_: None)
    monkeypatch.setattr(Many, "workers", lambda _self: (known, ["w0", "w1"]))
    said("runs", code=2)
    assert told("runs", code=2)["runs"][0]["reasons"] == [text]
    said("runs", "--", f"x{text}", code=2)


@every_kind
def test_history_and_page(kind: str, history: Path) -> None:
    text, now = KINDS[kind], time.time()
    fleet_past.spoilt(history, text, now).close()
    said("history")
    kept = text.encode("utf-8", "replace").decode("utf-8")
    assert kept in {event["name"] for event in told("history")["events"]}
    said("history", "--", f"x{text}", code=1)


@every_kind
def test_doctor(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = KINDS[kind]
    row = dict.fromkeys(("host", "check", "subject", "says", "remedy"), text)
    rows = [{**row, "hosts": [text], "status": "fail"}]
    report: dict[str, Any] = {"rows": rows, "exit_code": 2, "status": "fail"}
    report["lines"] = [f"fixed: {text}", text, f"1 fail: {text}"]
    monkeypatch.setattr(doctor, "ask_doctor", lambda *_: report)
    said("doctor", code=2, alone=f"fixed: {text}")
    assert told("doctor", code=2)["rows"][0]["says"] == text

    def fails(*_: Any) -> Any:
        raise PlayError(text)

    monkeypatch.setattr(doctor, "ask_doctor", fails)
    said("doctor", code=2)


@every_kind
@pytest.mark.parametrize("failure", [PlayError, InventoryError])
def test_errors_that_quote_the_fleet_file(
    kind: str, failure: Callable[[str], Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Any:
        raise failure(KINDS[kind])

    monkeypatch.setattr(status, "collect", fails)
    said("status", code=1, alone=f"Error: {KINDS[kind]}")
