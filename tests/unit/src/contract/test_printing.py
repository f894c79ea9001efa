"""The one way to print JSON."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from tpu_fleet.contract.printing import option_json, print_json


@click.command()
@option_json("More.")
def command(machine_readable: bool) -> None:
    if machine_readable:
        print_json("grant show", {"grant": {}, "warnings": ["ä"]})


def test_a_command_prints_its_document() -> None:
    assert CliRunner().invoke(command, []).output == ""
    assert json.loads(CliRunner().invoke(command, ["--json"]).output)["warnings"] == ["ä"]
    assert "Print JSON. More." in CliRunner().invoke(command, ["--help"]).output


def test_a_document_of_another_form_fails_its_test() -> None:
    with pytest.raises(SystemExit, match="grant show --json"):
        print_json("grant show", {"grant": {}})
