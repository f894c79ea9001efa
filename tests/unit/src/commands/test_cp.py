"""What a copy means, and archives: written in pieces, read with care."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tpu_fleet.commands.cp import CopyPlace, place_of, plan
from tpu_fleet.workers.copy.tar import (
    COMPLETE,
    UNPACK,
    CopyError,
    bring_in,
    chunks_of,
    pieces_of,
    unpack,
)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a", CopyPlace("a")),
        ("./a:b", CopyPlace("./a:b")),
        ("/x/a:b", CopyPlace("/x/a:b")),
        (":a", CopyPlace("a", remote=True)),
        (":", CopyPlace("", remote=True)),
        (":/x:y", CopyPlace("/x:y", remote=True)),
        ("pair-w0:a b", CopyPlace("a b", remote=True, host="pair-w0")),
        ("pair-w[0-3,7]:/a", CopyPlace("/a", remote=True, host="pair-w[0-3,7]")),
    ],
)
def test_places(text: str, place: CopyPlace) -> None:
    assert place_of(text) == place


def test_plans() -> None:
    assert plan(["a", "b", "w0:/x"]).up
    assert plan(["a", "b", "w0:/x"]).host == "w0"
    assert not plan([":/x", "a"]).up
    assert plan(["w1:/x", "a"]).host == "w1"
    for words in (["a"], ["a", "b"], [":a", ":b"], ["a", ":b", ":c"], [":a", ":b", "c"]):
        with pytest.raises(CopyError):
            plan(words)


def test_an_archive_is_what_tar_reads(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    # Sizes around those of blocks and of what is read at once.
    sizes = [0, 1, 511, 512, 513, 65535, 65536, 65537, 200_000]
    for size in sizes:
        (tree / f"{size}").write_bytes(os.urandom(size))
    (tree / "sub" / ("long" * 40)).write_text("ü")
    (tree / "link").symlink_to("sub")
    link = tmp_path / "link to tree"
    link.symlink_to(tree)
    archive = b"".join(chunks_of(pieces_of([link])))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = tar.getmembers()
        assert members[0].name == "tree"
        assert members[-1].name == COMPLETE
        assert tar.getmember("tree/link").linkname == "sub"
        for size in sizes:
            content = tar.extractfile(f"tree/{size}")
            assert content is not None
            assert content.read() == (tree / f"{size}").read_bytes()
    assert archive.endswith(bytes(1024))


def test_what_cannot_be_copied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "same").write_text("")
    (tmp_path / "same").write_text("")
    (tmp_path / "two\nlines").write_text("")
    for sources, says in (
        (["nothing"], "No such file"),
        (["pipe"], "neither file nor folder"),
        (["same", "one/same"], "two of them are called same"),
        (["two\nlines"], "a line break"),
    ):
        with pytest.raises(CopyError, match=says):
            pieces_of([tmp_path / source for source in sources])


@pytest.mark.parametrize("change", [b"short", b"as long as before"[::-1]])
def test_a_file_that_changes_on_the_way(tmp_path: Path, change: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"as long as before")
    os.utime(path, (1, 1))
    pieces = pieces_of([path])
    path.write_bytes(change)
    with pytest.raises(CopyError, match="changed while it was copied"):
        list(chunks_of(pieces))


def archive_of(*members: tuple[str, bytes, str]) -> io.BytesIO:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, kind, rest in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o4755
            if kind == tarfile.REGTYPE:
                info.size = len(rest)
                tar.addfile(info, io.BytesIO(rest.encode()))
            else:
                info.linkname = rest
                tar.addfile(info)
    data.seek(0)
    return data


REG, DIR, SYM, LNK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize(
    ("members", "left_out", "there"),
    [
        ([("../x", REG, "")], 1, []),
        ([("/etc/x", REG, "")], 1, []),
        ([("a/../../x", REG, "")], 1, []),
        ([("./a//b", REG, "1")], 0, ["a", "a/b"]),
        ([(".", DIR, "")], 1, []),
        # Links come last: nothing is written through one, whatever the order.
        ([("d", SYM, "/tmp"), ("d/x", REG, "")], 1, ["d", "d/x"]),  # noqa: S108
        ([("d", SYM, "e"), ("e", DIR, ""), ("d/x", REG, "")], 1, ["d", "d/x", "e"]),
        ([("a", SYM, "b")], 0, ["a"]),
        ([("a", SYM, "..")], 1, []),
        ([("s/a", SYM, "..")], 0, ["s", "s/a"]),
        ([("s/a", SYM, "../..")], 1, []),
        ([("s/a", SYM, "../x/..")], 1, []),
        ([("s/t/up", SYM, "../.."), ("way", SYM, "s/t/up/..")], 1, ["s", "s/t", "s/t/up"]),
        ([("b", SYM, "c"), ("b/x", SYM, "y")], 1, ["b"]),
        ([("f", REG, "1"), ("g", LNK, "f")], 0, ["f", "g"]),
        ([("g", LNK, "/etc/passwd")], 1, []),
        ([("g", LNK, "f")], 1, []),
        ([("p", tarfile.FIFOTYPE, ""), ("c", tarfile.CHRTYPE, "")], 2, []),
        # One name twice: the last one counts.
        ([("a", REG, "1"), ("a/b", REG, "2")], 0, ["a", "a/b"]),
        ([("a/b", REG, "1"), ("a", REG, "2")], 0, ["a"]),
    ],
)
def test_nothing_gets_out_of_the_folder(
    tmp_path: Path, members: list[tuple[str, bytes, str]], left_out: int, there: list[str]
) -> None:
    top = tmp_path / "deep" / "top"
    top.mkdir(parents=True)
    assert len(unpack(archive_of(*members), top)) == left_out
    found = [path for path in sorted(tmp_path.rglob("*")) if path not in (top, top.parent)]
    assert [str(path.relative_to(top)) for path in found] == there
    for path in found:
        if not path.is_symlink():
            assert path.stat().st_mode & 0o7000 == 0
        else:
            assert path.resolve().is_relative_to(top)


def test_what_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(tarfile.TarError):
        unpack(io.BytesIO(b"welcome to this machine\n" * 100), tmp_path)


def test_what_is_there_stays(tmp_path: Path) -> None:
    place, half, outside = tmp_path / "place", tmp_path / "half", tmp_path / "outside"
    for folder in (place / "sub", half / "sub" / "new", half / "door", outside):
        folder.mkdir(parents=True)
    (place / "sub" / "kept").write_text("kept")
    (place / "sub" / "old").write_text("old")
    (half / "sub" / "old").write_text("new")
    # A link of before is replaced, and not gone through.
    (place / "door").symlink_to(outside)
    (half / "door" / "x").write_text("x")
    bring_in(half, place)
    assert (place / "sub" / "kept").read_text() == "kept"
    assert (place / "sub" / "old").read_text() == "new"
    assert (place / "sub" / "new").is_dir()
    assert (place / "door" / "x").read_text() == "x"
    assert list(outside.iterdir()) == []
    other = tmp_path / "other"
    other.mkdir()
    (other / "sub").write_text("")
    with pytest.raises(CopyError, match="is a folder"):
        bring_in(other, place)


def test_an_archive_that_ends_between_two_files_is_not_complete(tmp_path: Path) -> None:
    """tar says nothing of it: only the last member shows it."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_text(name)
    there = tmp_path / "there"
    there.mkdir()
    pieces = pieces_of([source])
    command = ("/bin/sh", "-c", UNPACK, "tpu-fleet", str(there), "source")
    for count in range(len(pieces) - 1):
        archive = b"".join(chunks_of(pieces[:count]))
        done = subprocess.run(command, input=archive, check=False, capture_output=True)
        assert done.returncode != 0, count
        assert list(there.iterdir()) == [], count
    whole = b"".join(chunks_of(pieces))
    subprocess.run(command, input=whole, check=True, capture_output=True)
    assert sorted(path.name for path in (there / "source").iterdir()) == ["a", "b"]
