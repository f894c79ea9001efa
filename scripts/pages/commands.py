"""docs/commands.md, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tpu_fleet.cli import main

from . import wrapped

HEAD = """\
# Commands

Every command of `tpu-fleet` with its options, as `--help` shows them. Those about a fleet work on
the fleet of the folder in which they are called, with the inventory and the settings that its
`ansible.cfg` names.
"""
# How click marks a paragraph whose lines stay as they are.
VERBATIM = "\b"


def page() -> str:
    """Return the page: a table of the commands, then a section for each."""
    commands = list(below(main, click.Context(main, info_name="tpu-fleet")))
    rows = [
        f"| [`{path}`](#{path.replace(' ', '-')}) | {cell(command.get_short_help_str(200))} |"
        for command, path in ((command, context.command_path) for command, context in commands)
    ]
    table = "\n".join(["| command | does |", "| --- | --- |", *rows])
    sections = ["\n\n".join(section(command, context)) for command, context in commands]
    return "\n\n".join([HEAD.rstrip(), table, *sections]) + "\n"


def below(
    group: click.Group, parent: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield all commands of a group with their contexts, those of its groups included."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=parent)
        yield command, context
        if isinstance(command, click.Group):
            yield from below(command, context)


def section(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the parts about one command."""
    level = "##" if context.parent and context.parent.parent is None else "###"
    yield f"{level} {context.command_path}"
    pieces = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{pieces}\n```"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith(VERBATIM):
            yield f"```text\n{inspect.cleandoc(paragraph[1:])}\n```"
        else:
            yield wrapped(plain(paragraph))
    found = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    # Every command has --help, and most arguments say all with their name.
    records = [record for record in found if record and record[1] and "--help" not in record[0]]
    if records:
        rows = [f"| {names(option)} | {cell(meaning)} |" for option, meaning in records]
        yield "\n".join(["| option | meaning |", "| --- | --- |", *rows])


def names(option: str) -> str:
    """Mark an option with its value as code."""
    return f"`{option}`".replace("|", "\\|")


def cell(text: str) -> str:
    """Return a text for a table."""
    return plain(" ".join(text.split())).replace("|", "\\|")


def plain(text: str) -> str:
    """Keep what a user may read as it is: Markdown has no say in it."""
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("<", "\\<")
