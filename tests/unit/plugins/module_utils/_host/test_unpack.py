"""Archives that lead out of their folder, by one entry or by several together."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.unpack import Unfit, unpack


def archive(entries: Sequence[tuple[str, str]]) -> io.BytesIO:
    """Return an archive of links; what has no target is a file, or a folder with a slash."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, target in entries:
            member = tarfile.TarInfo(name)
            if target:
                member.type, member.linkname = tarfile.SYMTYPE, target
            elif name.endswith("/"):
                member.type = tarfile.DIRTYPE
            tar.addfile(member, io.BytesIO())
    packed.seek(0)
    return packed


CHAIN = [
    ("x/file", ""),
    ("a/l1", "../x"),
    # Each stays inside, as it is written: a/l1/.. is a, and a/b/c/l2/.. is a/b/c.
    ("a/b/c/l2", "../../l1/.."),
    ("a/b/c/l3", "l2/.."),
]


@pytest.mark.parametrize(
    "entries",
    [
        [*CHAIN, ("a/b/c/l3/evil", "")],
        [*CHAIN, ("a/b/c/l3/evil/", "")],
        [*CHAIN, ("a/b/c/l3/evil", "x")],
        [("in", "."), ("in/evil", "")],
        [("out", ".."), ("out/evil", "")],
    ],
    ids=["file", "folder", "link", "a link that stays inside", "a link that leads out"],
)
def test_nothing_is_written_through_a_link(
    tmp_path: Path, entries: Sequence[tuple[str, str]]
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    with pytest.raises(Unfit, match=r"behind a link|leads out"):
        unpack(archive(entries), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_links_of_a_repository_stay(tmp_path: Path) -> None:
    unpack(archive([("src/", ""), ("src/a", ""), ("lib", "src"), ("src/b", "a")]), tmp_path)
    assert (tmp_path / "lib/b").exists()
