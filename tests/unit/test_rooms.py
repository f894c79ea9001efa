"""The rooms of module_utils: each says what it may import, and is held to that here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "plugins" / "module_utils"
PACKAGE = "ansible_collections.tpu.fleet.plugins.module_utils"
ROOMS = sorted(path.name for path in HOUSE.iterdir() if path.is_dir() and path.name[1] != "_")
# What runs on a worker, where Python may be that of Ubuntu 20.04 until host_base has refused it.
ON_WORKERS = ("_apply_agent", "_core", "_doctor", "_host", "_roles")
OLDEST = (3, 8)


def may_import(room: str) -> set[str]:
    """Return what the room's docstring says."""
    said = ast.get_docstring(ast.parse((HOUSE / room / "__init__.py").read_text())) or ""
    named = re.search(r"^May import: ([^.]+)\.$", said, re.MULTILINE)
    assert named, f"{room}/__init__.py does not say what {room} may import"
    return set() if named[1] == "nothing" else set(named[1].split(", "))


def files(room: str) -> list[Path]:
    # Links are files of another room, packed into a program.
    return sorted(path for path in (HOUSE / room).rglob("*.py") if not path.is_symlink())


def imports(path: Path) -> Iterator[tuple[int, Path]]:
    """Yield (line, file or folder below HOUSE) for whatever of the house a file imports."""
    for found in ast.walk(ast.parse(path.read_text())):
        if not isinstance(found, ast.ImportFrom):
            continue
        module = found.module or ""
        if found.level:
            start = path.parents[found.level - 1]
        elif module.startswith(PACKAGE):
            start, module = HOUSE, module.removeprefix(PACKAGE).lstrip(".")
        else:
            continue
        target = start.joinpath(*module.split(".")) if module else start
        for name in found.names:
            as_module = target / f"{name.name}.py"
            yield found.lineno, as_module if as_module.exists() else target.with_suffix(".py")


def wrong_arrows(room: str, allowed: set[str]) -> list[str]:
    """Return the imports of a room that lead where it may not look."""
    found = []
    for path in files(room):
        for line, target in imports(path):
            other = target.relative_to(HOUSE).parts[0]
            if other not in allowed | {room}:
                found.append(f"{path.relative_to(ROOT)}:{line} imports {other}")
    return found


def test_every_file_is_in_a_room() -> None:
    assert [path.name for path in HOUSE.glob("*.py")] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_it_may(room: str) -> None:
    assert wrong_arrows(room, may_import(room)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_may_import_it_does_import(room: str) -> None:
    used = {
        target.relative_to(HOUSE).parts[0] for path in files(room) for _, target in imports(path)
    }
    assert may_import(room) - used == set()


def test_no_two_rooms_need_each_other() -> None:
    TopologicalSorter({room: may_import(room) for room in ROOMS}).prepare()


def test_no_two_files_need_each_other() -> None:
    graph: Mapping[Path, set[Path]] = {
        path: {target for _, target in imports(path)} - {path}
        for room in ROOMS
        for path in files(room)
    }
    TopologicalSorter(graph).prepare()


def test_an_arrow_upwards_is_found() -> None:
    assert any("_core" in arrow for arrow in wrong_arrows("_tpu", {"_wire"}))


@pytest.mark.parametrize("room", ROOMS)
def test_only_one_room_knows_ansible(room: str) -> None:
    """Its own packages, not ansible_collections."""
    knows = [
        str(path.relative_to(ROOT))
        for path in files(room)
        if re.search(r"^\s*(from|import) ansible[. ]", path.read_text(), re.MULTILINE)
    ]
    assert (knows != []) == (room == "_ansible"), knows


@pytest.mark.parametrize("room", ON_WORKERS)
def test_what_runs_on_workers_is_read_by_their_oldest_python(room: str) -> None:
    for path in files(room):
        ast.parse(path.read_text(), str(path), feature_version=OLDEST)
