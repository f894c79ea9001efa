"""Workers in other hands, asked by the commands and the watcher, each answering its own nonsense.

One case is one hostile worker that is asked one question, among honest ones. The connections are a
stand-in; everything that takes answers is the real thing.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import string
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
import run_evidence as evidence_of_workers
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import REFUSED
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import run as apply_run
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import talk as apply_talk
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.report import lines_of, recap
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.wish import Order
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import fan_out
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Settings
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target
from click.testing import CliRunner
from hostile import Said, controls, said, snapshot, texts
from rich.cells import cell_len
from slices_seen import slice_seen

from tpu_fleet.commands import runs as runs_command
from tpu_fleet.commands import why as why_command
from tpu_fleet.commands.many import Many
from tpu_fleet.history.record import places_known
from tpu_fleet.history.store import History, Look
from tpu_fleet.notify.message import Message
from tpu_fleet.notify.outbox import Outbox, Way
from tpu_fleet.notify.render import as_json, environment, notice
from tpu_fleet.on_worker.run_reader import BEGINNING
from tpu_fleet.page import render
from tpu_fleet.page.model import page_of
from tpu_fleet.page.render import html_of
from tpu_fleet.show.output import Tagged, problems
from tpu_fleet.top.board import Board
from tpu_fleet.top.lines import Now, rows_known
from tpu_fleet.watch import ask_hosts
from tpu_fleet.watch.after import in_use, look_after
from tpu_fleet.watch.decide import Job
from tpu_fleet.watch.hosts import HostSeen, hear, host_of
from tpu_fleet.watch.jobs import variables_of
from tpu_fleet.watch.memory import Memory, SliceMemory
from tpu_fleet.watch.note import of_hosts
from tpu_fleet.workers.ask import on_all, run_answers, run_evidence
from tpu_fleet.workers.ask.run_follow import RunFollower
from tpu_fleet.workers.inventory.fleet_facts import FleetView
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.logs import follow as log_follow
from tpu_fleet.workers.logs.follow import Follower, WantedLogs, results_of

sys.path.insert(0, str(Path(__file__).parent))

from stand_in import install

SEED = int(os.environ.get("TPU_FLEET_HOSTILE_SEED", "20261123"))
CASES = 420
HONEST = ("honest-first", "honest-last")
# Letters alone: numbers are folded where names are listed.
EVIL = ["evil" + "".join(word) for word in product(string.ascii_lowercase, repeat=2)][:CASES]
NAMES = [HONEST[0], *EVIL, HONEST[1]]
LIMIT = 1.5
"""Seconds instead of a minute for those who never end."""

STATUS = {
    "run": "digits",
    "user": "alice",
    "state": "failed",
    "attempt": 2,
    "run_id": "r-1",
    "boot_id": "b",
    "worker": 0,
    "workers": 1,
    "pid": 7,
    "step": 40,
    "step_at": 1000.0,
    "start": 900.0,
    "end": 1100.0,
    "since": 1100.0,
    "exit_code": 1,
    "signal": None,
    "reason": "exit code 1",
    "problems": ["the disk is full"],
    "queue": {"behind": "words", "user": "bob"},
    "log_path": "/var/log/tpu-fleet/runs/digits/run.log",
}


@pytest.fixture(scope="module", autouse=True)
def count() -> Iterator[None]:
    """Say how many cases there were, and by which seed."""
    asked: list[int] = []
    globals()["ASKED"] = asked
    yield
    os.write(
        sys.__stdout__.fileno(),
        f"\nnote: hostile answers: {sum(asked)} cases, seed {SEED}\n".encode(),
    )


class Controller:
    """Folders that no other user may write to, and a file that exists when a command was run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.canary = folder, folder / "canary"
        self.home = folder / "home"
        self.home.mkdir()
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.chdir(self.home)
        monkeypatch.setattr(on_all, "_where_now", lambda _names: [])
        for module, name in ((run_answers, "SECONDS"), (log_follow, "SILENCE")):
            monkeypatch.setattr(module, name, LIMIT)
        monkeypatch.setattr(ask_hosts, "SECONDS", LIMIT)
        monkeypatch.setattr(apply_talk, "SILENCE", LIMIT)
        monkeypatch.setattr(fan_out, "LAST_WORDS", LIMIT)
        self.monkeypatch = monkeypatch
        self.before = snapshot(folder)

    def answer(self, honest: Any, frame: Any = lambda data: data) -> None:
        """Let the honest ones say this, and the others nonsense like it."""
        install(
            self.monkeypatch,
            lambda name: (
                Said("honest", frame(json.dumps(honest).encode()))
                if name in HONEST
                else said(honest, EVIL.index(name), SEED, self.canary, frame)
            ),
        )
        globals()["ASKED"].append(CASES)

    def what(self, honest: Any, name: str) -> str:
        """Return what a worker answered, for the search for the fault."""
        return f"{name}, seed {SEED}: {said(honest, EVIL.index(name), SEED, self.canary).what}"

    def unharmed(self, *texts: str) -> None:
        """See that nothing was written or run, and that nothing steers a terminal."""
        for text in texts:
            assert controls(text) == []
        assert snapshot(self.folder) == self.before


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    return Controller(tmp_path, monkeypatch)


