"""A worker that takes a version of a tree: the real program, with the controller's words prepared.

Only systemd is left out.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import version
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.place import Place, read, write
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.record import look_now
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.stamp import (
    Watch,
    differences,
    look,
)
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.store import Store
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import Known, Wish, todo
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.work import Work
from ansible_collections.tpu.fleet.plugins.module_utils._host import snapshot
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles
from ansible_collections.tpu.fleet.plugins.module_utils._host.state import load, record
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import plan
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run import definition_text
from ansible_collections.tpu.fleet.plugins.module_utils._sync import agents, program, worker
from ansible_collections.tpu.fleet.plugins.module_utils._sync.order import Order, state_hash

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="acts as root and as owners of trees")

CODE = {"train.py": "print('one')\n", "lib/model.py": "LAYERS = 2\n", "run.sh": "exec true\n"}


@dataclass
class Machine:
    """A worker whose folders are here."""

    folder: Path
    reloaded: list[tuple[str, list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        root = self.folder / "root"
        self.files = RunFiles(root)
        self.files.definitions.mkdir(parents=True)
        watch = Watch(
            trees=(str(root / "etc"), str(self.folder / "opt")),
            closed=(),
            files=(str(self.folder / "state.json"),),
            homes=(),
            units=(),
            records=(f"{self.folder}/code/*.json",),
            environments=(),
        )
        self.place = Place(
            self.folder / "apply",
            self.folder / "programs",
            self.folder / "logs",
            self.folder / "state.json",
            root / "etc/systemd/system",
            watch,
            runs=self.files,
        )
        self.entry = {
            "name": "toy",
            "user": "root",
            "path": f"{self.folder}/opt/toy",
            "local_path": "code",
        }

    def write(self, files: Mapping[str, str]) -> tuple[list[snapshot.Entry], str]:
        """Write a version into the controller's folder; return its entries and digest."""
        source = self.folder / "code-here"
        for name, text in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        entries = snapshot.describe(source, sorted(files))
        return entries, snapshot.digest_of(entries)

    def request(self, files: Mapping[str, str], **more: Any) -> dict[str, Any]:
        entries, digest = self.write(files)
        return {
            "protocol": 1,
            "runs": ["digits"],
            "entry": self.entry,
            "trees": [self.entry],
            "slice": "pair",
            "keep": 1,
            "digest": digest,
            "entries": [list(asdict(one).values()) for one in entries],
            "expected": {
                "digits": {
                    "definition": self.defined("digits", "any"),
                    "environment": hashlib.sha256(b"").hexdigest(),
                }
            },
            "requirements": {},
            "who": "me@here",
            **more,
        }

    def defined(self, run: str, version: str) -> dict[str, Any]:
        return {
            "run": run,
            "user": "root",
            "command": "python train.py",
            "grace_seconds": 0,
            "worker": 0,
            "workdir": f"{self.folder}/opt/.toy.releases/{version[:16]}",
            "code": {"tree": "toy", "version": version},
        }

    def apply(self, files: Mapping[str, str], *runs: str) -> str:
        """Leave what the roles leave after an apply of this version."""
        request = self.request(files, expected={})
        del request["protocol"]
        order = Order.read({**request, "runs": []})
        there = worker.Worker(order, self.place, self.files, str(self.folder / "incoming"))
        there.check = lambda: None  # type: ignore[method-assign]
        there.apply.look()
        there.prepare(self.contents(files))
        there.switch({})
        record(
            "code_checkout",
            {
                "hash": state_hash(order.trees, {"toy": order.digest}),
                "notes": {"versions": {"toy": order.digest}},
            },
            state_dir=self.folder,
        )
        wants = self.place.units / worker.STARTED
        wants.mkdir(parents=True, exist_ok=True)
        for run in runs:
            text = definition_text.text_of(self.defined(run, order.digest))
            (self.files.definitions / f"{run}.json").write_text(text)
            (wants / f"tpu-fleet-run@{run}.service").symlink_to("/unit")
        self._wish(there, order)
        look_now(self.place)
        return order.digest

    def contents(self, files: Mapping[str, str]) -> dict[str, bytes]:
        return {hashlib.sha256(text.encode()).hexdigest(): text.encode() for text in files.values()}

    def _wish(self, there: worker.Worker, order: Order) -> None:
        described = snapshot.description("toy", order.entries, order.digest)
        store = Store(self.place.store)
        sent = {"host": "pair-w0", "templates": {"fleet_code": [self.entry]}, "plain": {}}
        variables = version._kept(
            store, json.dumps({**sent, "uses": {"code_checkout": ["fleet_code"]}}).encode()
        )
        wish = Wish(
            host="pair-w0",
            roles=["code_checkout"],
            code=version._kept(store, b"collection"),
            variables=variables,
            secrets="",
            environment={},
            snapshots={
                "code_checkout": {
                    "toy.tar.gz": version._kept(store, there.archive),
                    "toy.json": version._kept(store, described),
                }
            },
        )
        write(self.place.wishes, json.dumps([asdict(wish)]))
        work = Work(self.place, wish)
        known = Known().with_status(["code_checkout"], work.record.given, "ok")
        write(self.place.known, json.dumps(known.record()))

    def todo(self, wish: Wish) -> list[str]:
        """Return the reasons for which the machine would apply a role now."""
        before = read(self.place.stamp) or {}
        drift = differences(before, look(self.place.watch, before))
        known = Known.read(read(self.place.known))
        return list(todo(wish, known, Work(self.place, wish).record.given, "", drift).reasons)

    def kept(self) -> Wish:
        return version.kept(self.place)[0]

    def sync(self, request: Mapping[str, Any], *words: bytes) -> list[dict[str, Any]]:
        """Let the worker talk to a controller that says these words; return its messages."""
        said = io.BytesIO()
        line = program.Line(io.BytesIO(b"".join(words)), said)
        asked = {key: value for key, value in request.items() if key != "protocol"}
        incoming = str(self.folder / "incoming")
        there = worker.Worker(Order.read(asked), self.place, self.files, incoming)
        try:
            program._work(line, there)
        except program._KNOWN as error:
            line.say("refused", why=str(error))
        return [json.loads(text) for text in said.getvalue().splitlines()]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    # Root makes folders for owners only below those that no user can change.
    (tmp_path / "opt").mkdir()
    monkeypatch.setattr(plan, "RECORDS", str(tmp_path / "code"))
    monkeypatch.setattr(program, "START_SECONDS", 0.0)
    made = Machine(tmp_path)
    monkeypatch.setattr(
        agents, "_systemctl", lambda verb, runs: runs and made.reloaded.append((verb, runs))
    )
    return made


