"""The tests of what runs on machines run under each Python of theirs, without all of Ansible.

There `ansible-test units` offers `ansible.module_utils` alone, so nothing that such a test imports
may need more. The oldest of these Pythons is 3.10.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections.tpu.fleet."
# What the standard library has since 3.11. ruff knows the syntax of 3.10, and not these names.
NEWER = {
    *("asyncio.TaskGroup", "asyncio.timeout", "contextlib.chdir", "datetime.UTC", "enum.StrEnum"),
    *("hashlib.file_digest", "itertools.batched", "tomllib", "typing.Never", "typing.Self"),
    *("typing.assert_never", "typing.override"),
}
TESTS = sorted(
    path
    for folder in ("modules", "module_utils")
    for path in (ROOT / "tests/unit/plugins" / folder).rglob("test_*.py")
)


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a file is imported."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            continue
        for block in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from at_import(getattr(statement, block, []))


@functools.cache
def imported(path: Path) -> list[str]:
    """Return the absolute names that a file imports, or uses of the modules that it imports."""
    return [*_imported(path)]


def _imported(path: Path) -> Iterator[str]:
    package = [*COLLECTION.rstrip(".").split("."), *path.relative_to(ROOT).parts[:-1]]
    tree = ast.parse(path.read_text())
    modules: dict[str, str] = {}
    for statement in at_import(tree.body):
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names)
            modules.update({name.asname or name.name: name.name for name in statement.names})
        if isinstance(statement, ast.ImportFrom):
            above = package[: len(package) - statement.level + 1] if statement.level else []
            module = ".".join([*above, *filter(None, [statement.module])])
            yield module
            yield from (f"{module}.{name.name}" for name in statement.names)
    for node in ast.walk(tree):
        of = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(of, ast.Name) and of.id in modules:
            yield f"{modules[of.id]}.{node.attr}"


def is_away(name: str) -> bool:
    """Return whether machines, or the oldest of their Pythons, do not have a module or name."""
    of_ansible = f"{name}.".startswith("ansible.")
    return name in NEWER or (of_ansible and name.split(".")[1:2] != ["module_utils"])


def what_is_away(start: Path) -> list[str]:
    """Return what a file needs that machines do not have: file and name."""
    found, seen, todo = [], {start}, [start]
    while todo:
        path = todo.pop()
        for name in imported(path):
            if is_away(name):
                found.append(f"{path.relative_to(ROOT)}: {name}")
            if name.startswith(COLLECTION):
                file = ROOT.joinpath(*name.removeprefix(COLLECTION).split(".")).with_suffix(".py")
                if file.is_file() and file not in seen:
                    seen.add(file)
                    todo.append(file)
    return found


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_it_imports_what_machines_have(test: Path) -> None:
    assert what_is_away(test) == []


def test_what_machines_do_not_have_is_noticed() -> None:
    assert what_is_away(ROOT / "tests/unit/plugins/action/test_drill.py")
    assert any("declared" in one for one in what_is_away(ROOT / "plugins/action/run_info.py"))
    assert what_is_away(ROOT / "tests/support/one_look.py")
