"""Commands whose --help shows how they are called."""

from __future__ import annotations

from typing import Any

import click


class Shown(click.Command):
    """A command with examples: its arguments, or a line in which {} is the command itself.

    Examples have the words by which the command was called: `tpu-local-cloud up` is also
    `tpu-fleet cloud up`.
    """

    def __init__(self, *args: Any, examples: tuple[str, ...], **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description, and the examples below it."""
        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation(), formatter.indentation():
            for line in self.lines(ctx.command_path):
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")

    def lines(self, path: str) -> list[str]:
        """Return the examples, as they are typed for a command that is called so."""
        return [
            one.replace("{}", path) if "{}" in one else f"{path} {one}".rstrip()
            for one in self.examples
        ]
