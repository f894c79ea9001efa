"""One table has the exit codes, and all commands use it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tpu_fleet.cli import main
from tpu_fleet.contract.exits import FAMILIES, FAMILY_OF, OWN, Exit, meanings, sentence

PROGRAM = Path(__file__).resolve().parents[4] / "src/tpu_fleet"
# What ends a process, or is a command's own result.
ENDS = {"exit", "Exit", "SystemExit"}


def commands(group: click.Group, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands that are no groups, with their words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        path = f"{words} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, path)
        else:
            yield path, command


def test_each_command_is_in_the_table_and_says_what_its_codes_mean() -> None:
    found = dict(commands(main))
    assert {path for path in found if not path.startswith("cloud ")} == set(FAMILY_OF)
    for path, command in found.items():
        assert command.epilog == sentence(path)
        # The table is the one place: a help text of its own would be another.
        assert not re.search(r"\bexit(s| code)?\b.*\b[0-9]\b", command.help or "", re.I), path


def test_all_codes_of_the_table_have_a_meaning() -> None:
    assert set(FAMILY_OF.values()) | {"cloud"} == set(FAMILIES)
    assert set(OWN) <= set(FAMILY_OF)
    for codes in FAMILIES.values():
        assert {Exit.DONE, Exit.FAILED, Exit.UNKNOWN} <= set(codes)
    assert all(set(own) <= set(FAMILIES[FAMILY_OF[name]]) for name, own in OWN.items())


def test_a_command_says_more_than_its_family() -> None:
    assert meanings("stop")[0] == "all have stopped or had ended"
    assert meanings("stop")[2] == FAMILIES["workers"][2]
    assert meanings("cloud fault add") == FAMILIES["cloud"]
    assert sentence("plan").startswith("Exit codes: 0 there is nothing to do; 1 it could not")


def bare_codes(source: str) -> list[int]:
    """Return the lines on which a process ends, or a command's work, with a number of its own."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found += [node.lineno for one in node.args if name in ENDS and is_number(one)]
        if isinstance(node, ast.FunctionDef) and "exit code" in (ast.get_docstring(node) or ""):
            returns = (one for one in ast.walk(node) if isinstance(one, ast.Return))
            found += [one.lineno for one in returns if one.value and has_number(one.value)]
        if isinstance(node, ast.Assign) and is_number(node.value):
            targets = (getattr(one, "id", "") for one in node.targets)
            found += [node.lineno for name in targets if name in ("code", "exit_code")]
    return sorted(found)


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def has_number(node: ast.expr) -> bool:
    return is_number(node) or (
        isinstance(node, ast.IfExp) and any(map(is_number, (node.body, node.orelse)))
    )


FILES = sorted(
    path
    for path in (*PROGRAM.glob("commands/*.py"), *PROGRAM.glob("*/command.py"))
    if not path.is_symlink()
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_command_has_a_code_of_its_own(path: Path) -> None:
    assert bare_codes(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("context.exit(2)", [1]),
        ("raise SystemExit(1)", [1]),
        ("raise click.exceptions.Exit(Exit.FAILED)", []),
        ("class A(B):\n    exit_code = 2", [2]),
        ('def f() -> int:\n    """Return the exit code."""\n    return 1 if x else 0', [3]),
        ('def f() -> int:\n    """Return a count."""\n    return 1', []),
    ],
)
def test_what_is_a_code_of_its_own(source: str, lines: list[int]) -> None:
    assert bare_codes(source) == lines
