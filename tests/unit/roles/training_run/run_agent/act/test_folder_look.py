"""The look at a checkpoint folder as the run's user."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from run_agent.act import (
    fence_file,
    folder_look,
)
from run_agent.decide.fence import Mark

OLD = Mark(7, "old", "digits-1", "vm-a")


def test_a_look_takes_over_only_in_a_name(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / ".tpu-fleet-attempt.digits"
    fence_file.write(path, OLD)
    asked: dict[str, Any] = {"path": str(path), "claim": None}
    folder_look.main([json.dumps(asked)])
    seen = json.loads(capsys.readouterr().out)
    assert (seen["mark"]["owner"], fence_file.read(path)) == ("old", OLD)
    assert seen["free"] > 0
    claim = {"mark": asdict(Mark(1, "new", "digits-2", "vm-b")), "is_sure": False}
    folder_look.main([json.dumps({**asked, "claim": {**claim, "is_new": False}})])
    assert json.loads(capsys.readouterr().out)["mark"]["owner"] == "old"
    folder_look.main([json.dumps({**asked, "claim": {**claim, "is_new": True}})])
    seen = json.loads(capsys.readouterr().out)
    assert (seen["mark"]["owner"], seen["mark"]["reserved"]) == ("new", True)
    assert fence_file.read(path) == Mark(8, "new", "digits-1", "vm-b", reserved=True)
