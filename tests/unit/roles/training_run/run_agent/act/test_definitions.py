"""The files of a definition, with what root alone can read."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from run_agent.act import (
    definitions,
)
from run_definition import PUBLIC, with_sets


def test_secrets_are_read_from_their_own_file(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    path.write_text(json.dumps(PUBLIC))
    (tmp_path / "demo.env.json").write_text('{"TOKEN": "x"}')
    assert definitions.load(path).env == {"TOKEN": "x"}
    assert definitions.load(path, secrets=False).env == {}


@pytest.mark.parametrize("kind", ["without end", "pipe", "link", "folder", "bytes"])
def test_a_set_that_its_owner_made_odd_ends_no_agent(kind: str, tmp_path: Path) -> None:
    path, _program = with_sets(tmp_path, restart_on_secret_change=True)
    before = definitions.load(path).definition
    own = tmp_path / "own.env"
    own.unlink()
    if kind == "without end":
        with own.open("wb") as stream:
            stream.truncate(2**40)
    elif kind == "pipe":
        os.mkfifo(own)
    elif kind == "link":
        own.symlink_to(path)
    elif kind == "folder":
        own.mkdir()
    else:
        own.write_bytes(b"A=\xff\n")
    found: list[str] = []
    look = threading.Thread(
        target=lambda: found.append(definitions.load(path).definition), daemon=True
    )
    look.start()
    look.join(20)
    assert len(found) == 1
    assert found[0] != before
