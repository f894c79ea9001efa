"""What is declared or submitted of each run, kept for runs that are taken out of it. Pure.

Values of variables whose names look like secrets are never kept or shown: only whether they differ.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Definition

PREFIX = "declared:"
"""Facts of this name and of a slice and run have what was declared for it."""
SECRET = re.compile(r"key|token|secret|passw|credential|auth|private", re.IGNORECASE)
LEFT_OUT = ("name", "slices", "env", "code", "results")
LONGEST = 2000
"""Characters of a value."""
ORDER = ("command", "code", "venv", "slice type", "user", "checkpoint_dir")
"""What stands first of what differs."""


def declared_by(
    runs: Sequence[Mapping[str, Any]],
    trees: Sequence[Mapping[str, Any]],
    slices: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, str]]:
    """Return what is declared of each run of each slice, by `slice/run`; all values are texts."""
    by_tree = {str(tree.get("name")): tree for tree in trees}
    types = {str(one.get("name")): str(one.get("accelerator_type") or "") for one in slices}
    found = {}
    for run in runs:
        told = {key: _text(value) for key, value in run.items() if key not in LEFT_OUT}
        env = run.get("env") or {}
        if isinstance(env, Mapping):
            told |= {f"env {key}": _secret_or(str(key), value) for key, value in env.items()}
        told["code"] = code_of(str(run.get("code") or ""), by_tree)
        for name in run.get("slices") or ():
            whole = {**told, "slice type": types.get(str(name), "")}
            found[f"{name}/{run.get('name')}"] = {key: text for key, text in whole.items() if text}
    return found


def submitted(definition: Definition, kind: str) -> dict[str, str]:
    """Return the same of a submitted run, which is on a slice of this accelerator type."""
    told = {
        **definition.options,
        "command": shlex.join(definition.command),
        "code": (definition.code or "")[:8],
        "venv": definition.venv,
        "slice type": kind,
        "user": definition.user,
        "checkpoint_dir": definition.checkpoint_dir,
        "retries": definition.retries,
        "secrets": ", ".join(definition.secrets),
        "max_hours": definition.max_hours,
    }
    texts = {key: _text(value) for key, value in told.items()}
    return {key: text for key, text in texts.items() if text}


def code_of(name: str, trees: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a code tree with its declared version."""
    tree = trees.get(name)
    if tree is None:
        return name
    version = tree.get("version")
    place = tree.get("repo") or tree.get("local_path") or ""
    parts = [name, f"version {version}" if version else "", f"of {place}" if place else ""]
    return _text(" ".join(part for part in parts if part))


def differing(declared: Sequence[Mapping[str, str] | None]) -> list[tuple[str, list[str]]]:
    """Return each key whose values differ, with the value of each run; what is unknown is left out.

    A run without a known declaration differs in nothing, and has the text "not known".
    """
    known = [one for one in declared if one is not None]
    keys = {key for one in known for key in one}
    different = [key for key in keys if len({one.get(key, "") for one in known}) > 1]
    places = {key: at for at, key in enumerate(ORDER)}
    different.sort(key=lambda key: (places.get(key, len(ORDER)), key))
    return [
        (key, ["not known" if one is None else one.get(key, "-") for one in declared])
        for key in different
    ]


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else "" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _secret_or(name: str, value: Any) -> str:
    """Return the text of a variable, or for a secret one a text that is another for each value."""
    if not SECRET.search(name):
        return _text(value)
    # Of a short secret even a hash could be guessed, so few digits of a slow one are shown.
    digest = hashlib.scrypt(str(value).encode(), salt=name.encode(), n=1 << 14, r=8, p=1)
    return f"a secret ({digest.hex()[:4]})"
