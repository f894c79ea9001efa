"""The name by which the commands were called, which their texts repeat."""

from __future__ import annotations

import click

PROGRAM = "tpu-local-cloud"


def called() -> str:
    """Return `tpu-local-cloud`, or the words under which another program has the commands."""
    context = click.get_current_context(silent=True)
    while context is not None and context.command.name != "cloud":
        context = context.parent
    return context.command_path if context else PROGRAM
