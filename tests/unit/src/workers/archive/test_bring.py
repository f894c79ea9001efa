"""What `tpu-fleet fetch` writes of a machine that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import archive
from archives import AT, FIRST, events, kept, log, part, put
from object_server import Objects, serving

from tpu_fleet.workers.archive.bring import LinkError, bring

RESULTS = f"all/digits/solo/solo/{FIRST}/results"


@pytest.fixture
def lab() -> Iterator[Objects]:
    with serving(Objects()) as objects:
        note = archive.frame("hang-3.txt", 0, b"stacks\n", AT)
        part(objects, FIRST, 0, log(0, "one\n"), events({"event": "x"}), note)
        put(objects, f"{RESULTS}/plots/a.png", b"A")
        yield objects


def brought(lab: Objects, folder: Path) -> int:
    found = kept(lab)
    return bring(found, found.lives[0], folder)


def test_it_is_written_as_the_machine_had_it(lab: Objects, tmp_path: Path) -> None:
    assert brought(lab, tmp_path) == 4
    files = {str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()}
    assert files == {"run.log", "events.jsonl", "hang-3.txt", "results/plots/a.png"}
    assert (tmp_path / "run.log").read_text() == "one\n"


def test_only_what_is_new_is_read_again(lab: Objects, tmp_path: Path) -> None:
    brought(lab, tmp_path)
    lab.requests.clear()
    assert brought(lab, tmp_path) == 0
    assert [path for _method, path in lab.requests if "/o/" in path] == []
    part(lab, FIRST, 1, log(4, "two\n"), at=AT + 60)
    put(lab, f"{RESULTS}/plots/a.png", b"AA", AT + 60)
    assert brought(lab, tmp_path) == 4
    assert (tmp_path / "run.log").read_text() == "one\ntwo\n"
    assert (tmp_path / "results/plots/a.png").read_bytes() == b"AA"


def test_a_link_leads_nowhere_else(lab: Objects, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "results").symlink_to(elsewhere)
    (elsewhere / "kept").write_text("kept")
    (folder / "run.log").symlink_to(elsewhere / "kept")
    with pytest.raises(LinkError, match="remove it"):
        brought(lab, folder)
    assert [one.name for one in elsewhere.iterdir()] == ["kept"]
    assert (elsewhere / "kept").read_text() == "kept"
    assert (folder / "run.log").read_text() == "one\n"
