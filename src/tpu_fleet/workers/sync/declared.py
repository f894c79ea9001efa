"""What the fleet file says of runs and their code tree, as the roles would apply it.

Ansible takes more than a second to evaluate it. The result is kept on this computer until a file
of the inventory, the list of workers, or a variable of the environment that a lookup has read,
changes. It is not kept where another lookup has read something, or a program is an inventory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.kept import kept
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import list_path

from ..inventory.ansible_config import inventory_sources, stamp_of
from ..inventory.hosts import Known
from ..inventory.names import no_such

if TYPE_CHECKING:
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory

_SETTINGS = ("ANSIBLE_", "GOOGLE_", "TPU_FLEET_")
_RUNS = "{{ ('training_run' | tpu.fleet.role_settings).settings.runs }}"
_TREES = "{{ ('code_checkout' | tpu.fleet.role_settings).settings | to_json }}"
_PLACE = "{{ [__code_checkout_here, inventory_dir] | to_json }}"
_PLAN = (
    "{{ {'plan': 'training_run' | tpu.fleet.role_plan(records=sync_records), "
    "'venvs': training_run_venvs} | to_json }}"
)


@dataclass(frozen=True)
class OnSlice:
    """What one slice is sent."""

    slice: str
    keep: int
    entry: Mapping[str, Any]
    trees: Sequence[Mapping[str, Any]]
    expected: Mapping[str, Mapping[str, Any]]
    requirements: Mapping[str, str]


@dataclass(frozen=True)
class Declared:
    """Runs of one code tree."""

    runs: Sequence[str]
    tree: str
    folder: str
    snapshots: str
    """The folder in which archives of the tree are kept."""
    slices: Sequence[OnSlice]
    elsewhere: Sequence[str] = field(default_factory=tuple)
    """Other slices that have the tree."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Declared:
        """Return what was kept."""
        return cls(**{**data, "slices": [OnSlice(**one) for one in data["slices"]]})


def declared(known: Known, runs: Sequence[str]) -> Declared:
    """Return what the fleet file says of runs; refuse those that cannot be synced."""
    sources = inventory_sources(os.environ, Path.cwd())
    name = "\n".join(["runs", *sources, "", *runs])

    def ask() -> bytes:
        from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.lookups import noted

        with noted() as lookups:
            found = asdict(_ask(known, runs))
        return json.dumps({
            "declared": found,
            "lasts": not lookups.others and not any(map(_is_program, _files(sources))),
            "environment": {name: _variable(name) for name in lookups.environment},
        }).encode()  # fmt: skip

    return Declared.read(json.loads(kept(name, _seen(sources), ask, _holds))["declared"])


def _holds(content: bytes) -> bool:
    """Return whether what was read besides the inventory is the same now."""
    said = json.loads(content)
    there = all(_variable(name) == value for name, value in said["environment"].items())
    return bool(said["lasts"] and there)


def _variable(name: str) -> str:
    """Return a hash of a variable of the environment, which may be secret."""
    return _sha(repr(os.environ.get(name)))


def _files(sources: Sequence[str]) -> list[str]:
    return [file for file, *_facts in stamp_of(sources)]


def _is_program(file: str) -> bool:
    """Return whether Ansible runs a file of the inventory; what that prints may change."""
    try:
        with open(file, "rb") as stream:
            return os.access(file, os.X_OK) and stream.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return False


def _seen(sources: Sequence[str]) -> Iterator[bytes]:
    """Yield what changes with each file, and each setting, that decides what is declared."""
    settings = {key: os.environ[key] for key in sorted(os.environ) if key.startswith(_SETTINGS)}
    yield repr(settings).encode()
    yield repr(stamp_of([__file__, *sources])).encode()
    # By its content, because every playbook writes the same list again.
    with contextlib.suppress(OSError):
        yield list_path(sources, os.environ).read_bytes()


# By Ansible


def _ask(known: Known, names: Sequence[str]) -> Declared:
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError

    from ..inventory.read import PlayError, read_inventory

    try:
        return _read(read_inventory(), known, names)
    except (InventoryError, PlayError) as error:
        raise click.ClickException(f"The fleet file cannot be read: {error}") from error


def _read(inventory: Inventory, known: Known, names: Sequence[str]) -> Declared:
    runs = _named(declared_runs(inventory), names)
    tree = _tree_of(runs)
    slices = list(dict.fromkeys(name for run in runs for name in run["slices"]))
    settings = json.loads(inventory.of_role("localhost", "code_checkout", _TREES))
    entry = next((one for one in settings["trees"] if one["name"] == tree), None)
    if entry is None:
        raise click.ClickException(f"The fleet file declares no code tree {tree}.")
    if entry.get("repo"):
        raise click.ClickException(
            f"Tree {tree} is a git repository, which the workers fetch themselves. Commit, push, "
            "and run tpu-fleet apply; or give the tree a folder instead of repo "
            "and version."
        )
    found = [_on_slice(inventory, known, name, tree, runs) for name in slices]
    here, snapshots, wanted = found[0][1:]
    folder = Path(here, Path(str(entry["local_path"])).expanduser())
    there = wanted or sorted(
        group.removeprefix("tpu_slice_")
        for group in known.fleet.groups
        if group.startswith("tpu_slice_")
    )
    return Declared(
        runs=[run["name"] for run in runs],
        tree=tree,
        folder=os.path.normpath(folder),
        snapshots=snapshots,
        slices=[one[0] for one in found],
        elsewhere=[name for name in there if group_name("", name) not in _groups(slices)],
    )


