"""The rooms of the house: each says in its docstring what it may import, and is held to that."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "plugins" / "module_utils"
CONTROLLER = ROOT / "plugins" / "plugin_utils"
PROGRAM = ROOT / "src" / "tpu_fleet"
HOUSE = ROOT / "local_cloud"
CLOUD = HOUSE / "src" / "tpu_local_cloud"
AGENT = ROOT / "roles" / "training_run" / "files" / "run_agent"
QUEUE_AGENT = ROOT / "roles" / "run_queue" / "files" / "queue_agent"
DATA_AGENT = ROOT / "roles" / "dataset" / "files" / "dataset_agent"
PLUGINS = "ansible_collections.tpu.fleet.plugins"
PACKAGES = {
    COLLECTION: f"{PLUGINS}.module_utils",
    CONTROLLER: f"{PLUGINS}.plugin_utils",
    PROGRAM: "tpu_fleet",
    PROGRAM / "workers": "tpu_fleet.workers",
    CLOUD: "tpu_local_cloud",
    CLOUD / "model": "tpu_local_cloud.model",
    AGENT: "run_agent",
    QUEUE_AGENT: "queue_agent",
    DATA_AGENT: "dataset_agent",
}
ROOMS = sorted(path.parent for house in PACKAGES for path in house.glob("*/__init__.py"))
# What runs on a worker, and the Python of the oldest that is supported: Ubuntu 22.04.
ON_WORKERS = [
    *(
        COLLECTION / f"_{name}"
        for name in ("apply_agent", "core", "doctor", "host", "queue", "roles", "sync")
    ),
    AGENT,
    QUEUE_AGENT,
    DATA_AGENT,
]
OLDEST = (3, 10)
# What reads a clock, files or processes, or starts some.
EFFECTS = {
    *("asyncio", "ctypes", "fcntl", "grp", "http", "os", "pwd", "secrets", "select", "selectors"),
    *("shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time"),
}
# What tells of an older one, or is asked before host_base has refused it, with all that it imports.
BEFORE = [
    ROOT / "plugins/modules/first_boot.py",
    ROOT / "plugins/modules/host_doctor.py",
    COLLECTION / "_apply_agent/first.py",
    COLLECTION / "_host/standing.py",
]
REFUSED = (3, 8)
# What the collection is made of, each on what stands before it.
FLOORS = ("module_utils", "modules", "plugin_utils", "action")
every_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)


def may_import(room: Path) -> set[str]:
    """Return what the room's docstring says."""
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    named = re.search(r"^May import: ([^.]+)\.$", said, re.MULTILINE)
    assert named, f"{room}/__init__.py does not say what it may import"
    return set() if named[1] == "nothing" else set(re.split(r",\s+", named[1]))


def files(room: Path) -> list[Path]:
    # Links are files of another room, packed into a program.
    return sorted(path for path in room.rglob("*.py") if not path.is_symlink())


@functools.cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return all of a file, for several tests: to read the code of all files takes seconds."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path, house: Path) -> Iterator[tuple[int, Path]]:
    """Yield (line, file or folder) for whatever of its own house a file imports."""
    for found in import_statements(path):
        if not isinstance(found, ast.ImportFrom):
            continue
        module = found.module or ""
        if found.level:
            start = path.parents[found.level - 1]
        elif f"{module}.".startswith(f"{PACKAGES.get(house, PLUGINS)}."):
            start, module = house, module.removeprefix(PACKAGES.get(house, PLUGINS)).lstrip(".")
        else:
            continue
        target = start.joinpath(*module.split(".")) if module else start
        for name in found.names:
            part = target / name.name
            is_part = part.is_dir() or part.with_suffix(".py").exists()
            yield found.lineno, part if is_part else target


def arrows(room: Path) -> dict[str, list[str]]:
    """Return the rooms that a room imports, and where."""
    found: dict[str, list[str]] = {}
    for path in files(room):
        for line, target in imports(path, room.parent):
            # A room of model/ also imports from rooms around it, which model's own line names.
            inside = target.is_relative_to(room.parent)
            other = target.relative_to(room.parent).parts[0] if inside else room.name
            if other != room.name:
                found.setdefault(other, []).append(f"{path.relative_to(ROOT)}:{line}")
    return found


def test_every_file_of_the_collection_is_in_a_room() -> None:
    assert [*COLLECTION.glob("*.py"), *CONTROLLER.glob("*.py")] == []


def test_every_file_of_an_agent_but_its_loop_and_its_commands_is_in_a_room() -> None:
    assert {path.stem for path in AGENT.glob("*.py")} == {"__init__", "agent", "cli"}
    assert {path.stem for path in DATA_AGENT.glob("*.py")} == {"__init__", "agent", "cli"}
    own = {path.stem for path in QUEUE_AGENT.glob("*.py")}
    assert own == {"__init__", "agent", "cli", "lead"}


@every_room
def test_a_room_imports_what_it_says(room: Path) -> None:
    found = arrows(room)
    assert set(found) == may_import(room), found


