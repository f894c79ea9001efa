"""Names of slices, workers and runs, as commands saw them last: TAB completes them from here.

The names come from workers and people. One that a shell could take for anything but a word is
neither stored nor offered.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from .ansible_config import inventory_sources

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LARGEST = 1 << 20
"""Bytes of a file of names; a larger one is not ours."""
if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    _Text = click.ParamType
Names = Mapping[str, Sequence[str]]
"""Names by their kind: slices, workers, runs."""


class NameOf(_Text):
    """A name of these kinds, or several with commas between them; any text is accepted."""

    name = "text"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        """One or several of the kinds of `Names`, with spaces between them."""

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete what follows the last comma."""
        before, comma, begun = incomplete.rpartition(",")
        known = read_names(inventory_sources(os.environ, Path.cwd()))
        found = dict.fromkeys(name for kind in self.kind.split() for name in known.get(kind, ()))
        return [
            CompletionItem(f"{before}{comma}{name}") for name in found if name.startswith(begun)
        ]


def no_such(what: str, name: str, there: Sequence[str], where: str = "") -> str:
    """Return the message for an unknown name: the one that it resembles, and all that exist.

    `where` is what was searched, as in " on slice pair"; empty if that was all.
    """
    # Imported here, because TAB needs no message.
    from difflib import get_close_matches

    near = get_close_matches(name, there, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"There is no {what} {name}{where}.{meant} There is {', '.join(there) or 'none at all'}."


def read_names(sources: Sequence[str]) -> Names:
    """Return what is known of the fleet with this inventory; nothing, where nothing is stored."""
    with contextlib.suppress(OSError, ValueError):
        path = _file_of(sources)
        text = path.read_text("utf-8") if path.stat().st_size <= LARGEST else "{}"
        stored = json.loads(text)
        if isinstance(stored, dict):
            return {str(kind): _words(names) for kind, names in stored.items()}
    return {}


def remember(sources: Sequence[str], **found: Iterable[str]) -> None:
    """Store names by their kind; kinds that are not given stay as they are.

    A command does not fail because this cannot be written.
    """
    known = read_names(sources)
    new = {**known, **{kind: _words(list(names)) for kind, names in found.items()}}
    if new == known:
        return
    # Imported here, because TAB only reads.
    from ansible_collections.tpu.fleet.plugins.module_utils._host.state import write_atomically

    with contextlib.suppress(OSError):
        path = _file_of(sources)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The whole file appears at once, because a shell may complete now.
        write_atomically(path, json.dumps(new), mode=0o600, uid=os.geteuid(), gid=os.getegid())


def _words(names: object) -> list[str]:
    """Keep what is the name of something, and nothing else to a shell."""
    given = names if isinstance(names, list) else []
    return [name for name in given if isinstance(name, str) and NAME.fullmatch(name)]


def _file_of(sources: Sequence[str]) -> Path:
    """Return the file with the names of the fleet that has this inventory."""
    # Imported here, because TAB often needs no names.
    import hashlib

    from ansible_collections.tpu.fleet.plugins.module_utils._core.cache_folder import cache_folder

    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:24]
    return cache_folder(os.environ) / "names" / f"{digest}.json"
