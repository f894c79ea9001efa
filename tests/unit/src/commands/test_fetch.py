"""What the events of the playbook mean for a person who fetches files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import Life
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from tpu_fleet.commands.fetch import BOOK, Gone, Report, summary, workers_with
from tpu_fleet.workers.archive.declared import Kept
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_view import Run


def event(host: str, **result: Any) -> dict[str, Any]:
    data = {"host": host, "task_action": BOOK, "res": result}
    return {"event": "runner_on_ok", "event_data": data}


def brought(host: str, files: int, *missing: str) -> dict[str, Any]:
    folder = str(Path.cwd() / "collected/digits" / host)
    return event(host, run="digits", folder=folder, files=files, missing=list(missing))


def test_a_line_for_each_worker(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(as_json=False)
    for one in (
        brought("pair-w0", 3),
        brought("pair-w1", 1, "plots", "best.npz"),
        brought("solo", 0),
        # This worker has nothing of the run, and that one's task was another.
        event("other", run="digits", changed=False),
        {"event": "runner_on_ok", "event_data": {"task_action": "set_fact", "res": {}}},
    ):
        report.on_event(one)
    assert capsys.readouterr().out.splitlines() == [
        "digits on pair-w0: 3 new files in collected/digits/pair-w0",
        "digits on pair-w1: 1 new file in collected/digits/pair-w1; not there: plots, best.npz",
        "digits on solo: nothing new for collected/digits/solo",
    ]


def test_a_folder_elsewhere_is_named_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Report(False).on_event(event("solo", run="d", folder="/results/d/solo", files=2, missing=[]))
    assert capsys.readouterr().out == "d on solo: 2 new files in /results/d/solo\n"


def test_a_worker_that_fails_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(as_json=True)
    failure = {"host": "solo", "task": "Fetch new files", "res": {"msg": "rsync: no space"}}
    for _run in range(2):
        report.on_event({"event": "runner_on_failed", "event_data": failure})
    report.on_event(brought("pair-w0", 3))
    assert capsys.readouterr() == ("", "solo: rsync: no space\n")
    told = summary(report, 1)
    assert told["failed"] == [{"worker": "solo", "says": "rsync: no space"}]
    assert [(one["worker"], one["files"]) for one in told["fetched"]] == [("pair-w0", 3)]


def answers(*away: str) -> Answers:
    runs = [
        Run(host, host, 0, "running", RunStatus(name, state="running"), 0.0)
        for host, name in (("solo", "digits"), ("pair-w0", "digits"), ("pair-w0", "words"))
    ]
    return Answers(runs, [Result(name, Kind.TIMEOUT) for name in away])


def test_only_workers_that_have_the_runs_are_asked_for_files() -> None:
    assert workers_with(answers(), ["words"]) == ["pair-w0"]
    assert workers_with(answers(), ["words", "digits"]) == ["pair-w0", "solo"]


@pytest.mark.parametrize(("away", "code"), [((), 1), (("other",), 2)])
def test_an_unknown_run_fetches_nothing(away: tuple[str, ...], code: int) -> None:
    with pytest.raises(click.ClickException, match=r"no run word\. Did you mean words\?") as caught:
        workers_with(answers(*away), ["digits", "word"])
    assert caught.value.exit_code == code


def test_an_archive_counts_only_with_a_machine_that_is_meant() -> None:
    """With --slice of another slice, nothing was fetched, and nothing said so."""
    kept = [Kept("short", "gs://b/short", cast(Any, None), [Life("solo", "solo", "1")])]
    assert Gone(["short"], lambda life: life.slice == "solo").archived(kept) == ["short"]
    assert Gone(["short"], lambda life: life.slice == "pair").archived(kept) == []
    with pytest.raises(click.ClickException, match="no run short"):
        workers_with(answers(), ["short"], [])
