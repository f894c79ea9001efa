"""The command `tpu-fleet`."""

from __future__ import annotations

import difflib
import gc
from importlib import import_module
from typing import Any

import click

from .complete import outline, short_help

GROUPS = {
    "Begin": {
        "init": ("commands.init", "init"),
        "allocation": ("commands.allocation", "allocation"),
        "cloud": ("commands.cloud", "cloud"),
        "completion": ("commands.completion", "completion"),
    },
    "See and repair the fleet": {
        "status": ("commands.status", "status"),
        "top": ("top.command", "top"),
        "page": ("commands.page", "page"),
        "history": ("commands.history", "history"),
        "doctor": ("commands.doctor", "doctor"),
        "watch": ("watch.command", "watch"),
    },
    "Follow the runs": {
        "runs": ("commands.runs", "runs"),
        "logs": ("commands.logs", "logs"),
        "attach": ("commands.attach", "attach"),
    },
    "Use the workers": {
        "exec": ("commands.exec", "exec_command"),
        "cp": ("commands.cp", "copy"),
        "tunnel": ("commands.tunnel", "tunnel"),
    },
}
"""Module and name of each command, imported when it is called: Ansible costs a second.

`make docs` writes what `--help` and TAB say of them.
"""
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}


class Commands(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # Only TAB parses like this.
        found = outline(cmd_name) if ctx.resilient_parsing else None
        return found or imported(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown word is answered with the command it resembles."""
        word = args[0]
        if word in COMMANDS or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        meant = f" Did you mean '{near[0]}'?" if near else ""
        raise click.UsageError(f"No such command '{word}'.{meant}", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what errors quote of workers, files and people is shown as text."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            # Imported here, because neither --help nor TAB needs it.
            from ansible_collections.tpu.fleet.plugins.module_utils._core import worker_words

            # It stays the error that it is; click's types have the text as final.
            vars(error)["message"] = worker_words.visible(error.message)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in their groups."""
        widest = max(map(len, COMMANDS))
        limit = formatter.width - 6 - widest
        for group, commands in GROUPS.items():
            rows = []
            for name in commands:
                help_line = click.Command(name, help=short_help(name)).get_short_help_str(limit)
                rows.append((name.ljust(widest), help_line))
            with formatter.section(group):
                formatter.write_dl(rows)


def imported(name: str) -> click.Command:
    """Return a command itself."""
    module, attribute = COMMANDS[name]
    # Modules stay. To look for garbage among them takes a tenth of what a command takes.
    gc.disable()
    try:
        command: click.Command = getattr(import_module(f".{module}", __package__), attribute)
    finally:
        gc.freeze()
        gc.enable()
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tpu-fleet", prog_name="tpu-fleet")
def main() -> None:
    """Turn Google Cloud TPU VMs into training machines that look after themselves."""
