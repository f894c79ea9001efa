"""Where the page is put."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fleet_past
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError

from tpu_fleet.page.publish import Published, place_of, put

NOW = 1_795_644_000.0


def nobody() -> Any:
    raise AssertionError("a folder needs no client")


@pytest.mark.parametrize(("where", "name"), [("", "index.html"), ("fleet.html", "fleet.html")])
def test_a_folder_or_a_file_in_it(tmp_path: Path, where: str, name: str) -> None:
    put(str(tmp_path / where) if where else str(tmp_path), "<p>", nobody)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "<p>"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TpuError, match=r"nowhere is no folder here\. Make it, or name another"):
        place_of(str(tmp_path / "nowhere"), nobody)


def test_the_watcher_writes_it_once_a_minute(tmp_path: Path) -> None:
    history = fleet_past.made(tmp_path / "history.db", NOW, days=0.2, every=3600.0)
    folder = tmp_path / "www"
    folder.mkdir()
    published = Published(str(folder))
    published.publish(history, "my-project", nobody)
    file = folder / "index.html"
    assert "my-project" in file.read_text()
    file.unlink()
    published.publish(history, "my-project", nobody)
    assert not file.exists()
    history.close()
