"""The fleet file that answers make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tpu_fleet.begin.answers import Answers, Code, connection_file, data_of, fleet_file, problems_of

NOWHERE = Path("/nowhere/inventory")


@pytest.mark.parametrize(
    ("project", "text"), [("my-project", "my-project"), ("123456", "'123456'"), ("on", "'on'")]
)
def test_a_project_stays_a_text(project: str, text: str) -> None:
    written = connection_file(Answers(project=project))
    assert f"- {text}\n" in written
    assert yaml.safe_load(written)["projects"] == [project]


@pytest.mark.parametrize("command", ["a: b # c", "- x", '"', "'", "\n", "#", "ü", "\x1b[2J", "%x"])
def test_any_command_is_read_as_it_was_said(command: str) -> None:
    data = data_of(Answers(accelerator_type="v4-8", zone="us-central2-b", command=command))
    assert data["fleet_runs"][0]["command"] == command
    assert "\x1b" not in fleet_file(Answers(command=command))


@pytest.mark.parametrize("words", [12, 13, 50, 400])
def test_a_long_command_has_a_line_of_its_own(words: int) -> None:
    command = "python " + "word  " * words + "'a: b' # end"
    answers = Answers(accelerator_type="v4-8", zone="us-central2-b", command=command)
    assert data_of(answers)["fleet_runs"][0]["command"] == command
    assert "    command: >-\n      python word" in fleet_file(answers)
    assert "    command: python t.py\n" in fleet_file(Answers(command="python t.py"))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"zone": "us-central2"}, "fleet_zone"),
        ({"project": "X"}, "fleet_project"),
        ({"accelerator_type": "v4-9", "zone": "us-central2-b"}, "fleet_slices[0].accelerator_type"),
        ({"code": Code("c", folder="../missing")}, "fleet_code[0].local_path"),
    ],
)
def test_the_rules_of_the_fleet_file_find_what_is_wrong(more: dict[str, Any], field: str) -> None:
    assert problems_of(Answers(), NOWHERE) == []
    assert [problem.field for problem in problems_of(Answers(**more), NOWHERE)] == [field]
