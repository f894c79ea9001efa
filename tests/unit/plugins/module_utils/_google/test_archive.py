"""An archive in a bucket, as the controller reads it, against a server."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import archive
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.archive import RunArchive
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from archives import FIRST, log, part, put
from object_server import Objects


def archive_of(objects: Objects, bucket: str = "lab") -> RunArchive:
    apis = GoogleApis(Client("lab-1", endpoint=objects.url))
    return RunArchive(apis, bucket, "all/digits/")


def test_a_log_is_put_together_from_its_parts(lab: Objects) -> None:
    part(lab, FIRST, 0, log(0, "one\n"))
    part(lab, FIRST, 1, log(4, "two\n"))
    part(lab, FIRST, 2, log(4, "two\nthree\n"), log(20, "four\n"))
    put(lab, "all/digits/odd", b"")
    put(lab, "all/digits-of-others/odd", b"")
    lab.page_size = 2
    found = archive_of(lab)
    (life,) = found.lives()
    read = [(new, lost) for _frame, new, lost in found.frames(life)]
    assert read == [(b"one\n", False), (b"two\n", False), (b"three\n", False), (b"four\n", True)]
    assert found.refused == 1


def test_no_more_is_read_than_was_listed(lab: Objects) -> None:
    name = f"all/digits/solo/solo/{FIRST}/results/best"
    put(lab, name, b"12345")
    found = archive_of(lab)
    (life,) = found.lives()
    lab.contents[name] = b"x" * 1_000_000
    assert b"".join(found.content(life, life.results[0])) == b"xxxxx"


def test_a_part_that_is_none_is_left_out(lab: Objects) -> None:
    part(lab, FIRST, 0, log(0, "one\n"), b"\x00" * 5000)
    part(lab, FIRST, 1, archive.frame("events", 0, b"{}", 1.0))
    found = archive_of(lab)
    assert [frame.stream for frame, _new, _lost in found.frames(found.lives()[0])] == [
        "log",
        "events",
    ]


def test_what_stands_in_the_way_is_said(lab: Objects) -> None:
    with pytest.raises(TpuError, match="There is no bucket gone"):
        archive_of(lab, "gone").lives()
    lab.refusal = (403, "no access")
    with pytest.raises(TpuError):
        archive_of(lab).lives()
