"""The look at a checkpoint folder as the run's user."""

from __future__ import annotations

import json
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
    asked = {"path": str(path), "owner": "", "where": "vm-b"}
    folder_look.main([json.dumps(asked)])
    seen = json.loads(capsys.readouterr().out)
    assert (seen["mark"]["owner"], fence_file.read(path)) == ("old", OLD)
    assert seen["free"] > 0
    folder_look.main([json.dumps({**asked, "owner": "new"})])
    seen = json.loads(capsys.readouterr().out)
    assert (seen["mark"]["owner"], seen["mark"]["reserved"]) == ("new", True)
