"""The command `tpu-fleet`."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import click

COMMANDS = {
    "allocation": ("commands.allocation", "allocation"),
    "attach": ("commands.attach", "attach"),
    "cloud": ("cloud.commands.cloud", "cloud"),
    "cp": ("commands.cp", "copy"),
    "doctor": ("commands.doctor", "doctor"),
    "exec": ("commands.exec", "exec_command"),
    "logs": ("commands.logs", "logs"),
    "runs": ("commands.runs", "runs"),
    "status": ("commands.status", "status"),
    "top": ("top.command", "top"),
    "tunnel": ("commands.tunnel", "tunnel"),
    "watch": ("watch.command", "watch"),
}
"""Module and name of each command, imported when it is called: Ansible costs a second."""


class Commands(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f".{module}", __package__), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from their source, because importing all takes half a second."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=described(name)).get_short_help_str(limit))
                    for name in self.list_commands(ctx)
                ]
            )


def described(command: str) -> str | None:
    """Return a command's help line from its source."""
    module, name = COMMANDS[command]
    source = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(source.read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node)
    return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tpu-fleet", prog_name="tpu-fleet")
def main() -> None:
    """Turn Google Cloud TPU VMs into training machines that look after themselves."""
