"""A submitted run as role training_run would define it: the files that make it a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from ..shared._queue.objects import Definition
from ..shared._roles.training_run import definition as role
from ..shared._roles.training_run.definition_text import text_of
from ..shared._schema.amounts import for_machines
from .messages import Order
from .settings import Settings

MARK = "submitted"
"""The suffix of the file, beside a definition, that keeps role training_run from removing it."""
_RUNS = "training_run_runs"


class Unfit(ValueError):
    """Values from which no definition can be made; the text has field and remedy."""


def run_of(definition: Definition, slice_name: str, workdir: str) -> dict[str, Any]:
    """Return the entry that would declare this run in the fleet file; raise Unfit."""
    try:
        options = {
            key: for_machines(f"{_RUNS}.{key}", value) for key, value in definition.options.items()
        }
    except ValueError as error:
        raise Unfit(str(error)) from None
    place = definition.checkpoint_dir
    return {
        **options,
        "name": definition.name,
        "slices": [slice_name],
        "user": definition.user,
        "command": shlex.join(definition.command),
        "venv": definition.venv,
        "code": workdir,
        "env": {},
        "retries": definition.retries,
        "secrets": list(definition.secrets),
        # The default is another place than none.
        **({} if place == "" else {"checkpoint_dir": place}),
    }


def grace_of(definition: Definition, settings: Settings) -> float:
    """Return the seconds that the programs of a run have to end."""
    asked = definition.options.get("grace")
    try:
        return float(for_machines(f"{_RUNS}.grace", asked) or settings.run_defaults["grace"])
    except ValueError:
        return float(settings.run_defaults["grace"])


def files_of(
    definition: Definition, order: Order, settings: Settings, workdir: str
) -> list[dict[str, Any]]:
    """Return the files of a run, with path, content and mode, in the order to write them."""
    name = definition.name
    run = run_of(definition, settings.slice, workdir)
    variables = dict(settings.training)
    # After the declared ones, so that it takes no port of theirs.
    variables[_RUNS] = [*({**settings.run_defaults, **one} for one in declared(variables)), run]
    planned = role.plan(variables, {_RUNS: settings.run_defaults}, {})
    about = {
        "person": definition.person, "definition": order.definition, "claim": order.claim,
    }  # fmt: skip
    # The folder of the code is no tree of the fleet file; its version is part of the run.
    more = {
        "submitted": about,
        "code": {"tree": "", "version": definition.code or ""},
        "failures_before": order.failures,
    }
    own = [_of_submitted(file, more) for file in planned["files"] if _is_of(file, name)]
    secret = [file for file in planned["secret_files"] if _is_of(file, name)]
    mark = {"path": f"{role.FOLDER}/{name}.{MARK}", "content": text_of(about)}
    return [mark, *secret, *own]


def declared(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the declared runs, with what a definition needs of a run; only ports count."""
    needed = {"user": "root", "command": "", "slices": [], "env": {}}
    return [{**needed, **one} for one in variables[_RUNS]]


def _is_of(file: Mapping[str, Any], name: str) -> bool:
    """Return whether a file is that of a run: what is before its first dot may be another name."""
    found = str(file["path"]).rpartition("/")[2]
    ends = (".env.json", ".json", ".key")
    return found in (f"tpu-fleet-run@{name}.service", *(f"{name}{end}" for end in ends))


def _of_submitted(file: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition that says what it is of; each claim makes another run of it."""
    if not file["path"].endswith(".json"):
        return file
    return {**file, "content": text_of({**json.loads(file["content"]), **more})}


def gone_paths(name: str) -> list[str]:
    """Return the files of a run that has ended here, in the order to remove them."""
    paths = [file["path"] for file in role.gone_files([name])]
    return [*paths, f"{role.FOLDER}/{name}.{MARK}"]