def _groups(slices: Sequence[str]) -> set[str]:
    return {group_name("", name) for name in slices}


def declared_runs(inventory: Inventory) -> list[Mapping[str, Any]]:
    """Return the runs of the fleet file, with all their keys."""
    found: list[Mapping[str, Any]] = inventory.of_role("localhost", "training_run", _RUNS)
    return found


def _named(runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Any]:
    known = {str(run["name"]): run for run in runs}
    for name in names:
        if name not in known:
            raise click.ClickException(no_such("run", name, list(known)))
    found = [known[name] for name in names]
    for run in found:
        if not run["enabled"]:
            raise click.ClickException(
                f"Run {run['name']} has enabled: false in the fleet file, so it does not run."
            )
    return found


def _tree_of(runs: Sequence[Mapping[str, Any]]) -> str:
    trees = {str(run["name"]): str(run.get("code") or "") for run in runs}
    for name, tree in trees.items():
        if not tree:
            raise click.ClickException(
                f"Run {name} has no code in the fleet file: its command says where its program is. "
                "Declare a tree with a folder of this computer, and name it as the run's code."
            )
        if tree.startswith("/"):
            raise click.ClickException(
                f"Run {name} has the folder {tree} of its workers as code, which no tree installs. "
                "tpu-fleet cp copies files there; a tree with a folder of this computer is synced."
            )
    if len(set(trees.values())) > 1:
        said = ", ".join(f"{name} has {tree}" for name, tree in trees.items())
        raise click.ClickException(f"These runs have different code: {said}. Sync each by itself.")
    return next(iter(trees.values()))


def _on_slice(
    inventory: Inventory, known: Known, name: str, tree: str, runs: Sequence[Mapping[str, Any]]
) -> tuple[OnSlice, str, str, Sequence[str]]:
    """Return what a slice is sent; the inventory's folder, that of snapshots, the tree's slices."""
    hosts = workers_of(known, name)
    play = inventory.of_play("apply.yml")
    # The keys of gangs are no part of a definition.
    more = {
        "training_run_keys": {},
        "training_run_peers": play.get("training_run_peers", []),
        "sync_records": {tree: {"version": "any", "path": "any"}},
    }
    planned = json.loads(inventory.of_role(hosts[0], "training_run", _PLAN, **more))
    settings = json.loads(inventory.of_role(hosts[0], "code_checkout", _TREES))
    here, folder = json.loads(inventory.of_role(hosts[0], "code_checkout", _PLACE))
    entry = next(one for one in settings["trees"] if one["name"] == tree)
    if not any(one["name"] == tree for one in here):
        raise click.ClickException(
            f"Tree {tree} is not for slice {name}, on which {runs[0]['name']} runs: add it to the "
            "tree's slices in the fleet file."
        )
    mine = [run["name"] for run in runs if name in run["slices"]]
    files = {file["path"]: file["content"] for file in planned["plan"]["files"]}
    secret = {file["path"]: file["content"] for file in planned["plan"]["secret_files"]}
    place = planned["plan"]["folder"]
    for run in mine:
        if f"{place}/{run}.json" not in files:
            raise click.ClickException(
                f"Run {run} waits for other slices, so slice {name} does not run it yet."
            )
    one = OnSlice(
        slice=name,
        keep=settings["keep"],
        entry=entry,
        trees=here,
        expected={
            run: {
                "definition": json.loads(files[f"{place}/{run}.json"]),
                "environment": _sha(secret[f"{place}/{run}.env.json"]),
            }
            for run in mine
        },
        requirements=_requirements(planned["venvs"], name, tree),
    )
    return one, folder, str(settings["snapshot_dir"]), entry.get("slices") or []


def workers_of(known: Known, name: str) -> Sequence[str]:
    """Return the workers of a slice; refuse a slice that has none, or an unusable one."""
    hosts = known.fleet.groups.get(group_name("tpu_slice", name), ())
    away = [host for host in hosts if host not in known.fleet.targets]
    if not hosts or away:
        what = f"{', '.join(away)} cannot be used" if away else "has no workers"
        raise click.ClickException(
            f"Slice {name}: {what}. Nothing was changed. tpu-fleet status shows the reason."
        )
    return hosts


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _requirements(venvs: Sequence[Mapping[str, Any]], slice_name: str, tree: str) -> dict[str, str]:
    """Return the files of the tree from which environments of a slice are built."""
    found = {}
    for venv in venvs:
        if venv.get("slices") and slice_name not in venv["slices"]:
            continue
        for given in venv.get("editable") or []:
            if str(given).split("[")[0].split("/")[0] == tree:
                raise click.ClickException(
                    f"Environment {venv['name']} installs tree {tree} as editable, so each version "
                    "of it needs another build. Run tpu-fleet apply instead."
                )
        top, _slash, rest = str(venv.get("requirements") or "").partition("/")
        if top == tree and rest:
            found[rest] = str(venv["name"])
    return found
