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


def test_no_summary_is_cut_at_eighty_columns() -> None:
    def cut(group: click.Group, words: tuple[str, ...]) -> list[str]:
        told = CliRunner().invoke(main, [*words, "--help"], prog_name="tpu-fleet").output
        found = [line for line in told.splitlines() if line.endswith("...") and "Usage" not in line]
        members = group.commands or {name: imported(name) for name in COMMANDS}
        for name, one in members.items():
            found += cut(one, (*words, name)) if isinstance(one, click.Group) else []
        return found

    assert isinstance(main, click.Group)
    assert cut(main, ()) == []


@pytest.mark.parametrize(
    ("word", "meant"),
    [("statsu", " Did you mean 'status'?"), ("dcotor", " Did you mean 'doctor'?"), ("x\x1b", "")],
)
def test_a_mistyped_command_is_answered_with_the_right_one(word: str, meant: str) -> None:
    done = CliRunner().invoke(main, [word])
    assert done.exit_code == 2
    assert done.stderr.endswith(f"No such command '{word.replace(chr(27), chr(0xFFFD))}'.{meant}\n")


def test_the_help_imports_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n"), done.stdout + done.stderr
