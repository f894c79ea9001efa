"""What `tpu-fleet --help` says, without importing what it speaks of."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from tpu_fleet.cli import COMMANDS, GROUPS, imported, main
from tpu_fleet.complete import short_help

PROGRAM = """
import sys
from tpu_fleet.cli import main
try:
    main(["--help"])
except SystemExit:
    print(sorted({name.split(".")[0] for name in sys.modules} & {"ansible", "asyncssh", "rich"}))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_its_own(name: str) -> None:
    command = imported(name)
    told = click.Command(name, help=short_help(name)).get_short_help_str(60)
    assert told == command.get_short_help_str(60)


def test_each_command_is_listed_in_its_group() -> None:
    told = CliRunner().invoke(main, ["--help"], prog_name="tpu-fleet").output
    for group, commands in GROUPS.items():
        lines = told.partition(f"\n{group}:\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == list(commands)


def test_the_help_imports_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n"), done.stdout + done.stderr
