"""The look at a checkpoint folder as the run's user."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from run_agent.act import fence_file, folder_look
from run_agent.decide.fence import Mark

OLD = Mark(7, "old", "digits-1", "vm-a")


def test_a_look_takes_over_only_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / ".tpu-fleet-attempt.digits"
    fence_file.write(path, OLD)
    asked: dict[str, Any] = {"path": str(path), "claim": None}
    seen = folder_look.look(asked)
    assert (seen["mark"]["owner"], fence_file.read(path)) == ("old", OLD)
    assert seen["free"] > 0
    claim = {"mark": Mark(1, "new", "digits-2", "vm-b")._asdict(), "is_sure": False}
    seen = folder_look.look({**asked, "claim": {**claim, "is_new": False}})
    assert seen["mark"]["owner"] == "old"
    seen = folder_look.look({**asked, "claim": {**claim, "is_new": True}})
    assert (seen["mark"]["owner"], seen["mark"]["reserved"]) == ("new", True)
    assert fence_file.read(path) == Mark(8, "new", "digits-1", "vm-b", reserved=True)


def test_a_folder_that_does_not_answer_keeps_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers = [], threading.Event()

    def blocked(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question["n"])
        assert answers.wait(20)
        return {"mark": question["n"]}

    monkeypatch.setattr(folder_look, "look", blocked)
    looks = folder_look.Looks()
    assert looks.answer(1, {"n": 1}, 0.01) is None
    assert looks.answer(2, {"n": 2}, 0.01) is None
    assert asked == [1]
    answers.set()
    assert looks.answer(2, {"n": 2}, 20) is None
    assert looks.answer(2, {"n": 2}, 20) == {"mark": 2}
