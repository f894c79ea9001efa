"""stop, start and retry: what is refused, what is waited for, and what is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.commands import retry, start, stop, verbs
from tpu_fleet.commands.many import Many
from tpu_fleet.commands.verbs import Verb, carry_out, gangs_of
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.hosts import Known

WORKERS = ("pair-w0", "pair-w1", "solo")
GROUPS = {"tpu_slice_pair": ["pair-w0", "pair-w1"], "tpu_slice_solo": ["solo"]}
KNOWN = Known(
    Path("/s/ssh_config"),
    Fleet({name: Target(name, "192.0.2.1", user="ubuntu") for name in WORKERS}, groups=GROUPS),
)


def run(host: str, state: str = "running", name: str = "digits", **more: Any) -> Run:
    slice_name, _w, worker = host.partition("-w")
    index = int(worker or 0)
    told = {"worker": index, "workers": 1 if host == "solo" else 2, "attempt": 3, **more}
    status = RunStatus(name, user="alice", state=state, **told)
    return Run(host, slice_name, index, state, status, 0.0)


PAIR = [run("pair-w0"), run("pair-w1")]
Looks = list[list[Run]]


class World:
    """Workers that answer look by look; the last answer repeats."""

    def __init__(self) -> None:
        self.looks: Looks = []
        self.away: set[str] = set()
        self.refusals: dict[str, str] = {}
        self.asked: list[str] = []

    def ask(self, _known: Known, names: Sequence[str], *_more: Any, **_also: Any) -> Answers:
        runs = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        answers = Answers(runs=[one for one in runs if one.host in set(names) - self.away])
        answers.results = [self.result(name) for name in names]
        return answers

    def result(self, name: str) -> Result:
        if name in self.away:
            return Result(name, Kind.TIMEOUT, says="no answer", remedy="")
        return Result(name, Kind.DONE, exit_status=0)

    def do(self, _known: Known, names: Sequence[str], _job: Any, *_more: Any) -> list[Result]:
        self.asked = list(names)
        found = []
        for name in names:
            says = self.refusals.get(name, "")
            result = self.result(name)
            if says:
                result = Result(name, Kind.DONE, exit_status=1, stderr=f"{says}\n".encode())
            found.append(result)
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    monkeypatch.setattr(verbs, "ask_for_runs", found.ask)
    monkeypatch.setattr(verbs, "on_all", found.do)
    monkeypatch.setattr(verbs, "understood", lambda _known, result: (said(result), [], None))
    monkeypatch.setattr(verbs, "known_fleet", lambda _refresh: KNOWN)
    monkeypatch.setattr(
        "tpu_fleet.commands.many.chosen", lambda choose, _refresh: (KNOWN, choose(KNOWN))
    )
    monkeypatch.setattr(verbs, "remember", lambda *_seen: None)
    monkeypatch.setattr(verbs, "PAUSES", (0.0,))
    return found


def said(result: Result) -> Result:
    lines = result.stderr.decode().splitlines()
    return Result(result.name, result.kind, result.exit_status, says=lines[-1]) if lines else result


def do(verb: Verb, *names: str, seconds: float | None = None, **more: Any) -> int:
    options = {"slices": [], "limit": None, **more}
    many = Many(timeout=seconds, refresh=False, **options)
    return carry_out(verb, many, names, False)


def of(state: str, **more: Any) -> list[Run]:
    return [run("pair-w0", state, **more), run("pair-w1", state, **more)]


def test_stop_waits_for_all_workers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    half = [run("pair-w0", "stopped"), run("pair-w1")]
    world.looks = [PAIR, PAIR, half, of("stopped", step=40)]
    assert do(stop.VERB, "digits") == 0
    assert world.asked == ["pair-w0", "pair-w1"]
    assert capsys.readouterr().out == ("digits on pair: stopped on 2 workers, at about step 40\n")


def test_each_slice_has_its_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.looks = [[*PAIR, run("solo", "failed")], [*of("stopped"), run("solo", "failed")]]
    assert do(stop.VERB, "digits") == 0
    assert world.asked == ["pair-w0", "pair-w1"]
    assert capsys.readouterr().out == (
        "digits on solo: failed: nothing to stop\ndigits on pair: stopped on 2 workers\n"
    )


def test_an_unknown_run_changes_nothing(world: World) -> None:
    world.looks = [PAIR]
    with pytest.raises(click.ClickException, match=r"no run digit\. Did you mean digits"):
        do(stop.VERB, "digits", "digit")
    assert world.asked == []


@pytest.mark.parametrize("verb", [stop.VERB, start.VERB, retry.VERB])
@pytest.mark.parametrize(
    ("more", "where"),
    [({"slices": ["solo"]}, "slice solo"), ({"limit": "pair-w1"}, "pair-w1"), ({}, "")],
)
def test_a_run_that_the_chosen_workers_lack_is_reported_with_their_name(
    world: World, verb: Verb, more: dict[str, Any], where: str
) -> None:
    world.looks = [[run("solo", name="words"), run("pair-w1", name="words")]]
    says = rf"There is no run digits{where and f' on {where}'}\. There is words"
    with pytest.raises(click.ClickException, match=says):
        do(verb, "digits", **more)
    assert world.asked == []


def test_a_run_that_a_lost_worker_may_have_is_not_called_unknown(world: World) -> None:
    world.looks, world.away = [PAIR], {"solo"}
    with pytest.raises(click.ClickException) as caught:
        do(stop.VERB, "words")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("more", [{"limit": "pair-w0"}, {"slices": ["pair"]}])
def test_a_part_of_a_gang_is_refused(world: World, more: dict[str, Any]) -> None:
    wide = [run(host, run_id="digits-1", workers=3) for host in WORKERS]
    world.looks = [wide]
    with pytest.raises(click.ClickException, match="digits runs on 3 workers as one"):
        do(stop.VERB, "digits", **more)
    assert world.asked == []
    [gang] = gangs_of(KNOWN, WORKERS, wide, "digits")
    assert gang.hosts == WORKERS


def test_slices_that_train_apart_are_gangs_of_their_own() -> None:
    apart = [*of("running", run_id="digits-1"), run("solo", run_id="digits-2")]
    gangs = gangs_of(KNOWN, WORKERS, apart, "digits")
    assert [gang.hosts for gang in gangs] == [("pair-w0", "pair-w1"), ("solo",)]


def test_a_worker_that_does_not_answer_is_named_with_what_remains(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.looks, world.away = [PAIR, of("stopped")], {"pair-w1"}
    assert do(stop.VERB, "digits") == 2
    shown = capsys.readouterr()
    assert shown.out == "digits on pair: stopped on 1 of 2 workers\n"
    assert "pair-w1: timeout: no answer." in shown.err.replace("timed out", "timeout")
    assert "pair-w1: digits is not stopped there." in shown.err
    assert "When they answer: tpu-fleet stop digits" in shown.err


def test_who_has_no_sudo_is_told_so(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.looks = [PAIR]
    world.refusals = dict.fromkeys(WORKERS, "sudo: a password is required")
    assert do(stop.VERB, "digits") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "this login may not use sudo there (sudo: a password is required)" in shown.err
    assert "Ask an administrator, or log in as one with --user." in shown.err


def test_what_does_not_stop_in_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.looks = [PAIR, of("running", reason="eve@x stopped it")]
    assert do(stop.VERB, "digits", seconds=0.01) == 1
    assert capsys.readouterr().out == "digits on pair: running after 0 s: eve@x stopped it\n"


@pytest.mark.parametrize(
    ("last", "line"),
    [
        (of("running"), "running on 2 workers, attempt 3"),
        (of("pending", behind="words", behind_user="bob"), "pending: waits for words of bob"),
        (of("failed"), "failed; to try it again: tpu-fleet retry digits"),
    ],
)
def test_start(
    world: World, capsys: pytest.CaptureFixture[str], last: list[Run], line: str
) -> None:
    world.looks = [of("stopped"), of("stopped"), of("not back since the reboot"), last]
    assert do(start.VERB, "digits") == 0
    assert capsys.readouterr().out == f"digits on pair: {line}\n"


def test_retry_is_for_runs_that_have_ended(world: World) -> None:
    world.looks = [[*PAIR, run("solo", "stopped")]]
    with pytest.raises(click.ClickException) as caught:
        do(retry.VERB, "digits")
    assert caught.value.message == (
        "digits is running on pair, stopped on solo. Only a run that has succeeded or failed is "
        "tried again; to start a stopped one: tpu-fleet start digits"
    )
    assert world.asked == []


def test_retry_asks_worker_0_and_waits_for_the_next_attempt(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = of("failed")
    world.looks = [ended, ended, of("pending"), of("running", attempt=4)]
    assert do(retry.VERB, "digits") == 0
    assert world.asked == ["pair-w0"]
    assert capsys.readouterr().out == "digits on pair: attempt 4 has begun on 2 workers\n"


def test_the_others_of_a_run_are_not_tried_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.looks = [[*PAIR, run("solo", "failed")], [*PAIR, run("solo", attempt=4)]]
    assert do(retry.VERB, "digits") == 0
    assert world.asked == ["solo"]
    assert capsys.readouterr().out.splitlines() == [
        "digits on pair: running: not tried again",
        "digits on solo: attempt 4 has begun",
    ]


def test_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.looks = [PAIR, of("stopped")]
    many = Many([], None, refresh=False)
    assert carry_out(stop.VERB, many, ["digits"], True) == 0
    told = json.loads(capsys.readouterr().out)
    [row] = told["runs"]
    row.pop("seconds")
    assert (told["no_result"], told["exit_code"]) == ([], 0)
    assert row == {
        "run": "digits",
        "slice": "pair",
        "workers": ["pair-w0", "pair-w1"],
        "state_before": "running",
        "state": "stopped",
        "attempt": 3,
        "step": None,
        "why": "",
        "done": True,
    }
