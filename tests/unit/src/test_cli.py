"""What `tpu-fleet --help` says, without importing what it speaks of."""

from __future__ import annotations

import subprocess
import sys

import click
from click.testing import CliRunner

from tpu_fleet.cli import COMMANDS, Commands, main

PROGRAM = """
import sys
from tpu_fleet.cli import main
try:
    main(["--help"])
except SystemExit:
    print(sorted({name.split(".")[0] for name in sys.modules} & {"ansible", "asyncssh", "rich"}))
"""


class AsClick(Commands):
    """Imports all commands, as click does."""

    format_commands = click.Group.format_commands


def test_the_help_is_what_click_itself_writes() -> None:
    usual = AsClick(main.name, help=main.help, params=main.params)
    usual.context_settings = main.context_settings
    told = CliRunner().invoke(main, ["--help"], prog_name="tpu-fleet").output
    assert told == CliRunner().invoke(usual, ["--help"], prog_name="tpu-fleet").output
    assert all(f"\n  {name} " in told for name in COMMANDS)


def test_the_help_imports_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n"), done.stdout + done.stderr
