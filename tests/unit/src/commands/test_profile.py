"""profile: which workers, what is refused, what is said, and where the files are in the end."""

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
from click.testing import CliRunner

from tpu_fleet.commands import profile as command
from tpu_fleet.commands import profile_open
from tpu_fleet.commands.many import Many
from tpu_fleet.commands.profile import (
    Recorded,
    Wanted,
    carry_out,
    chosen_runs,
    numbers,
    other_steps,
)
from tpu_fleet.workers.ask.on_all import Job
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.profile.bring import Answer, Bringer, Profile
from tpu_fleet.workers.profile.trace import _types

WORKERS = ("pair-w0", "pair-w1")
KNOWN = Known(
    Path("/s/ssh_config"),
    Fleet(
        {name: Target(name, "192.0.2.1", user="ubuntu") for name in WORKERS},
        groups={"tpu_slice_pair": list(WORKERS)},
    ),
)
MANY = Many((), None)
ALL = Wanted("digits", 5.0, None)


def run(host: str, state: str = "running", name: str = "digits") -> Run:
    worker = int(host.rpartition("-w")[2])
    status = RunStatus(name, user="alice", state=state, worker=worker, workers=2, attempt=3)
    return Run(host, "pair", worker, state, status, 0.0)


class World:
    """Workers with a run, and what each sends."""

    def __init__(self, folder: Path) -> None:
        self.runs = [run(name) for name in WORKERS]
        self.folder = folder
        self.missing: dict[str, str] = {}
        self.away: set[str] = set()
        self.steps = {"pair-w0": (10, 40), "pair-w1": (11, 41)}
        self.command = ""
        self.data = _types()["XSpace"]().SerializeToString() + b"\x08\x01"

    def ask(self, _known: Known, names: Sequence[str], *_more: Any, **_also: Any) -> Answers:
        runs = [one for one in self.runs if one.host in names]
        return Answers(runs, [self.result(name) for name in names])

    def result(self, name: str, value: Any = None) -> Result:
        if name in self.away:
            return Result(name, Kind.TIMEOUT, says="no answer", remedy="Try again.")
        return Result(name, Kind.DONE, exit_status=0, value=value)

    def on_all(
        self, _known: Known, names: Sequence[str], job: Job, _view: Any, retry: bool
    ) -> list[Result]:
        assert not retry
        assert not isinstance(job.command, str)
        self.command = job.command(KNOWN.fleet.targets[names[0]])
        assert job.talk is not None
        bringer = job.talk.__self__  # type: ignore[attr-defined]
        return [self.result(name, self._answer(name, bringer)) for name in names]

    def _answer(self, name: str, bringer: Bringer) -> Answer | None:
        if name in self.away:
            return None
        if name in self.missing:
            return Answer(missing=(self.missing[name],))
        path = bringer.folder / f"{name}.xplane.pb"
        path.write_bytes(self.data)
        size = len(self.data)
        return Answer((Profile(name, 7, path, size, "jax 0.12.0", 0.0, 5.0, *self.steps[name]),))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "ask_for_runs", made.ask)
    monkeypatch.setattr(command, "on_all", made.on_all)
    monkeypatch.setattr(command, "known_fleet", lambda _refresh: KNOWN)
    monkeypatch.setattr(Many, "chosen", lambda _self, choose: (KNOWN, choose(KNOWN)))
    return made


