"""Read what the host has about one run: two JSON files and a key, all but one for root alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..decide.config import Config, Paths, parse
from ..decide.values import is_key
from . import as_user


def load(path: Path, secrets: bool = True) -> Config:
    """Read `<run>.json` and, beside it, `<run>.env.json` and `<run>.key`, which only root can."""
    public = json.loads(path.read_text(encoding="utf-8"))
    if not secrets:
        return parse(public, {})
    secret = path.with_suffix(".env.json")
    env = json.loads(secret.read_text(encoding="utf-8")) if secret.exists() else {}
    return parse(public, env, _texts_of_sets(public), key_of(path.with_suffix(".key")))


def key_of(path: Path) -> str:
    """Return the key that the controller wrote; empty when there is none."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return text if is_key(text) else ""


def _texts_of_sets(public: dict[str, Any]) -> str:
    """Return what the run's sets of secrets say, if that is part of the run."""
    if not public.get("restart_on_secret_change"):
        return ""
    folder = Path(public.get("paths", {}).get("secrets", Paths.secrets))
    parts = []
    for name in public.get("secrets") or []:
        try:
            found = as_user.read_plain(str(folder / f"{name}.env")) or b""
            parts.append(found.decode("utf-8", "surrogateescape"))
        except (OSError, as_user.UserError) as error:
            # The owner may have made it anything; the program of the secrets says why none starts.
            parts.append(str(error))
    return json.dumps(parts)
