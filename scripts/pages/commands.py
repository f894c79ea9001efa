"""docs/commands.md, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tpu_fleet.cli import main
from tpu_fleet.contract.exits import FAMILIES, FAMILY_OF
from tpu_fleet.contract.forms import FORMS, file_name

from . import wrapped

HEAD = """\
# Commands

Every command of `tpu-fleet` with its options, as `--help` shows them. Those about a fleet work on
the fleet of the folder in which they are called, with the inventory and the settings that its
`ansible.cfg` names.
"""
EXITS = """\
## Exit codes

130 is Ctrl-C, and 141 a reader that closed the pipe. The section of a command says what is special
about it."""
JSON = """\
## JSON

What `--json` prints has a [JSON Schema](https://json-schema.org), which `tpu-fleet` brings along.
A minor version may add keys; none is removed or changes its meaning. Errors are text on standard
error, also with `--json`. The schemas of:"""
FOLDER = "../src/tpu_fleet/schemas"
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
    return "\n\n".join([HEAD.rstrip(), table, exits(), json_forms(), *sections]) + "\n"


def exits() -> str:
    """Return the table of exit codes."""
    kinds: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name, family in (*FAMILY_OF.items(), ("cloud …", "cloud")):
        kinds[family].append(name)
    codes = sorted({code for meanings in FAMILIES.values() for code in meanings})
    head = ["| commands |", *(f" {code} |" for code in codes)]
    rows = [
        f"| {', '.join(f'`{name}`' for name in kinds[family])} | "
        + " | ".join(meanings.get(code, "") for code in codes)
        + " |"
        for family, meanings in FAMILIES.items()
    ]
    lines = ["".join(head), "| --- |" + " --- |" * len(codes), *rows]
    return "\n".join([EXITS, "", *lines])


def json_forms() -> str:
    """Return the list of the forms of what --json prints."""
    links = [f"[`{name}`]({FOLDER}/{file_name(name)})" for name in FORMS]
    return f"{JSON}\n\n{wrapped(', '.join(links))}."


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
    if command.epilog:
        yield wrapped(plain(command.epilog))
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
