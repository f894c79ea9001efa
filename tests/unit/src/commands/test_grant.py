"""The command that turns a grant mail into a part of the fleet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.fleet import check_fleet
from click.testing import CliRunner, Result

from tpu_fleet.cli import main

LINES = """
32 on-demand Cloud TPU v4 chips in zone us-central2-b
5 on-demand Cloud TPU v3-8 device(s) in zone europe-west4-a
"""


def import_(text: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["grant", "import", *options], input=text)


def allocations(result: Result) -> Any:
    return yaml.safe_load(result.stdout)["fleet_allocations"]


def test_what_is_printed_is_part_of_a_fleet_file() -> None:
    result = import_(LINES, "--ends", "2027-03-31")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout == (
        "fleet_allocations:\n"
        "  - zone: us-central2-b\n"
        "    generation: v4\n"
        "    tier: on_demand\n"
        "    chips: 32\n"
        "    ends: 2027-03-31\n"
        "  - zone: europe-west4-a\n"
        "    accelerator_type: v3-8\n"
        "    tier: on_demand\n"
        "    count: 5\n"
        "    ends: 2027-03-31\n"
    )
    assert check_fleet({"fleet_allocations": allocations(result)}) == []


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        (["--days", "30", "--first-day", "2027-03-01"], "2027-03-30"),
        (["--first-day", "2027-03-01"], "2027-04-29"),
        (["--ends", "2027-12-31"], "2027-12-31"),
        (["--ends", "31 Dec 2027"], "2027-12-31"),
    ],
)
def test_when_it_ends(options: list[str], ends: str) -> None:
    result = import_(f"Free of charge for 60 days:\n{LINES}", *options)
    assert result.exit_code == 0
    assert {str(entry["ends"]) for entry in allocations(result)} == {ends}


def test_days_without_a_beginning_have_to_be_filled_in() -> None:
    result = import_(f"Free of charge for 60 days:\n{LINES}")
    assert result.exit_code == 1
    assert "60 days, but not from when" in result.stderr
    problems = [str(problem) for problem in check_fleet(yaml.safe_load(result.stdout))]
    assert [problem.split(" = ")[0] for problem in problems] == [
        "fleet_allocations[0].ends",
        "fleet_allocations[1].ends",
    ]


def test_no_end_at_all_is_told() -> None:
    result = import_(LINES)
    assert result.exit_code == 0
    assert "never end" in result.stderr


def test_what_is_certain_is_printed_and_the_rest_told() -> None:
    result = import_(f"{LINES}64 spot Cloud TPU v6e in zone us-east1-d", "--ends", "2027-03-31")
    assert result.exit_code == 1
    assert len(allocations(result)) == 2
    assert "line 4: 64 spot Cloud TPU v6e in zone us-east1-d" in result.stderr
    assert "is not of the form" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--days", "30"], "--first-day"),
        (["--ends", "2027-01-01", "--days", "3"], "leave --days and --first-day out"),
        (["--ends", "3/4/2027"], "Write it as 2026-12-31"),
        (["--days", "0", "--first-day", "2027-01-01"], "--days"),
    ],
)
def test_options_that_do_not_fit(options: list[str], words: str) -> None:
    result = import_(LINES, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_text_without_a_grant() -> None:
    result = import_("Hello!\n")
    assert result.exit_code == 1
    assert "No line of a grant was found" in result.stderr


def test_a_file_is_overwritten_only_when_told(tmp_path: Path) -> None:
    file = tmp_path / "grant.yml"
    options = ("--ends", "2027-03-31", "--output", str(file))
    assert import_(LINES, *options).exit_code == 0
    written = file.read_text()
    assert len(yaml.safe_load(written)["fleet_allocations"]) == 2
    refused = import_("64 spot TPU v6e chips in us-east1-d", *options)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert file.read_text() == written
    assert import_("64 spot TPU v6e chips in us-east1-d", *options, "--force").exit_code == 0
    assert len(yaml.safe_load(file.read_text())["fleet_allocations"]) == 1
