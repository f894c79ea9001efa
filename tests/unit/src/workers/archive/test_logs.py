"""What `tpu-fleet logs` shows of an archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from archives import AT, FIRST, SECOND, archives, log, part
from object_server import Objects, serving

from tpu_fleet.workers.archive.logs import MISSING, ArchivedLog


@pytest.fixture
def lab() -> Iterator[Objects]:
    with serving(Objects()) as objects:
        part(objects, FIRST, 0, log(0, "one\ntwo\n", AT), host="pair-w0")
        part(objects, FIRST, 1, log(4, "two\nthree\nfo", AT + 30), host="pair-w0", at=AT + 30)
        part(objects, SECOND, 0, log(0, "five\n", AT + 90), host="pair-w0", at=AT + 90)
        part(objects, SECOND, 0, log(0, "other\n", AT), host="pair-w1")
        yield objects


def shown(lab: Objects, *begin_and_end: Any, number: int = 0, **asked: Any) -> str:
    """Return the text of a life of pair-w0, from a place to another."""
    found = ArchivedLog("digits", archives=archives(lab), **asked)
    life = found.lives("pair-w0")[number]
    return b"".join(one.data for one in found.read(life, *begin_and_end)).decode()


def test_the_last_line_of_a_machine_that_is_gone_is_ended(lab: Objects) -> None:
    assert shown(lab) == "one\ntwo\nthree\nfo\n"
    assert shown(lab, number=1) == "five\n"


def test_a_part_of_a_log_ends_exactly_where_it_goes_on(lab: Objects) -> None:
    assert shown(lab, 0, 6) == "one\ntw"
    assert shown(lab, 6, 16) == "o\nthree\nfo"
    assert shown(lab, 16, 16) == ""


def test_the_last_lines_and_those_since_a_time(lab: Objects) -> None:
    assert shown(lab, tail=2) == "three\nfo\n"
    assert shown(lab, tail=0) == ""
    assert shown(lab, since=AT + 10) == "three\nfo\n"
    assert shown(lab, since=AT + 60) == ""
    assert shown(lab, since=AT + 60, number=1) == "five\n"


def test_a_gap_is_said(lab: Objects) -> None:
    part(lab, SECOND, 1, log(9, "late\n", AT + 99), host="pair-w0", at=AT + 99)
    found = ArchivedLog("digits", archives=archives(lab))
    pieces = list(found.read(found.lives("pair-w0")[1]))
    assert [(one.data, one.end, one.lost) for one in pieces] == [
        (b"five\n", 5, ""),
        (b"late\n", 14, MISSING),
    ]


def test_which_machines_are_meant(lab: Objects) -> None:
    found = ArchivedLog(
        "digits", chosen=lambda life: life.host == "pair-w1", archives=archives(lab)
    )
    assert [(one.host, one.name) for one in found.lives()] == [("pair-w1", SECOND)]
    assert [one.name for one in found.lives("pair-w0")] == [FIRST, SECOND]
    nothing = ArchivedLog("words", archives=archives(lab))
    nothing.archives._kept["words"] = None
    assert nothing.lives() == []
