"""Print JSON for programs: the one way, so that each form is declared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def option_json(text: str = "") -> Callable[[Function], Function]:
    """Return --json, which the command gets as `machine_readable`; `text` is more of its help."""
    help_ = f"Print JSON. {text}".strip()
    return click.option("--json", "machine_readable", is_flag=True, help=help_)


def print_json(form: str, body: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print a document whose form is `forms.FORMS[form]`; tests compare the two.

    `form` is the command's words after `tpu-fleet`, with an option that changes the form.
    """
    click.echo(written(form, body, indent))


def written(_form: str, body: Mapping[str, Any], indent: int | None) -> str:
    """Return the text of a document."""
    return json.dumps(body, indent=indent)