def test_all_workers_are_in_one_session_of_one_folder(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carry_out(MANY, ALL, None, opens=False, as_json=False) == 0
    (folder,) = world.folder.iterdir()
    (session,) = (folder / "plugins/profile").iterdir()
    assert folder.name.startswith("digits-profile-")
    assert sorted(path.name for path in session.iterdir()) == [
        "pair-w0.xplane.pb",
        "pair-w1.xplane.pb",
    ]
    assert f"XProf opens {folder.name}" in capsys.readouterr().out
    assert world.command.startswith("exec sudo -n -u alice ")


def test_for_programs(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    world.missing["pair-w1"] = "none of its processes has imported JAX"
    to = tmp_path / "profiles"
    assert carry_out(MANY, ALL, to, opens=False, as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    (profile,) = told["profiles"]
    assert Path(profile["file"]).read_bytes() == world.data
    assert Path(told["folder"]).parent == to
    assert (profile["worker"], profile["first_step"], profile["last_step"]) == ("pair-w0", 10, 40)
    assert (profile["devices"], profile["idle"]) == (0, None)
    assert told["missing"] == [{"worker": "pair-w1", "says": world.missing["pair-w1"]}]
    assert told["exit_code"] == 1


def test_a_worker_that_was_not_reached_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.away = {"pair-w1"}
    assert carry_out(MANY, ALL, None, opens=False, as_json=False) == 2
    assert "pair-w1: timeout: no answer. Try again." in capsys.readouterr().err


def test_without_a_profile_there_is_no_folder(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.missing = dict.fromkeys(WORKERS, "no process of its program is there now")
    assert carry_out(MANY, ALL, None, opens=False, as_json=False) == 1
    assert list(world.folder.iterdir()) == []
    assert "pair-w0: no process of its program is there now" in capsys.readouterr().err


def test_a_file_that_is_no_profile_is_kept_and_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.data = b"\xff" * 9
    assert carry_out(MANY, ALL, None, opens=False, as_json=False) == 1
    assert "pair-w0: pair-w0.xplane.pb is no profile of XLA" in capsys.readouterr().err


def test_a_profile_that_is_too_large_is_kept_and_not_summed_up(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpu_fleet.workers.profile.trace.MOST_BYTES", 1)
    assert carry_out(MANY, ALL, None, opens=False, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["notes"][0].startswith("pair-w0.xplane.pb is too large to be summed up here")
    assert len(told["profiles"]) == 2


def test_some_workers(world: World) -> None:
    found = chosen_runs(KNOWN, MANY, Wanted("digits", 5.0, frozenset({1})))
    assert [one.host for one in found] == ["pair-w1"]
    with pytest.raises(click.ClickException, match="is not on worker 7, 8, but on 0, 1"):
        chosen_runs(KNOWN, MANY, Wanted("digits", 5.0, frozenset({1, 7, 8})))


def test_a_run_that_does_not_run_is_refused(world: World) -> None:
    world.runs = [run(name, "failed") for name in WORKERS] + [run("pair-w0", name="words")]
    with pytest.raises(click.ClickException, match=r"digits is failed on pair-w0\. Running: words"):
        chosen_runs(KNOWN, MANY, ALL)


def test_an_unknown_run_is_refused_and_may_be_on_a_worker_that_is_away(world: World) -> None:
    with pytest.raises(click.ClickException, match="digit") as caught:
        chosen_runs(KNOWN, MANY, Wanted("digit", 5.0, None))
    assert caught.value.exit_code == 1
    world.away = {"pair-w1"}
    with pytest.raises(click.ClickException, match="digit") as caught:
        chosen_runs(KNOWN, MANY, Wanted("digit", 5.0, None))
    assert caught.value.exit_code == 2


def test_steps_that_no_two_workers_share_are_named(world: World) -> None:
    world.steps["pair-w1"] = (41, 50)
    recorded = Recorded(ALL)
    recorded.found = [
        (Profile(name, 7, Path(f"{name}.xplane.pb"), 1, "", 0.0, 5.0, *steps), None)
        for name, steps in world.steps.items()
    ]
    assert other_steps(recorded) == (
        "They have no step in common: pair-w0 10 to 40, pair-w1 41 to 50"
    )
    recorded.found = recorded.found[:1]
    assert other_steps(recorded) == ""


@pytest.mark.parametrize(
    ("text", "expected"), [("3", {3}), ("0,2-4", {0, 2, 3, 4}), ("5-4", set()), (" 1, 2", {1, 2})]
)
def test_numbers_of_workers(text: str, expected: set[int]) -> None:
    assert numbers(None, None, text) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "999999", "1-2-3", "²"])
def test_what_is_no_number_of_a_worker_is_refused(text: str) -> None:
    result = CliRunner().invoke(command.profile, ["digits", "--workers", text])
    assert result.exit_code == 2
    assert "are no numbers of workers: write them as 0,2-3" in result.output


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--seconds", "61"], ["--open", "--json"]])
def test_options_that_do_not_fit_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(command.profile, ["digits", *words]).exit_code == 2


def test_where_it_would_open_is_known_before_anything_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> None:
        raise click.ClickException(profile_open.NOWHERE)

    monkeypatch.setattr(profile_open, "way", nowhere)
    with pytest.raises(click.ClickException, match="There is no XProf"):
        carry_out(MANY, ALL, None, opens=True, as_json=False)
    assert world.command == ""


def test_it_is_opened_when_it_is_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(profile_open, "way", profile_open.Here)
    monkeypatch.setattr(profile_open, "hold", lambda _way, folder: opened.append(folder))
    assert carry_out(MANY, ALL, None, opens=True, as_json=False) == 0
    assert opened == list(world.folder.iterdir())