@pytest.mark.parametrize("house", PACKAGES, ids=lambda house: house.name)
def test_no_two_rooms_need_each_other(house: Path) -> None:
    rooms = [room for room in ROOMS if room.parent == house]
    TopologicalSorter({room.name: may_import(room) for room in rooms}).prepare()


@pytest.mark.parametrize("house", PACKAGES, ids=lambda house: house.name)
def test_no_two_files_need_each_other(house: Path) -> None:
    graph = {
        path: {target.with_suffix(".py") for _, target in imports(path, house)} - {path}
        for path in files(house)
    }
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("floor", FLOORS)
def test_nothing_of_the_collection_imports_upwards(floor: str) -> None:
    """An action may use plugin_utils, and that module_utils; not the other way."""
    house = ROOT / "plugins"
    above = FLOORS[FLOORS.index(floor) + 1 :]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files(house / floor)
        for line, target in imports(path, house)
        if any(target.is_relative_to(house / name) for name in above)
    ]
    assert found == []


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if room.parent != CONTROLLER], ids=lambda room: room.name
)
def test_only_one_room_knows_ansible(room: Path) -> None:
    """Its own packages, not ansible_collections. How programs run playbooks is no part of this.

    plugin_utils is what action plugins share: Ansible's own process runs it.
    """
    ours = re.compile(r"^\s*(from|import) ansible[. ]", re.MULTILINE)
    knows = [str(path) for path in files(room) if ours.search(path.read_text())]
    assert (knows != []) == (room.name == "_ansible"), knows


def imported_modules(path: Path) -> set[str]:
    """Return the first word of every absolute import in a file."""
    found: set[str] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif not node.level:
            found.add((node.module or "").split(".")[0])
    return found


def test_what_the_agents_decide_is_pure() -> None:
    paths = [
        path
        for agent in (AGENT, QUEUE_AGENT, DATA_AGENT)
        for path in (agent / "decide").glob("*.py")
    ]
    found = {str(path): imported_modules(path) & EFFECTS for path in paths}
    assert len(found) > 20
    assert {name: words for name, words in found.items() if words} == {}


def test_the_local_cloud_imports_nothing_of_the_fleet() -> None:
    """Nor do its tests; Ansible itself is among the programs that they run against it."""
    ours = {"ansible_collections", "tpu_fleet"}
    places = {HOUSE / "src": ours | {"ansible"}, HOUSE / "scripts": ours, HOUSE / "tests": ours}
    found = {
        str(path): imported_modules(path) & words
        for place, words in places.items()
        for path in place.rglob("*.py")
    }
    assert len(found) > 150
    assert {name: words for name, words in found.items() if words} == {}


def test_one_file_of_the_fleet_imports_the_local_cloud() -> None:
    """It is absent where tpu.fleet alone is installed, and that file says so."""
    places = [ROOT / name for name in ("plugins", "roles", "playbooks", "src")]
    paths = [path for place in places for path in place.rglob("*.py")]
    found = [path for path in paths if "tpu_local_cloud" in imported_modules(path)]
    assert found == [PROGRAM / "commands/cloud.py"]


def test_the_tables_of_both_stand_in_the_collection() -> None:
    """The local cloud has links to them, in rooms of the same names, as they import each other."""
    tables = CLOUD / "tables"
    files_there = [path for path in tables.rglob("*.py") if path.name != "__init__.py"]
    assert len(files_there) >= 2
    for path in files_there:
        assert path.is_symlink()
        assert path.resolve() == COLLECTION / path.relative_to(tables)
        for _, target in imports(path, CLOUD):
            assert target.with_suffix(".py") in files_there


def test_the_queue_agent_shares_modules_of_the_collection() -> None:
    """By links, in rooms of the same names, with all that they import."""
    shared = QUEUE_AGENT / "shared"
    paths = [path for path in shared.rglob("*.py") if path.name != "__init__.py"]
    assert len(paths) > 15
    for path in paths:
        assert path.is_symlink()
        assert path.resolve() == COLLECTION / path.relative_to(shared)
        for _, target in imports(path, QUEUE_AGENT):
            assert target.with_suffix(".py") in paths, (path, target)


def with_all_they_import(starts: list[Path]) -> set[Path]:
    found: set[Path] = set()
    todo = list(starts)
    while todo:
        path = todo.pop()
        if path.is_file() and path not in found:
            found.add(path)
            todo += [target.with_suffix(".py") for _, target in imports(path, COLLECTION)]
    return found


@pytest.mark.parametrize("room", ON_WORKERS, ids=lambda room: room.name)
def test_what_runs_on_workers_is_read_by_their_oldest_python(room: Path) -> None:
    for path in files(room):
        ast.parse(path.read_text(), str(path), feature_version=OLDEST)


def test_what_refuses_a_machine_is_read_by_its_python() -> None:
    found = with_all_they_import(BEFORE)
    assert {path.parent.name for path in found} >= {"modules", "_doctor", "_host", "host_base"}
    for path in found:
        ast.parse(path.read_text(), str(path), feature_version=REFUSED)
