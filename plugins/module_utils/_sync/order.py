# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller asks for: a version of a code tree, for some runs of a slice. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._host.snapshot import Entry
from .._roles.code_checkout.plan import Tree, tree_of

PROTOCOL = 1


@dataclass(frozen=True)
class Order:
    """One request for one worker."""

    runs: Sequence[str]
    # The declaration of the tree, and those of all trees of this slice, as the role has them.
    entry: Mapping[str, Any]
    trees: Sequence[Mapping[str, Any]]
    slice: str
    keep: int
    digest: str
    entries: Sequence[Entry]
    # By run: the definition that the role would write on a worker of the slice, and a hash of the
    # environment.
    expected: Mapping[str, Mapping[str, Any]]
    # Files of the tree from which environments are built, each with the environment.
    requirements: Mapping[str, str] = field(default_factory=dict)
    who: str = ""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Order:
        """Return the order in a request."""
        entries = [Entry(*one) for one in data["entries"]]
        return cls(**{**data, "entries": entries})

    @property
    def tree(self) -> Tree:
        """Return the tree."""
        return tree_of(self.entry)

    @property
    def contents(self) -> list[str]:
        """Return the hashes of the contents, in the order in which both sides count them."""
        return list(self.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """Return the size of each content, by its hash."""
        return {entry.identity: entry.size for entry in self.entries if entry.kind == "file"}


def has_any(order: Order, there: Sequence[str]) -> bool:
    """Return whether a listing has a content of the version."""
    known = {line[:16] for line in there}
    return any(identity[:16] in known for identity in order.contents)


def contents_of(lines: Sequence[Sequence[Any]]) -> list[str]:
    """Return the hashes of the contents in the entries of a request, as the worker counts them."""
    return list(dict.fromkeys(str(line[3]) for line in lines if line[1] == "file"))


def choice(wanted: Collection[str], contents: Sequence[str]) -> str:
    """Return which of the contents are wanted, a bit for each: a list of them may be long."""
    bits = sum(1 << at for at, identity in enumerate(contents) if identity in wanted)
    return f"{bits:x}"


def chosen(choice: str, contents: Sequence[str]) -> list[str]:
    """Return the contents that a choice names; raise ValueError if it names more than there are."""
    bits = int(choice, 16)
    if bits >> len(contents):
        raise ValueError("more files were asked for than there are")
    return [identity for at, identity in enumerate(contents) if bits >> at & 1]


def changed_paths(order: Order, there: Sequence[str]) -> list[str]:
    """Return the paths that a listing has in another way, or not at all; and those it alone has."""
    before, after = set(there), {entry.line() for entry in order.entries}
    return sorted({line[19:] for line in before ^ after})


def state_hash(trees: Sequence[Mapping[str, Any]], versions: Mapping[str, str]) -> str:
    """Return the hash by which the role code_checkout records what it applied."""
    text = json.dumps([list(trees), dict(versions)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