def data(*texts: str) -> bytes:
    packed = zlib.compress("".join(texts).encode())
    return b"data %d\n" % len(packed) + packed


GO = b'{"go": true, "origin": {"commit": "c0ffee", "dirty": true, "diff": "+ 1"}}\n'
NEW = {**CODE, "train.py": "print('two')\n"}


def said(messages: list[dict[str, Any]]) -> list[str]:
    return [one["say"] for one in messages]


def test_only_what_changed_is_asked_for_and_the_next_attempt_begins(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    request = machine.request(NEW)
    messages = machine.sync(request, data(NEW["train.py"]), GO)
    assert said(messages) == ["need", "ready", "switched", "running", "done"]
    # One of three contents.
    assert bin(int(messages[0]["files"], 16)).count("1") == 1
    assert Path(machine.entry["path"], "train.py").read_text() == NEW["train.py"]
    assert Path(machine.entry["path"], "lib/model.py").read_text() == CODE["lib/model.py"]
    assert machine.reloaded == [("reload-or-restart", ["digits"])]
    now = machine.files.definition("digits")
    assert now == machine.defined("digits", request["digest"])


def test_a_machine_afterwards_is_as_the_roles_would_have_left_it(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    assert machine.todo(machine.kept()) == []
    request = machine.request(NEW)
    machine.sync(request, data(NEW["train.py"]), GO)
    state = (machine.files.definitions / "digits.json").read_text()
    wish = machine.kept()
    assert machine.todo(wish) == []
    # A controller packs the same files in its own way.
    files = {**wish.snapshots["code_checkout"], "toy.tar.gz": wish.code}
    assert machine.todo(Wish(**{**asdict(wish), "snapshots": {"code_checkout": files}})) == []
    applied = load(machine.folder)["applied"]["code_checkout"]
    assert applied["hash"] == state_hash([machine.entry], {"toy": request["digest"]})
    recorded = json.loads((machine.folder / "code/toy.json").read_text())
    # The roles themselves leave the same: the definition, the record, the release.
    other = Machine(machine.folder / "other")
    (other.folder / "opt").mkdir()
    other.entry = machine.entry
    other.apply(NEW, "digits")
    assert json.loads((machine.folder / "code/toy.json").read_text()) == recorded
    assert state == definition_text.text_of(machine.defined("digits", request["digest"]))


def test_what_was_changed_by_hand_before_is_still_found(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    by_hand = machine.folder / "root/etc/by-hand"
    by_hand.write_text("x")
    machine.sync(machine.request(NEW), data(NEW["train.py"]), GO)
    assert machine.todo(machine.kept()) == [f"{by_hand} is new"]


def test_the_same_again_changes_nothing(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    messages = machine.sync(machine.request(CODE), GO)
    assert said(messages) == ["ready", "done"]
    assert messages[0]["same"] is True
    assert machine.reloaded == []


@pytest.mark.parametrize(
    "words",
    [(), (data(NEW["train.py"]),), (data("print('t_o')\n"), GO), (b"data 4\nabcd", GO)],
    ids=["gone", "no go", "other bytes", "no bytes"],
)
def test_without_the_word_everything_stays(machine: Machine, words: tuple[bytes, ...]) -> None:
    old = machine.apply(CODE, "digits")
    messages = machine.sync(machine.request(NEW), *words)
    assert "switched" not in said(messages)
    assert Path(machine.entry["path"]).resolve().name == old[:16]
    releases = Path(machine.folder, "opt/.toy.releases")
    assert [path.name for path in releases.iterdir()] == [old[:16]]
    assert not [*(machine.folder / "incoming").glob("*")]
    assert machine.todo(machine.kept()) == []


def test_what_a_user_changed_there_is_named_and_stays(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    Path(machine.entry["path"], "train.py").write_text("mine")
    messages = machine.sync(machine.request(NEW), data(NEW["train.py"]), GO)
    assert said(messages) == ["refused"]
    assert "has local changes: train.py" in messages[0]["why"]


def test_a_run_that_a_person_keeps_stopped_is_not_started(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    mark = machine.files.mark("digits")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text('{"by": "eve@x"}')
    messages = machine.sync(machine.request(NEW), data(NEW["train.py"]), GO)
    assert said(messages) == ["refused"]
    assert "eve@x stopped it. First: tpu-fleet start digits" in messages[0]["why"]


def test_a_run_that_keeps_its_code_is_not_restarted(machine: Machine) -> None:
    machine.apply(CODE, "digits", "steady")
    steady = machine.files.definitions / "steady.json"
    kept = {**machine.defined("steady", ""), "workdir": "/before"}
    steady.write_text(definition_text.text_of(kept))
    request = machine.request(NEW)
    machine.sync(request, data(NEW["train.py"]), GO)
    assert machine.reloaded == [("reload-or-restart", ["digits"]), ("reload", ["steady"])]
    now = machine.files.definition("steady")
    assert now["code"]["version"] == ""
    assert now["workdir"].endswith(request["digest"][:16])


def test_the_record_of_the_run_says_where_the_version_comes_from(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    request = machine.request(NEW)
    machine.sync(request, data(NEW["train.py"]), GO)
    folder = machine.files.states / "digits" / worker.ORIGINS
    origin = json.loads((folder / f"{request['digest'][:16]}.json").read_text())
    assert (origin["commit"], origin["dirty"], origin["diff"]) == ("c0ffee", True, "+ 1")
    assert (origin["version"], origin["by"]) == (request["digest"], "me@here")


def test_without_a_controller_nothing_is_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.apply(CODE, "digits")
    # Would take an hour.
    monkeypatch.setattr(program, "START_SECONDS", 3600.0)
    reading, writing = os.pipe()
    os.write(writing, data(NEW["train.py"]) + GO)
    os.close(writing)
    with open(reading, "rb") as stream:
        asked = {key: one for key, one in machine.request(NEW).items() if key != "protocol"}
        there = worker.Worker(
            Order.read(asked), machine.place, machine.files, str(machine.folder / "incoming")
        )
        assert program._work(program.Line(stream, io.BytesIO()), there) == 0
    assert machine.reloaded == [("reload-or-restart", ["digits"])]
    assert machine.todo(machine.kept()) == []


def test_a_version_that_was_there_before_is_taken_again(machine: Machine) -> None:
    machine.apply(CODE, "digits")
    machine.sync(machine.request(NEW), data(NEW["train.py"]), GO)
    messages = machine.sync(machine.request(CODE), data(CODE["train.py"]), GO)
    assert said(messages)[-1] == "done"
    assert Path(machine.entry["path"], "train.py").read_text() == CODE["train.py"]
    assert machine.todo(machine.kept()) == []
