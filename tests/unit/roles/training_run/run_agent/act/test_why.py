"""What a worker sends of a run, as the controller reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from run_agent.act import evidence, why


@pytest.mark.parametrize("character", ["a", "\x01", "\U0001f600"])
def test_the_longest_text_fits_into_an_answer(character: str) -> None:
    found = evidence.Found({"worker": 1}, character * bounds.RAW)
    data = why.packed(found)
    assert len(data) <= bounds.ANSWER
    told = json.loads(data)
    assert told["evidence"] == {"worker": 1}
    assert len(told["text"]) > bounds.RAW // 8


def test_a_run_that_is_not_declared_is_named(
    tmp_path: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why.main(["gone", str(tmp_path)]) == why.NOT_DECLARED
    assert capsys.readouterr().err == "it has no run gone\n"


def test_its_time_limit_ends_with_it(tmp_path: Path) -> None:
    why.main(["gone", str(tmp_path)])
    assert why.signal.alarm(0) == 0