def known_fleet() -> Known:
    targets = {name: Target(name, "192.0.2.1", user="ops") for name in NAMES}
    groups = {f"tpu_slice_{name.replace('-', '_')}": (name,) for name in NAMES}
    return Known(Path("/ssh_config"), Fleet(targets, {"tpu": tuple(NAMES), **groups}))


def framed(data: bytes) -> bytes:
    """Write an answer as the reader of runs does."""
    return b"%s\n%s\n%s" % (BEGINNING.encode(), json.dumps({"bytes": len(data)}).encode(), data)


def refused_runs(heard: Iterable[tuple[str, Iterable[Any]]]) -> set[str]:
    """Return the workers of which one run alone is refused: its user chose a value of it."""
    return {name for name, runs in heard for run in runs if run.state == REFUSED}


def test_runs(controller: Controller) -> None:
    """`tpu-fleet runs` has a row for the honest ones, and a line for each answer that is none."""
    honest = {"now": 2000.0, "boot_id": "b", "runs": [STATUS]}
    controller.answer(honest, framed)
    known = known_fleet()
    answers = run_answers.ask_for_runs(known, NAMES)
    assert {result.name for result in answers.results} == set(NAMES)
    assert set(HONEST) <= {run.host for run in answers.runs}
    said_something = {run.host for run in answers.runs}
    refused = {result.name for result in answers.results if not result.ok}
    assert not said_something & refused
    odd = refused_runs((run.host, [run]) for run in answers.runs)
    assert not odd & set(HONEST)
    assert len(refused | odd) > CASES // 3
    named = "\n".join(problems(answers.results))
    controller.unharmed(named)
    controller.monkeypatch.setattr(runs_command, "ask_for_runs", lambda *_: answers)
    controller.monkeypatch.setattr(Many, "workers", lambda _self: (known, NAMES))
    for words in ([], ["--json"]):
        done = CliRunner().invoke(runs_command.runs, words)
        assert done.exit_code in (1, 2), (done.output, done.exception)
        assert all(name in done.stdout for name in HONEST)
        assert "digits" in done.stdout
        controller.unharmed(done.stdout, done.stderr)
    told = json.loads(done.stdout)
    assert {one["worker"] for one in told["no_result"]} == refused


