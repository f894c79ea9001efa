# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a version cannot be taken to a worker, before anything is changed. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._roles.training_run.changes import KEYS
from .order import Order, changed_paths

SITE = "Run tpu-fleet apply first."
# What differs between workers of a slice, and between versions of the code.
_OWN = ("worker", "workdir", "code")
_PLACES = {"hosts": "the addresses of its workers"}


def problems(
    order: Order,
    definitions: Mapping[str, Mapping[str, Any]],
    environments: Mapping[str, str],
    record: Mapping[str, Any],
    enabled: Sequence[str],
) -> list[str]:
    """Return the reasons against it.

    `definitions` are those of all runs of the worker, `environments` the hashes of those of the
    runs, `record` is that of the tree, `enabled` are the runs that systemd starts.
    """
    found = _of_tree(order, record)
    for run in order.runs:
        found += _of_run(order, run, definitions, environments, enabled)
    tree = order.tree.name
    others = [
        run
        for run, one in definitions.items()
        if run not in order.runs and run in enabled and follows(one, tree)
    ]
    if others:
        named = " ".join([*order.runs, *others])
        found.append(
            f"{_and(others)} {'runs' if len(others) == 1 else 'run'} the same tree, {tree}, on "
            f"slice {order.slice}, and would restart with it. To restart all of them: tpu-fleet "
            f"sync {named}; or give {order.runs[0]} a tree of its own in the fleet file."
        )
    return found


def follows(definition: Mapping[str, Any], tree: str) -> bool:
    """Return whether another version of a tree restarts a run."""
    code = definition.get("code") or {}
    return bool(code.get("tree") == tree and code.get("version"))


def uses(definition: Mapping[str, Any], tree: str) -> bool:
    """Return whether a run begins in a tree."""
    return bool((definition.get("code") or {}).get("tree") == tree)


def _of_tree(order: Order, record: Mapping[str, Any]) -> list[str]:
    tree = order.tree
    if not record:
        return [f"Tree {tree.name} was never installed here. {SITE}"]
    there = {key: record.get(key) for key in ("kind", "owner", "dest")}
    wanted = {"kind": tree.kind, "owner": tree.owner, "dest": tree.dest}
    return [
        f"Tree {tree.name}: {key} is {wanted[key]!r} in the fleet file and {there[key]!r} here. "
        f"{SITE}"
        for key in wanted
        if wanted[key] != there[key]
    ]


def _of_run(
    order: Order,
    run: str,
    definitions: Mapping[str, Mapping[str, Any]],
    environments: Mapping[str, str],
    enabled: Sequence[str],
) -> list[str]:
    there = definitions.get(run)
    if there is None:
        return [f"Run {run} is not on this worker yet. {SITE}"]
    expected = order.expected[run]
    names = differing(there, expected["definition"])
    if environments.get(run) != expected["environment"]:
        names.append("env")
    if run not in enabled:
        names.append("enabled")
    if names:
        return [
            f"Run {run}: the fleet file has other values than this worker for {_and(names)}. {SITE}"
        ]
    if not there["code"]["version"]:
        return [
            f"Run {run} has restart_on_code_change: false, so it keeps the code that it began "
            f"with. Remove that from the fleet file. {SITE}"
        ]
    return []


def differing(there: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return the keys of the fleet file with other values than those of a definition."""
    names = [
        key
        for key in sorted({*there, *expected})
        if key not in _OWN and there.get(key) != expected.get(key)
    ]
    old, new = (one.get("code") or {} for one in (there, expected))
    if old.get("tree") != new.get("tree"):
        names.append("code")
    elif bool(old.get("version")) != bool(new.get("version")):
        names.append("restart_on_code_change")
    return list(dict.fromkeys(_PLACES.get(name, KEYS.get(name, name)) for name in names))


def rebuilt(order: Order, listing: Sequence[str]) -> list[str]:
    """Return the reasons against it that the files of environments are."""
    changed = changed_paths(order, listing)
    found = []
    for path, name in order.requirements.items():
        folder, _slash, last = path.rpartition("/")
        end = last.rpartition(".")[2]
        # It may include files beside it.
        touched = [
            one
            for one in changed
            if one == path or (one.startswith(f"{folder}/" if folder else "") and _ends(one, end))
        ]
        if touched:
            found.append(
                f"Environment {name} is built from {path}, and {touched[0]} has changed. {SITE}"
            )
    return found


def _ends(path: str, end: str) -> bool:
    return path.endswith(f".{end}")


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
