"""The names that TAB completes: stored by commands, and harmless whatever they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tpu_fleet.workers.inventory import names
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.inventory.lookup import note_names
from tpu_fleet.workers.inventory.names import LARGEST, read_names, remember

SOURCES = ("/fleet/inventory",)
HOSTILE = [
    "$(touch ran)",
    "`touch ran`",
    "; touch ran",
    "a\nplain,b",
    "--rsh=sh",
    "-x",
    "*",
    "~root",
    "../../etc",
    "a b",
    "a,b",
    "\x1b[2Jgone",
    "\u202egnp.exe",
    "",
    "x" * 200,
    7,
    None,
    ["nested"],
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tpu-fleet" / "names"


def stored(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def test_what_is_remembered_is_read_and_kept_by_kind() -> None:
    assert read_names(SOURCES) == {}
    remember(SOURCES, slices=["a"], runs=["r"])
    remember(SOURCES, runs=["s", "t"])
    assert read_names(SOURCES) == {"slices": ["a"], "runs": ["s", "t"]}
    assert read_names(("/another",)) == {}


def test_only_its_owner_reads_it(cache: Path) -> None:
    remember(SOURCES, slices=["a"])
    assert stored(cache).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_what_is_more_than_a_word_is_neither_stored_nor_offered(cache: Path, name: object) -> None:
    remember(SOURCES, runs=["good", name])  # type: ignore[list-item]
    assert json.loads(stored(cache).read_text()) == {"runs": ["good"]}
    stored(cache).write_text(json.dumps({"runs": [name, "good"]}))
    assert read_names(SOURCES)["runs"] == ["good"]


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"runs": 7}', '{"runs": {"a": 1}}', "\xff"])
def test_a_broken_file_has_no_names(cache: Path, text: str) -> None:
    remember(SOURCES, runs=["a"])
    stored(cache).write_text(text, encoding="latin-1")
    assert list(read_names(SOURCES).get("runs", ())) == []
    remember(SOURCES, runs=["b"])
    assert read_names(SOURCES)["runs"] == ["b"]


def test_a_huge_file_is_not_read(cache: Path) -> None:
    remember(SOURCES, runs=["a"])
    stored(cache).write_text(json.dumps({"runs": ["a"], "more": "x" * LARGEST}))
    assert read_names(SOURCES) == {}


def test_no_command_fails_because_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    remember(SOURCES, runs=["a"])
    assert read_names(SOURCES) == {}


def test_a_fleet_is_noted_by_slices_workers_and_runs() -> None:
    from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet

    groups = {"tpu_slice_pair": ("pair-w0", "pair-w1"), "tpu_unavailable": ("pair-w0", "pair-w1")}
    known = Known(Path("/ssh_config"), Fleet({}, groups, SOURCES))
    note_names(known, ["one"])
    note_names(known, ["two"])
    wanted = {"slices": ["pair"], "workers": ["pair-w0", "pair-w1"]}
    assert read_names(SOURCES) == {**wanted, "runs": ["one", "two"]}
    note_names(known)
    assert names.read_names(SOURCES)["runs"] == ["one", "two"]
    note_names(known, ["three"], whole=True)
    assert names.read_names(SOURCES)["runs"] == ["three"]
