"""A worker's log, put together from its archive and its machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    Archived,
    Piece,
    RunStatus,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet
from archives import AT, FIRST, SECOND, archives, log, part
from object_server import Objects, serving

from tpu_fleet.workers.archive.logs import ArchivedLog
from tpu_fleet.workers.ask.view import View
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.logs.follow import Follower, WantedLogs
from tpu_fleet.workers.logs.plan import Worker


class Heard(View):
    """Keeps what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def output(self, host: str, stream: str, data: bytes) -> None:
        assert stream == "stdout"
        self.text += f"{host}:{data.decode()}" if host != "solo" else data.decode()


@pytest.fixture
def lab() -> Iterator[Objects]:
    with serving(Objects()) as objects:
        part(objects, FIRST, 0, log(0, "first\n"))
        part(objects, SECOND, 0, log(0, "one\ntwo\n", AT + 60), at=AT + 60)
        yield objects


def follower(lab: Objects, *names: str, **asked: Any) -> tuple[Follower, Heard]:
    view = Heard()
    known = Known(Path("/dev/null"), Fleet({}))
    wanted = WantedLogs({"run": "digits", **asked}, refresh=False)
    archive = ArchivedLog("digits", archives=archives(lab))
    return Follower(known, names, wanted, view, archive), view


def status(life: str, at: int, offset: int) -> RunStatus:
    place = ("9-b", offset, 0)
    return RunStatus("digits", state="running", archive=Archived(life, at, place))


def before(one: Follower, worker: Worker, run: RunStatus) -> None:
    asyncio.run(one._before(worker, run))


def test_machines_that_are_gone_come_first_and_that_which_is_there_is_not_read(
    lab: Objects,
) -> None:
    one, view = follower(lab, "solo")
    worker = one.watched.workers["solo"]
    before(one, worker, status(SECOND, 8, 8))
    assert (view.text, worker.skip) == ("first\n", None)
    before(one, worker, status(SECOND, 8, 8))  # after a lost connection
    assert view.text == "first\n"


def test_a_machine_that_comes_back_goes_on_where_its_archive_ended(lab: Objects) -> None:
    one, view = follower(lab, "solo", follow=True)
    worker = one.watched.workers["solo"]
    asyncio.run(one._show_archived(worker))
    assert view.text == "first\none\ntwo\n"
    part(lab, SECOND, 1, log(8, "three\n", AT + 90), at=AT + 90)
    assert one.archive is not None
    one.archive.archives = archives(lab)
    before(one, worker, status(SECOND, 14, 114))
    assert view.text == "first\none\ntwo\nthree\n"
    piece = Piece(at=("9-b", 119, 0))
    assert worker.unseen(piece, b"three\nfour\n") == b"four\n"


def test_only_a_run_with_an_archive_asks_for_it(lab: Objects) -> None:
    one, view = follower(lab, "solo")
    before(one, one.watched.workers["solo"], RunStatus("digits", state="running"))
    assert view.text == ""
    before(one, one.watched.workers["solo"], RunStatus("digits", state="not started"))
    assert view.text == "first\none\ntwo\n"
    one, view = follower(lab, "solo", tail=3)
    before(one, one.watched.workers["solo"], status(SECOND, 8, 8))
    assert view.text == ""


def test_a_fleet_without_workers_has_the_archive(
    lab: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    part(lab, FIRST, 0, log(0, "other\n"), host="pair-w1")
    one, view = follower(lab)
    workers = asyncio.run(one.run())
    assert sorted(worker.name for worker in workers) == ["pair-w1", "solo"]
    assert "first\n" in view.text
    assert "pair-w1:other\n" in view.text
    assert "its machine is gone; this log is from gs://lab/all" in capsys.readouterr().err


def test_a_worker_without_a_machine_is_no_failure(lab: Objects) -> None:
    one, view = follower(lab, "solo")
    (worker,) = asyncio.run(one.run())
    assert view.text == "first\none\ntwo\n"
    assert worker.result is not None
    assert worker.result.ok


def test_an_archive_that_cannot_be_read_is_said_once(
    lab: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    one, view = follower(lab, "solo")
    lab.refusal = (403, "no access")
    (worker,) = asyncio.run(one.run())
    assert (view.text, worker.archived) == ("", {})
    assert capsys.readouterr().err.count("The archive of digits is not shown: ") == 1
