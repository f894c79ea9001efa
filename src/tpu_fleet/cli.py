"""The command `tpu-fleet`."""

from __future__ import annotations

import difflib
import gc
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .complete import outline, short_help
from .contract.exits import sentence

GROUPS = {
    "Begin": {
        "init": ("commands.init", "init"),
        "grant": ("commands.grant", "grant"),
        "project": ("commands.project", "project"),
        "cloud": ("commands.cloud", "cloud"),
        "completion": ("commands.completion", "completion"),
    },
    "Change the fleet": {
        "plan": ("commands.plan", "plan"),
        "apply": ("commands.apply", "apply"),
        "slice": ("commands.slices", "slice_group"),
        "repair": ("commands.repair", "repair"),
        "invite": ("commands.invite", "invite"),
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
        "why": ("commands.why", "why"),
        "logs": ("commands.logs", "logs"),
        "checkpoints": ("commands.checkpoints", "checkpoints"),
        "attach": ("commands.attach", "attach"),
        "drill": ("commands.drill", "drill"),
        "sync": ("commands.sync", "sync"),
        "fetch": ("commands.fetch", "fetch"),
        "compare": ("commands.compare", "compare"),
        "profile": ("commands.profile", "profile"),
    },
    "Submit, stop and start runs": {
        "submit": ("commands.submit", "submit"),
        "stop": ("commands.stop", "stop"),
        "start": ("commands.start", "start"),
        "retry": ("commands.retry", "retry"),
    },
    "Use the workers": {
        "ssh": ("commands.ssh", "ssh"),
        "exec": ("commands.exec", "exec_command"),
        "cp": ("commands.cp", "copy"),
        "tunnel": ("commands.tunnel", "tunnel"),
    },
}
"""Module and name of each command, imported when it is called: Ansible costs a second.

`make docs` writes what `--help` and TAB say of them.
"""
RENAMED = {"allocation": "grant"}
"""Earlier names of commands, for the error."""
OPTIONS_RENAMED = {
    ("import", "--from"): "--first-day",
    ("doctor", "--time-limit"): "--timeout",
    ("exec", "--group"): "--merge",
    ("exec", "--tag"): "--prefix",
    ("page", "--to"): "--output",
    ("top", "--every"): "--interval",
    ("watch", "--install"): "tpu-fleet watch install",
    ("watch", "--uninstall"): "tpu-fleet watch uninstall",
    ("watch", "--status"): "tpu-fleet watch status",
    ("watch", "--once"): "tpu-fleet watch run --once",
    ("watch", "--page"): "tpu-fleet watch run --page",
    ("watch", "--interval"): "tpu-fleet watch run --interval",
    ("watch", "--hosts-every"): "tpu-fleet watch run --hosts-interval",
}
"""Earlier options of commands, for the error."""
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
        if word in RENAMED:
            meant = f" It is '{RENAMED[word]}' now."
        raise click.UsageError(f"No such command '{word}'.{meant}", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what errors quote of workers, files and people is shown as text."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, OSError):
            raise
        except click.ClickException as error:
            if isinstance(error, click.NoSuchOption):
                vars(error)["message"] += renamed(error)
            # It stays the error that it is; click's types have the text as final.
            vars(error)["message"] = plain(error.message)
            raise
        except Exception as error:
            if not is_refusal(error):
                raise
            raise click.ClickException(plain(str(error))) from error

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


def plain(text: str) -> str:
    """Return a text whose control characters are shown, and steer nothing."""
    # Imported here, because neither --help nor TAB needs it.
    from ansible_collections.tpu.fleet.plugins.module_utils._core import plain_text

    return plain_text.visible(text)


def is_refusal(error: Exception) -> bool:
    """Return whether the text of an error is for people: an API's, or of the fleet file."""
    from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError

    return isinstance(error, TpuError | InventoryError)


def renamed(error: click.NoSuchOption) -> str:
    """Return what an option is called now that an earlier version had, or where it stands."""
    name = error.option_name
    if name == "--fleet":
        return " It stands before the command: tpu-fleet --fleet DIR ..."
    command = error.ctx.info_name if error.ctx else ""
    new = OPTIONS_RENAMED.get((str(command), name))
    return f" It is {new} now." if new else ""


def go(ctx: click.Context, _param: click.Parameter, folder: str | None) -> None:
    """Go to the folder of the fleet that is meant; keep from which one."""
    if folder is not None:
        ctx.meta["tpu_fleet.from"] = Path.cwd()
        os.chdir(folder)
        # Playbooks put results below it.
        os.environ["PWD"] = str(Path.cwd())


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
    _tell_exits(command, name)
    return command


def _tell_exits(command: click.Command, words: str) -> None:
    """Give a command, and those below it, the line of --help about exit codes."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            _tell_exits(inner, f"{words} {name}")
    else:
        command.epilog = sentence(words)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--fleet",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    callback=go,
    is_eager=True,
    expose_value=False,
    help="Go to this folder first, to work on its fleet.",
)
@click.version_option(package_name="tpu-fleet", prog_name="tpu-fleet")
def main() -> None:
    """Turn Google Cloud TPU VMs into training machines that look after themselves."""
