"""The forms of `--json`: each command that has the option has one, as a file for users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest
from json_forms import command_of, example, strict, wrong

from tpu_fleet.cli import main
from tpu_fleet.contract import forms

SCHEMAS = Path(forms.__file__).parents[1] / "schemas"


def with_json(group: click.Group, words: str = "") -> Iterator[str]:
    """Yield the words of the commands that print JSON, but those of the local cloud."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command, path = group.get_command(context, name), f"{words} {name}".strip()
        if isinstance(command, click.Group) and path != "cloud":
            yield from with_json(command, path)
        elif command and any("--json" in one.opts for one in command.params):
            yield path


def test_each_command_that_prints_json_has_a_form() -> None:
    assert set(with_json(main)) == {name for name in forms.FORMS if " --" not in name}


@pytest.mark.parametrize("command", forms.FORMS)
def test_the_file_of_a_form(command: str) -> None:
    told = json.loads((SCHEMAS / forms.file_name(command)).read_text())
    jsonschema.Draft202012Validator.check_schema(told)
    assert told == forms.schema(command)


def test_there_is_no_other_file() -> None:
    assert {path.name for path in SCHEMAS.iterdir()} == set(map(forms.file_name, forms.FORMS))


@pytest.mark.parametrize("command", forms.FORMS)
def test_a_key_that_is_not_declared_or_missing_is_seen(command: str) -> None:
    body = example(forms.FORMS[command])
    assert wrong(command, body) == []
    assert "Additional properties" in wrong(command, {**body, "undeclared": 1})[0]
    for key in body:
        assert wrong(command, {name: value for name, value in body.items() if name != key})


def test_users_may_meet_more_keys() -> None:
    body = {**example(forms.FORMS["runs"]), "of_a_later_version": 1}
    assert jsonschema.Draft202012Validator(forms.schema("runs")).is_valid(body)
    assert not jsonschema.Draft202012Validator(strict(forms.schema("runs"))).is_valid(body)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["tpu-fleet", "runs", "--queue", "--json"], "runs --queue"),
        (["-m", "tpu-fleet", "runs", "digits", "--json"], "runs"),
        (["watch", "status", "--json"], "watch status"),
        (["exec", "--limit", "pair", "--json", "--", "x"], "exec"),
    ],
)
def test_which_form_a_command_line_has(words: list[str], command: str) -> None:
    assert command_of(words) == command