def test_top(controller: Controller) -> None:
    """`tpu-fleet top` shows the honest ones, whatever the others say on their open connections."""
    figures = {"first_step": 10, "first_step_at": 950.0, "loss": 0.5, "saved_at": 990.0}
    disk = {"point": "/", "percent": 41}
    honest = {"now": 2000.0, "boot_id": "b", "runs": [{**STATUS, **figures}], "disk": disk}
    controller.answer(honest, framed)
    known = known_fleet()
    follower = RunFollower(known, 5)
    follower.look_at(NAMES)
    follower.start()
    try:
        deadline = time.monotonic() + 60
        while not (set(HONEST) <= follower.heard.keys() and len(follower.heard) > CASES * 3 // 4):
            assert time.monotonic() < deadline, len(follower.heard)
            time.sleep(0.1)
        assert not follower.trouble
        heard = dict(follower.heard)
    finally:
        follower.stop()
    assert [heard[name].runs[0].status.loss for name in HONEST] == [0.5, 0.5]
    unheard = {name for name, one in heard.items() if one.says and not one.runs}
    assert len(unheard | refused_runs((name, one.runs) for name, one in heard.items())) > CASES // 3
    board = Board()
    board.resize(160, 2 * CASES)
    for view in ("slices", "workers", "runs"):
        board.show(view)
        board.update(Now(rows_known(known), heard, FleetView(), time.monotonic()))
        drawn = ["".join(text for text, _style in line) for line in board.draw()]
        assert {cell_len(line) for line in drawn} == {160}
        assert "digits" in "".join(drawn)
        controller.unharmed("".join(drawn))


class TerminalText(io.TextIOWrapper):
    """A terminal that remembers."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        return cast(io.BytesIO, self.buffer).getvalue().decode()


def test_logs(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    """`tpu-fleet logs` shows the honest logs, and gives those up that send none."""
    lines = "step 1\nstep 2\n"
    pieces = {
        "run": {**STATUS, "state": "running"},
        "at": ["7-1.5", 0, 0],
        "none": None,
        "lost": "",
    }

    def log(data: bytes) -> bytes:
        text = lines.encode() + data[:200].replace(b"digits", b"\x1b]0;x\x07")
        end = b'%s\n%s{"end": ""}\n' % (json.dumps({"bytes": len(text)}).encode(), text)
        return b"%s\n%s\n%s" % (BEGINNING.encode(), data, end)

    controller.answer(pieces, log)
    terminal = TerminalText()
    controller.monkeypatch.setattr(sys, "stdout", terminal)
    wanted = WantedLogs({"run": "digits", "follow": False}, settings=Settings(timeout=2 * LIMIT))
    view = Tagged(NAMES, False)
    follower = Follower(known_fleet(), NAMES, wanted, view)
    began = time.monotonic()
    workers = asyncio.run(follower.run())
    assert time.monotonic() - began < 60
    results = results_of(workers)
    for name in HONEST:
        assert f"{name} | step 1\n{name} | step 2\n" in terminal.text()
        assert next(one for one in workers if one.name == name).end == ""
    lost = [result for result in results if not result.ok]
    assert {result.name for result in lost} >= {one.name for one in workers if one.error}
    assert len(lost) > CASES // 5
    controller.unharmed(terminal.text(), "\n".join(problems(results)), capsys.readouterr().err)


def test_why(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`tpu-fleet why` judges the honest ones, and calls an answer that is none refused."""
    honest = evidence_of_workers.seen(0, evidence_of_workers.QUEUE_GET)
    honest["run"] = {**honest["run"], "name": "digits", "workers": 1}
    controller.answer({"evidence": honest, "text": "process 7: python train.py"}, framed)
    controller.monkeypatch.setattr(run_evidence, "SECONDS", LIMIT)
    controller.monkeypatch.setattr(Many, "workers", lambda _self: (known_fleet(), NAMES))
    kept = tmp_path_factory.mktemp("why") / "kept"
    done = CliRunner().invoke(why_command.why, ["digits", "--json", "-o", str(kept)])
    assert done.exit_code in (1, 2), (done.output, done.exception)
    told = json.loads(done.stdout)
    judged = {one["slice"]: one for one in told["verdicts"]}
    lost = {one["worker"] for one in told["no_result"]}
    assert all("queue.get" in judged[name]["sentence"] for name in HONEST)
    assert not lost & set(HONEST)
    assert len(lost) > CASES // 3
    page = next(kept.rglob("*.html")).read_text()
    assert "<script" not in page
    controller.unharmed(done.stdout, done.stderr, page)
    # What lies in the folder is judged again in the same way.
    again = CliRunner().invoke(why_command.why, ["digits", "--kept", str(kept)])
    assert again.exit_code in (0, 1, 2), (again.output, again.exception)
    assert "queue.get" in again.stdout
    controller.unharmed(again.stdout, again.stderr)


STANDING = {
    "now": 2000.0,
    "boot_id": "b",
    "set_up": True,
    "applied": "0123456789abcdef",
    "used": ["alice is logged in on pts/0"],
    "runs": [
        {
            **STATUS,
            "event": {"reason": "it broke", "tail": ["Traceback", "x"]},
            "past": {
                "events": [
                    {"at": 1000.0, "event": "attempt-started", "attempt": 2},
                    {"at": 1500.0, "event": "progress", "step": 7, "numbers": {"loss": 0.5}},
                    {"at": 1600.0, "event": "attempt-ended", "attempt": 2, "cause": "hung"},
                ],
                "curves": {"train/loss": [[1500.0, 7, 0.5]]},
                "place": {"events": ["1-2", 100, 5], "files": {"1-2": 100}},
            },
        }
    ],
}


def test_watcher(controller: Controller) -> None:
    """The watcher reads every slice; what one says costs the others nothing, and is shown safe."""
    controller.answer(STANDING)
    book = known_fleet().fleet
    looks = ask_hosts.ask(book, NAMES, {})
    assert set(looks) == set(NAMES)
    seen = [slice_seen(name, READY, "", uid=f"u-{name}", addresses=("a",)) for name in NAMES]
    memory = Memory(hosts_known=tuple(f"u-{name}" for name in NAMES))
    now = time.time()
    heard = hear(memory, seen, looks, {name: ["digits"] for name in NAMES}, now)
    by_slice = {message.slice: message for message in heard.messages}
    for name in HONEST:
        assert by_slice[name].title == f"digits failed on {name}"
        assert by_slice[name].log == ("Traceback", "x")
    away = {name for name in NAMES if heard.away.get(name)}
    assert not away & set(HONEST)
    refused = refused_runs((name, host.runs) for name in NAMES for host in looks[name].values())
    assert not refused & set(HONEST)
    assert len(away | refused) > CASES // 3
    for one in seen:
        look_after(SliceMemory(uid=one.uid), one, looks[one.name], ["digits"], now)
    used = [text for name in NAMES for text in in_use(looks[name])]
    status = json.dumps(heard.runs, ensure_ascii=False)
    Memory.from_dict(json.loads(json.dumps(heard.memory.to_dict())))
    controller.unharmed(status, *used, *heard.away.values(), *heard.known_already)
    # Every message can be sent by every way, and the last one is not held back by the others.
    end = Message("grant_ending", "The grant ends", "Soon.", now, key="g")
    assert len(heard.messages) > CASES // 5
    assert sendable(controller, [*heard.messages, end])[-1].title == "The grant ends"
    told = sendable(controller, delivered(Outbox().put([end, *heard.messages], [WAY], now), now))
    assert "The grant ends" in "\n".join(f"{one.title}\n{one.text}" for one in told)


OURS = Path(render.__file__).with_name("ages.js").read_text().strip()


def test_history_and_page(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a worker makes up is kept and shown as its own, and as text; the others' is there."""
    controller.answer(STANDING)
    found = Look(2000.0)
    of_hosts(found, ask_hosts.ask(known_fleet().fleet, NAMES, {}))
    history = History(tmp_path_factory.mktemp("kept") / "history.db")
    history.add(found)
    # The places that workers chose go back to them, and to nobody else.
    places = places_known(history)
    assert all(len(places[name]) == 1 for name in HONEST)
    page = page_of(history, "my-project", 2000.0)
    html = html_of(page)
    history.close()
    runs = {card.story.name: card for card in page.runs}
    for name in HONEST:
        card = runs[f"{name}/digits"]
        assert [one.kind for one in card.story.attempts] == ["hung"]
        assert {curve.name for curve in card.curves} == {"loss", "train/loss"}
    controller.unharmed(html)
    # The page's own one, which its policy allows by its hash.
    assert re.findall(r"<script.*?</script>", html, re.S | re.I) == [f"<script>{OURS}</script>"]


WAY = Way("mail")


def sendable(controller: Controller, messages: Sequence[Message]) -> Sequence[Message]:
    """See that every way can send the messages, and that they steer nothing."""
    for message in messages:
        told = notice(message, 20)
        assert controls("\n".join(told.values())) == []
        env = "".join(environment(message).values())
        assert controls("\n".join((message.title, message.text, *message.log, env))) == []
        assert json.loads(as_json(message, 20))["title"] == message.title
    controller.unharmed()
    return messages


def delivered(outbox: Outbox, now: float) -> list[Message]:
    """Return what goes out by a way with the usual limit until nothing waits."""
    sent = []
    while outbox.boxes[WAY.name].waiting:
        outbox = outbox.settle(WAY, now)
        if message := outbox.due(WAY, now):
            outbox = outbox.went(WAY, now)
            sent.append(message)
        else:
            now += 600
    return sent


def test_a_worker_that_makes_up_runs(controller: Controller) -> None:
    """What others have to say goes out, whatever one worker makes up at every look."""
    now = time.time()
    seen = [slice_seen("evil", READY, "", uid="u", addresses=("a",))]
    news = [
        Message("grant_ending", "The grant ends", "Soon.", now, key="grant:g"),
        Message("failed", "digits failed on alice", "", now, slice="alice", key="run:alice:d:1:1"),
    ]
    memory = Memory(hosts_known=("u",), outbox=Outbox().put(news, [WAY], now))
    for look in range(12):
        runs = [{**STATUS, "run": f"r{n}", "run_id": f"{look}-{n}"} for n in range(1000)]
        said = host_of("evil", json.dumps({**STANDING, "runs": runs}).encode())
        heard = hear(memory, seen, {"evil": {"evil": said}}, {}, now)
        outbox = heard.memory.outbox
        outbox = replace(outbox, told={**outbox.told, **dict.fromkeys(heard.known_already, now)})
        memory = replace(heard.memory, outbox=outbox.put(heard.messages, [WAY], now))
    told = sendable(controller, delivered(memory.outbox, now))
    text = "\n".join(f"{one.title}\n{one.text}" for one in told)
    assert all(one.title in text for one in news)
    for form in (as_json, notice):
        bodies = "".join(str(form(one, 20)) for one in told)
        assert all(one.title in bodies for one in news)
    assert "and 980 more on evil" in text
    assert all(memory.outbox.knows(one.key) for one in news)


def test_what_the_watcher_gives_to_ansible(controller: Controller) -> None:
    """No worker's text is a template on the controller when its slice is put to rest."""
    over = {**STATUS, "state": "succeeded"}
    standing = {**STANDING, "used": [], "runs": [over]}
    evil = texts(controller.canary)
    looks = [
        host_of("evil", json.dumps({**standing, **more}).encode())
        for text in evil
        for more in (
            *({"runs": [{**over, key: text}]} for key in ("run_id", "reason", "log_path", "user")),
            {"applied": text},
            {"boot_id": text},
        )
    ]
    # Whatever the reader lets through.
    looks += [
        HostSeen(True, "", runs=(RunStatus("digits", state="succeeded", run_id=text),))
        for text in evil
    ]
    one = slice_seen("pair", READY, "", uid="u", addresses=("a",), on_finish="stop", mark="m")
    finishes = []
    for look in [host_of("honest", json.dumps(standing).encode()), *looks]:
        known = SliceMemory(uid="u")
        _known, finish = look_after(known, one, {"pair": look}, ["digits"], time.time())
        if finish is not None:
            finishes.append(finish)
    assert len(finishes) > len(evil)
    templar = Templar(loader=DataLoader())
    for finish in finishes:
        for value in variables_of(Job(("pair",), (), finish=finish)).values():
            # As ansible-playbook takes extra variables.
            if isinstance(value, str):
                templar.template(trust_as_template(value))
    controller.unharmed()
    assert all(re.fullmatch("[0-9a-f]{64}", finish.ends) for finish in finishes)


RESULT = {
    "say": "result",
    "status": "ok",
    "counts": {"ok": 3, "changed": 1},
    "reasons": ["the first time"],
    "problem": "",
    "findings": {"python_env": "abc"},
    "missed": False,
    "roles": ["host_base"],
    "shared": {"__python_env_prepared": {"lock": "numpy==2"}},
}
EVENT = {
    "say": "event",
    "event": "task",
    "task": "Make it so",
    "status": "changed",
    "msg": "done",
    "diff": "-a\n+b\n",
}
TALK = [
    {"say": "begin", "roles": ["host_base"], "reasons": ["the first time"]},
    {"say": "waiting", "holder": {"who": "ops@desk"}},
    EVENT,
    {"say": "event", "event": "shared", "name": "__python_env_prepared", "value": {"lock": "x"}},
    {"say": "need", "files": ["f" * 64]},
    {"say": "serves", "port": 880},
    RESULT,
]


def one_by_one(data: bytes) -> bytes:
    """Write a list of messages as the agent does, one in a line."""
    try:
        found = json.loads(data)
        messages: Sequence[Any] = found if isinstance(found, list) else [found]
        return b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    except (ValueError, RecursionError):
        return data + b"\n"


def test_apply(controller: Controller) -> None:
    """Machines that apply roles to themselves: who talks nonsense has failed, with its name."""
    controller.answer(TALK, one_by_one)
    wish = {"code": "c" * 64, "environment": {}}
    orders = [Order(name, name, wish, {"f" * 64: b"data"}) for name in NAMES]
    shown: list[str] = []

    def heard(host: str, told: dict[str, Any]) -> None:
        shown.extend(text for text, _colour, _verbosity in lines_of(host, told))

    call = apply_run.Call(orders, b"agent", "ops", heard, Settings(), publishes=True)
    targets = list(known_fleet().fleet.targets.values())
    outcomes = {one.host: one for one in asyncio.run(call.run(targets, 0))}
    assert set(outcomes) == set(NAMES)
    assert [outcomes[name].problem for name in HONEST] == ["", ""]
    bad = [one for one in outcomes.values() if one.status != "ok"]
    assert len(bad) > CASES // 3
    assert all(one.problem for one in bad)
    lines = [text for text, _colour in recap(list(outcomes.values()))]
    assert all(any(name in line for line in lines) for name in HONEST)
    assert all(set(group.shared) <= {"__python_env_prepared"} for group in call.groups.values())
    controller.unharmed("\n".join([*shown, *lines, *(one.problem for one in bad)]))
