"""What check mode tells of code trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils import _code_trees as rules
from ansible_collections.tpu.fleet.plugins.modules import code_trees


def test_check_mode_tells_which_trees_go_and_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RECORDS", str(tmp_path))
    known = {"name": "old", "owner": "root", "dest": str(tmp_path / "old"), "declared": True}
    record = tmp_path / "old.json"
    record.write_text(json.dumps(known))
    params = {"versions": {}, "incoming": "", "keep": 3, "trees": [], "slice": ""}
    apply = code_trees.Apply(params, dry=True)
    apply.look()
    apply.put()
    assert apply.after == ["old is not declared any more\n"]
    assert json.loads(record.read_text()) == known
