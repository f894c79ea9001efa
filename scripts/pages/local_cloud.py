"""docs/local-cloud.md: the hand-written text, with the tables of commands and of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from tpu_local_cloud.commands.cloud import cloud
from tpu_local_cloud.model.shared.faults import KINDS, OPTIONS, PLACES

from . import DOCS, filled, wrapped

PAGE = DOCS / "local-cloud.md"


def page() -> str:
    """Return the page with current tables."""
    return filled(PAGE, TABLES)


def faults_table() -> str:
    """Return the kinds of faults, and where they can apply."""
    rows = ["| kind | does | options |", "| --- | --- | --- |"]
    for kind, text in KINDS.items():
        options = ", ".join(f"`{name}`" for name in OPTIONS.get(kind, ()))
        rows.append(f"| `{kind}` | {text} | {options} |")
    places = ", ".join(f"`{place}`" for place in PLACES)
    return "\n".join(rows) + "\n\n" + wrapped(f"`--match` accepts {places}.")


def commands_table() -> str:
    """Return all commands with their options."""
    rows = ["| `tpu-fleet cloud …` | does | options |", "| --- | --- | --- |"]
    for words, command in _commands("", cloud):
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        options = [p for p in command.params if isinstance(p, click.Option)]
        usage = " ".join([words, *(argument.make_metavar(_context) for argument in arguments)])
        short = command.help.split("\n\n")[0].replace("\n", " ") if command.help else ""
        shown = ", ".join(f"`{option.opts[0]}`" for option in options)
        rows.append(f"| `{usage}` | {short} | {shown} |")
    return "\n".join(rows)


_context = click.Context(cloud)


def _commands(words: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        path = f"{words} {name}".strip()
        if isinstance(command, click.Group):
            yield from _commands(path, command)
        else:
            yield path, command


TABLES: dict[str, Callable[[], str]] = {"faults": faults_table, "commands": commands_table}
