"""Pages of HTML in one file: texts of others are escaped, and a browser runs only known scripts."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def as_text(value: Any) -> Any:
    """Return a value in whose text nothing hides or turns the direction of writing."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def environment(folder: Path, lstrip_blocks: bool = False) -> Environment:
    """Return what reads the templates in a folder."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=lstrip_blocks,
        finalize=as_text,
    )


@cache
def ours(path: Path) -> Markup:
    """Return the text of a file of this distribution, which needs no escape."""
    return Markup(path.read_text(encoding="utf-8").strip())  # noqa: S704


def allowed(path: Path) -> str:
    """Return the hash by which a policy allows such a file."""
    digest = hashlib.sha256(ours(path).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
