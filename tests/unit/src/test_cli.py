"""What `tpu-fleet --help` says, without importing what it speaks of."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).output.startswith("tpu-fleet, version ")


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


def walked(
    command: click.Command = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands with the words that lead to them, the groups among them."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one
            yield from walked(one, (*words, name))


def named(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words of a command line name, and the words after its name."""
    command: click.Command | None = main
    while isinstance(command, click.Group) and words:
        command, words = command.get_command(click.Context(command), words[0]), words[1:]
    assert command
    return command, words


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command, and of a group also those of its commands."""
    found = [one for _words, each in walked(command) for one in each.params]
    return {option for one in found for option in (*one.opts, *one.secondary_opts)}


def help_in_a_terminal(words: tuple[str, ...], command: click.Command) -> str:
    """Return the help in a terminal of 80 columns, of which click leaves two free.

    CliRunner has a width of its own, which is two more.
    """
    return command.get_help(click.Context(command, info_name=" ".join(("tpu-fleet", *words))))


HELPS = {" ".join(words) or "tpu-fleet": (words, command) for words, command in walked()}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@pytest.mark.parametrize("name", HELPS)
def test_a_help_names_only_options_that_exist(name: str) -> None:
    words, command = HELPS[name]
    told = CliRunner().invoke(main, [*words, "--help"], prog_name="tpu-fleet")
    assert told.exit_code == 0
    assert set(OPTION.findall(told.output)) <= options_of(command) | {"--help", "--version"}
    # None is cut, at the width of any terminal.
    assert [line for line in told.output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", HELPS)
def test_no_summary_is_cut_at_eighty_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = help_in_a_terminal(*HELPS[name]).splitlines()
    assert [line for line in lines if line.endswith("...") and "Usage" not in line] == []
    assert [line for line in lines if len(line) > 78] == []


@pytest.mark.parametrize("name", HELPS)
def test_each_option_says_what_it_is_and_what_it_takes(name: str) -> None:
    """A name of a type of click's, as INTEGER RANGE, says nothing to a person."""
    _words, command = HELPS[name]
    for one in (one for one in command.params if isinstance(one, click.Option)):
        assert one.help, f"{name} {one.opts}"
        takes = not one.is_flag and not one.count and not isinstance(one.type, click.Choice)
        assert one.metavar or not takes, f"{name} {one.opts}"


@pytest.mark.parametrize(
    "name", [name for name, (_, one) in HELPS.items() if not isinstance(one, click.Group)]
)
def test_a_help_shows_how_the_command_is_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = help_in_a_terminal(*HELPS[name])
    assert re.search(rf"^ +.*tpu-fleet {name}\b", shown.partition("\n")[2], re.MULTILINE)


@pytest.mark.parametrize("name", HELPS)
def test_what_a_help_says_to_type_is_accepted(name: str) -> None:
    words, command = HELPS[name]
    text = help_in_a_terminal(*HELPS[name]) if words[:1] == ("cloud",) else command.help or ""
    # Two spaces begin a remark beside it.
    lines = re.findall(r"^ +tpu-fleet (.+?)(?:  .*)?$", text, re.MULTILINE)
    for line in lines:
        one, words = named(shlex.split(line.partition(" < ")[0]))
        one.make_parser(click.Context(one)).parse_args(words)


def test_a_health_is_given_by_its_option() -> None:
    """The help once said that HEALTHY restores a node, and HEALTHY alone was refused."""
    command, words = named(["cloud", "unhealthy", "cheap", "--health", "HEALTHY"])
    assert command.make_parser(click.Context(command)).parse_args(words)[0]["health"] == "HEALTHY"
    assert re.findall(r"(\S+) HEALTHY", str(command.help)) == ["--health"]
    with pytest.raises(click.UsageError, match="unexpected extra argument"):
        command.make_context("unhealthy", ["cheap", "HEALTHY"])


@pytest.mark.parametrize(
    ("word", "meant"),
    [("statsu", " Did you mean 'status'?"), ("dcotor", " Did you mean 'doctor'?"), ("x\x1b", "")],
)
def test_a_mistyped_command_is_answered_with_the_right_one(word: str, meant: str) -> None:
    done = CliRunner().invoke(main, [word])
    assert done.exit_code == 2
    assert done.stderr.endswith(f"No such command '{word.replace(chr(27), chr(0xFFFD))}'.{meant}\n")


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("watch --install", "tpu-fleet watch install"),
        ("watch --interval=10 --lease=900", "tpu-fleet watch run --interval"),
        ("top --every 3", "--interval"),
        ("doctor --time-limit 3", "--timeout"),
        ("page --to x", "--output"),
        ("exec --group uname", "--merge"),
        ("exec --tag -- uname -r", "--prefix"),
        ("grant import --from 2026-01-01", "--first-day"),
        ("allocation show", "'grant'"),
    ],
)
def test_an_earlier_name_is_answered_with_the_new_one(words: str, now: str) -> None:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2
    assert f" It is {now} now." in done.stderr


def test_another_folder_is_gone_to_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_INVENTORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "ansible.cfg").write_text("[defaults]\ninventory = hosts\n")
    done = CliRunner().invoke(main, ["--fleet", "lab", "runs"])
    assert f"There is no fleet here: {tmp_path}/lab/hosts does not exist." in done.output
    done = CliRunner().invoke(main, ["runs", "--fleet", "lab"])
    assert "It stands before the command: tpu-fleet --fleet DIR" in done.stderr


def test_the_help_imports_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n"), done.stdout + done.stderr
