"""An option has one meaning in all commands, and each playbook for people has its command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import controller, host
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import slice as worker_slice

from tpu_fleet.cli import main
from tpu_fleet.workers.inventory.names import NameOf

ROOT = Path(__file__).resolve().parents[2]
# The questions of a dialogue, and the emulator, which is a distribution of its own.
OTHERS = ("init", "cloud")
# What each option that several commands have takes, and how its help begins.
MEANINGS = {
    "--slice": (NameOf, "NAME", r"(Only|On) this slice\."),
    "--worker": (click.IntRange, "N", r"(Only|On) worker N"),
    "--limit": (NameOf, "PATTERN", r"Only these workers or groups, as for ansible-playbook\."),
    "--json": (None, "FORMAT", r"Print JSON\."),
    "--timeout": (None, "SECONDS", r"Time limit "),
    "--interval": (None, "SECONDS", r"(With --serve: t|T)ime between two looks\."),
    "--output": (None, "FILE|DIR|PLACE", r""),
    "--days": (None, "N", r""),
    "--since": (click.types.StringParamType, "TIME", r"(From|Since|Only|What) "),
    "--only": (click.Choice, "PART", r"Only this part"),
    "--port": (click.IntRange, "N", r""),
    "--no-logs": (click.types.BoolParamType, None, r"(With --page: l|L)eave out everything that"),
    "--yes": (click.types.BoolParamType, None, r"Do not ask for "),
    "--open": (click.types.BoolParamType, None, r"Open (it|the page) in "),
}


def walked(
    command: click.Command = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group) and words[:1] not in [(one,) for one in OTHERS]:
        context = click.Context(command)
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one
            yield from walked(one, (*words, name))


def found() -> dict[str, list[tuple[str, click.Option]]]:
    """Return the commands with each option, by the option's long name."""
    seen: dict[str, list[tuple[str, click.Option]]] = {}
    for words, command in walked():
        if words[:1] in [(one,) for one in OTHERS]:
            continue
        for one in command.params:
            if isinstance(one, click.Option):
                long = next((name for name in one.opts if name.startswith("--")), one.opts[0])
                seen.setdefault(long, []).append((" ".join(words), one))
    return seen


@pytest.mark.parametrize("name", MEANINGS)
def test_an_option_means_the_same_in_all_commands(name: str) -> None:
    kind, metavar, begins = MEANINGS[name]
    for command, option in found()[name]:
        told = f"{command} {name}: {option.help}"
        assert kind is None or isinstance(option.type, kind), told
        assert metavar is None or option.is_flag or str(option.metavar) in metavar.split("|"), told
        assert re.match(begins, option.help or ""), told


def test_options_with_one_name_are_one_option() -> None:
    """Where the table has no word about them, they take and say the same."""

    def said(option: click.Option) -> Any:
        return type(option.type), option.metavar, option.is_flag, option.help

    different = {
        name: [command for command, _option in those]
        for name, those in found().items()
        if name not in MEANINGS and len({said(option) for _command, option in those}) > 1
    }
    assert different == {}


def test_what_is_the_name_of_something_in_the_fleet_is_completed() -> None:
    named = re.compile(r"\b(RUN|SLICE|HOST|PERSON)\b")
    without = {
        f"{' '.join(words)} {one.name}"
        for words, command in walked()
        if words[:1] not in [(one,) for one in OTHERS]
        for one in command.params
        if named.search(
            one.metavar or (str(one.name).upper() if one.param_type_name == "argument" else "")
        )
        and not isinstance(one.type, NameOf)
    }
    assert without == set()


def test_short_names_are_of_one_option() -> None:
    shorts: dict[str, set[str]] = {}
    for long, those in found().items():
        for _command, option in those:
            for short in set(option.opts) - {long}:
                if not short.startswith("--"):
                    shorts.setdefault(short, set()).add(long)
    assert {short: longs for short, longs in shorts.items() if len(longs) > 1} == {}


def test_what_is_written_goes_to_an_output() -> None:
    """-o belongs to --output, and no command has another word for it."""
    for name, those in found().items():
        for command, option in those:
            assert ("-o" in option.opts) == (name == "--output"), f"{command} {name}"
            assert name not in ("--to", "--every", "--time-limit", "--from"), f"{command} {name}"


# The command of each playbook; those of parts are none that people run.
PARTS_OF_OTHERS = {
    *("apply_roles", "around", "check", "idle_runs", "runs_are_back", "slices", "source_address"),
    # The watcher runs it where there is no key yet.
    "watch",
}
TABLE = ROOT / "docs/apply.md"


def table() -> dict[str, str]:
    """Return the commands of the playbooks, as the page says."""
    text = TABLE.read_text("utf-8").partition("## Commands and playbooks")[2]
    rows = re.findall(r"^\| `tpu\.fleet\.(\w+)` \| (.+) \|$", text, re.MULTILINE)
    return dict(rows)


def test_each_playbook_has_its_command() -> None:
    playbooks = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert set(table()) == playbooks - PARTS_OF_OTHERS
    for playbook, cell in table().items():
        commands = re.findall(r"`tpu-fleet ([^`]+)`", cell)
        assert commands or cell == "only as a playbook", playbook
        for line in commands:
            command: click.Command = main
            for word in line.split():
                if not isinstance(command, click.Group):
                    break
                one = command.get_command(click.Context(command), word)
                assert one, f"{playbook}: tpu-fleet {line}"
                command = one


def remedies() -> list[str]:
    """Return what the doctor's findings ask a person to do."""
    tables = (controller.CHECKS, controller.WORKER_CHECKS, host.CHECKS, worker_slice.CHECKS)
    checks = [check for table_of in tables for check in table_of]
    return [case.remedy for check in checks for case in check.cases.values()]


def test_remedies_of_the_doctor_are_commands_of_people() -> None:
    assert [text for text in remedies() if "ansible-playbook" in text] == []
    lines = [line for text in remedies() for line in re.findall(r"tpu-fleet ([a-z][^.,;:]*)", text)]
    assert len(lines) > 10
    for line in lines:
        command: click.Command = main
        words = line.split()
        while words and isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found, f"tpu-fleet {line}"
            command = found
        known = {option for one in command.params for option in one.opts}
        # Behind `--` stands a command of the machine.
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("--")} <= known, f"tpu-fleet {line}"
        parts = [one.type for one in command.params if "--only" in one.opts]
        for part in re.findall(r"--only (\w+)", line):
            assert isinstance(parts[0], click.Choice)
            assert part in parts[0].choices, f"tpu-fleet {line}"
