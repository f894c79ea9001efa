"""The command line as a table, which `--help` and TAB read instead of importing the commands.

`make docs` writes the table, command_line.json, from the commands; a test compares them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .workers.inventory.names import NameOf

TABLE = Path(__file__).with_name("command_line.json")


def described(command: click.Command) -> dict[str, Any]:
    """Return what TAB and --help need to know of a command."""
    told: dict[str, Any] = {"help": command.get_short_help_str(1000)}
    if isinstance(command, click.Group):
        told["commands"] = {
            name: described(command.commands[name]) for name in sorted(command.commands)
        }
    told["options"] = [_option(one) for one in command.params if isinstance(one, click.Option)]
    told["arguments"] = [
        {"nargs": one.nargs, **_values(one)}
        for one in command.params
        if isinstance(one, click.Argument)
    ]
    return {key: value for key, value in told.items() if value}


def short_help(name: str) -> str:
    """Return the first sentence of a command's help."""
    return str(_table().get(name, {}).get("help", ""))


def outline(name: str) -> click.Command | None:
    """Return a command that can be completed and does nothing; None if the table lacks it."""
    told = _table().get(name)
    return _command(name, told) if told else None


@functools.cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def _option(option: click.Option) -> dict[str, Any]:
    told = {
        "names": option.opts,
        "off": option.secondary_opts,
        "help": option.help,
        "flag": option.is_flag,
        "multiple": option.multiple,
        **_values(option),
    }
    return {key: value for key, value in told.items() if value}


def _values(parameter: click.Parameter) -> dict[str, Any]:
    """Return what the values of a parameter are completed from."""
    kind = parameter.type
    if isinstance(kind, NameOf):
        return {"of": kind.kind}
    if isinstance(kind, click.Choice):
        return {"choices": list(kind.choices)}
    return {"path": True} if isinstance(kind, click.Path | click.File) else {}


def _type(told: Mapping[str, Any]) -> click.ParamType[Any]:
    if "of" in told:
        return NameOf(told["of"])
    if "choices" in told:
        return click.Choice(told["choices"])
    return click.Path() if told.get("path") else click.STRING


def _command(name: str, told: Mapping[str, Any]) -> click.Command:
    parameters: list[click.Parameter] = []
    for number, one in enumerate(told.get("options", ())):
        names = "/".join([one["names"][0], *one.get("off", ())])
        parameters.append(
            click.Option(
                [f"option_{number}", names, *one["names"][1:]],
                is_flag=one.get("flag", False),
                multiple=one.get("multiple", False),
                type=None if one.get("flag") else _type(one),
                help=one.get("help"),
            )
        )
    for number, one in enumerate(told.get("arguments", ())):
        parameters.append(
            click.Argument(
                [f"argument_{number}"], nargs=one["nargs"], type=_type(one), required=False
            )
        )
    settings = {"help_option_names": ["-h", "--help"]}
    if "commands" not in told:
        return click.Command(
            name, params=parameters, help=told.get("help"), context_settings=settings
        )
    inner = {one: _command(one, more) for one, more in told["commands"].items()}
    return click.Group(
        name, inner, params=parameters, help=told.get("help"), context_settings=settings
    )
