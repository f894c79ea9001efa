"""A wait ends as soon as a file of the folder is replaced."""

from __future__ import annotations

import select
from pathlib import Path

from queue_agent.act.replaced import Replaced


def is_ready(handles: list[int]) -> bool:
    return bool(select.select(handles, [], [], 0)[0])


def test_a_file_that_is_replaced_is_news_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    other.mkdir()
    seen = Replaced()
    try:
        # One that is not there yet is looked at as soon as it is.
        assert not is_ready(seen.watch(str(one)))
        one.mkdir()
        handles = seen.watch(str(one))
        assert handles
        assert not is_ready(handles)
        (one / "new").write_text("1")
        assert not is_ready(handles)
        (one / "new").replace(one / "status.json")
        assert is_ready(seen.watch(str(one)))
        seen.take()
        assert not is_ready(seen.watch(str(one)))
        # Another folder, and this one no longer.
        seen.watch(str(other))
        seen.take()
        (one / "status.json").replace(one / "again.json")
        assert not is_ready(seen.watch(str(other)))
        (one / "again.json").replace(other / "status.json")
        assert is_ready(seen.watch(str(other)))
    finally:
        seen.close()
    assert seen.watch(str(one)) == []
