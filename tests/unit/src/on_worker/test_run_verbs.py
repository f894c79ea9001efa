"""What stop, start and retry do on a worker."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.definition import (
    _unit_file,
)

from tpu_fleet.on_worker import run_verbs
from tpu_fleet.on_worker.run_verbs import Refused, Verbs

UNIT = "tpu-fleet-run@digits.service"


class Called:
    """The programs that were called, and what they answer."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes: dict[str, int] = {}

    def __call__(self, *words: str) -> tuple[int, str]:
        text = " ".join(words)
        self.words.append(text)
        return next((code for part, code in self.codes.items() if part in text), 0), "it says no"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    found = Called()
    monkeypatch.setattr(run_verbs, "call", found)
    return found


@pytest.fixture
def verbs(tmp_path: Path) -> Verbs:
    found = Verbs(tmp_path)
    found.files.definitions.mkdir(parents=True)
    (found.files.definitions / "digits.json").write_text("{}")
    found.units.mkdir(parents=True)
    text = str(_unit_file({"name": "digits", "grace": 1})["content"])
    # The role writes the path of a machine.
    text = text.replace("!/var/", f"!{tmp_path}/var/")
    (found.units / UNIT).write_text(text)
    return found


def test_stop_marks_the_run_before_systemd_stops_it(
    verbs: Verbs, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = []

    def call(*words: str) -> tuple[int, str]:
        marked.append(verbs.files.stopped_by("digits"))
        return called(*words)

    monkeypatch.setattr(run_verbs, "call", call)
    verbs.stop("digits", "eve@x")
    assert marked == ["eve@x"]
    assert called.words == [f"/usr/bin/systemctl stop --no-block {UNIT}"]
    mark = verbs.files.mark("digits")
    assert stat.S_IMODE(mark.stat().st_mode) == 0o644
    assert [path.name for path in mark.parent.iterdir()] == [mark.name]
    verbs.stop("digits", "bob@y")
    assert json.loads(mark.read_text())["by"] == "eve@x"


def test_a_machine_that_would_start_it_again_is_refused(verbs: Verbs, called: Called) -> None:
    (verbs.units / UNIT).write_text("[Unit]\n")
    with pytest.raises(Refused, match="an earlier version set it up"):
        verbs.stop("digits", "eve@x")
    assert called.words == []
    assert not verbs.files.mark("digits").exists()


def test_start_removes_the_mark(verbs: Verbs, called: Called) -> None:
    verbs.stop("digits", "eve@x")
    verbs.start("digits", "eve@x")
    assert not verbs.files.mark("digits").exists()
    assert called.words[-1] == f"/usr/bin/systemctl start --no-block {UNIT}"
    # What systemctl alone has stopped.
    verbs.start("digits", "eve@x")


def test_a_run_that_is_not_enabled_is_not_started(verbs: Verbs, called: Called) -> None:
    verbs.stop("digits", "eve@x")
    called.codes["is-enabled"] = 1
    with pytest.raises(Refused, match="it has enabled: false"):
        verbs.start("digits", "eve@x")
    assert verbs.files.mark("digits").exists()


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_a_run_that_is_not_declared_here(verbs: Verbs, called: Called, verb: str) -> None:
    for run in ("words", "../digits"):
        with pytest.raises(Refused, match="it is not declared here any more"):
            getattr(verbs, verb)(run, "eve@x")
    assert called.words == []


def test_retry_asks_the_agent(verbs: Verbs, called: Called) -> None:
    verbs.retry("digits", "eve@x")
    assert called.words == ["/usr/local/bin/tpu-fleet-run again digits"]
    called.codes["again"] = 2
    with pytest.raises(Refused, match="it says no"):
        verbs.retry("digits", "eve@x")
    verbs.stop("digits", "eve@x")
    with pytest.raises(Refused, match="to start it: tpu-fleet start digits"):
        verbs.retry("digits", "eve@x")


def test_one_refused_run_refuses_no_other(
    verbs: Verbs,
    called: Called,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verbs.files.boot.parent.mkdir(parents=True)
    verbs.files.boot.write_text("boot")
    order = {"do": "stop", "runs": ["words", "digits"], "by": "eve@x"}
    monkeypatch.setattr(run_verbs.sys, "argv", ["x", json.dumps(order)])
    monkeypatch.setattr(run_verbs, "Verbs", lambda: verbs)
    monkeypatch.setattr(run_verbs, "listing", lambda _files: {"runs": []})
    monkeypatch.setattr(run_verbs, "send", lambda *_piece: None)
    assert run_verbs.main() == 1
    assert capsys.readouterr().err == "words: it is not declared here any more\n"
    assert verbs.files.stopped_by("digits") == "eve@x"


def test_a_program_that_is_missing_is_said() -> None:
    code, said = run_verbs.call("/nowhere/it")
    assert code == 1
    assert "No such file" in said
    assert run_verbs.call("/bin/sh", "-c", "echo a; echo b >&2; exit 3") == (3, "b")
