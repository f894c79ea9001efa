"""The workers of a fleet, how to reach them, and how patterns choose them."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import (
    GROUP_UNAVAILABLE,
    group_name,
    natural_key,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet

from .names import no_such

NO_CONFIG = Path(os.devnull)
"""The ssh configuration of a fleet for which none was written."""


@dataclass(frozen=True)
class Known:
    """A fleet, and its ssh configuration."""

    path: Path
    fleet: Fleet

    @property
    def names(self) -> list[str]:
        """All workers, including unusable ones, in natural order."""
        unusable = self.fleet.groups.get(GROUP_UNAVAILABLE, ())
        return in_order({*self.fleet.targets, *unusable})


def in_order(names: Iterable[str]) -> list[str]:
    """Return a sort key that orders numbers by value."""
    return sorted(names, key=natural_key)


# Which of them


def select(known: Known, slices: Sequence[str], pattern: str | None) -> list[str]:
    """Return the chosen workers in natural order, or fail with the existing names."""
    names = set(known.names)
    groups = known.fleet.groups
    if slices:
        wanted: set[str] = set()
        for name in (part for words in slices for part in words.split(",") if part):
            members = groups.get(group_name("tpu_slice", name))
            if members is None:
                there = in_order(
                    group.removeprefix("tpu_slice_")
                    for group in groups
                    if group.startswith("tpu_slice_")
                )
                raise click.ClickException(no_such("slice", name, there))
            wanted.update(members)
        names &= wanted
    if pattern:
        names &= _matching(pattern, set(known.names), groups)
    if not names:
        raise click.ClickException(
            "This selects no worker." if slices or pattern else "The fleet has no workers."
        )
    return in_order(names)


def part_of(fleet: Fleet, names: Iterable[str]) -> str:
    """Return which part of the fleet these workers are, as in " on slice pair"; empty for all."""
    chosen = set(names)
    if chosen >= set(fleet.targets):
        return ""
    slices = in_order({place_of(name, fleet.groups)[0] for name in chosen})
    members = {
        name for one in slices for name in fleet.groups.get(group_name("tpu_slice", one), ())
    }
    if members != chosen:
        return f" on {fold(chosen)}"
    return f" on slice{'s' if len(slices) > 1 else ''} {', '.join(slices)}"


def place_of(host: str, groups: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """Return the slice of a worker, and its index there."""
    match = re.fullmatch(r"(.+)-w(\d+)", host)
    alone = host in groups.get(group_name("tpu_slice", host), ())
    if match and not alone and host in groups.get(group_name("tpu_slice", match[1]), ()):
        return match[1], int(match[2])
    return host, 0


def _matching(pattern: str, names: set[str], groups: Mapping[str, Sequence[str]]) -> set[str]:
    """Evaluate a pattern as Ansible does: a,b unites, &a intersects, !a excludes."""
    united: set[str] = set()
    kept, gone = set(names), set()
    only_changes = True
    # Commas and colons within brackets are no separators.
    for term in re.split(r"[,:](?![^\[]*\])", pattern):
        if not term:
            continue
        sign = term[0] if term[0] in "!&" else ""
        name = term[len(sign) :]
        found = _of_term(name, names, groups)
        group = group_name("tpu_slice", name)
        # Also after "!", because excluding a slice must exclude its workers.
        if not found and group in groups:
            raise click.ClickException(f"{name} is a slice; its workers are the group {group}.")
        if not found and sign != "!":
            near = get_close_matches(name, [*names, *groups], n=1)
            meant = f" Did you mean {near[0]}?" if near else " See tpu-fleet status."
            raise click.ClickException(f"No worker and no group is called {name}.{meant}")
        if sign == "!":
            gone |= found
        elif sign == "&":
            kept &= found
        else:
            united |= found
            only_changes = False
    return ((names if only_changes else united) & kept) - gone


def _of_term(term: str, names: set[str], groups: Mapping[str, Sequence[str]]) -> set[str]:
    if term in ("all", "*"):
        return set(names)
    found = {name for name in names if name == term}
    if not found:
        found = set(unfold(term)) & names
    if not found:
        found = set(fnmatch.filter(names, term))
    for group in [term] if term in groups else fnmatch.filter(groups, term):
        found |= set(groups[group]) & names
    return found


def unfold(text: str) -> list[str]:
    """Return the names behind pair-w[0-2,5]."""
    match = re.fullmatch(r"(.*)\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\](.*)", text)
    if not match:
        return [text]
    before, numbers, after = match.groups()
    names = []
    for part in numbers.split(","):
        first, _dash, last = part.partition("-")
        # No fleet has more workers; a larger range is a typing error.
        for number in range(int(first), min(int(last or first), int(first) + 100_000) + 1):
            names.append(f"{before}{number}{after}")
    return names


def fold(names: Iterable[str]) -> str:
    """Format many names in short: pair-w[0-2,5],solo. --limit accepts it."""
    # Imported here, because a command that ends well shows no names.
    from ansible_collections.tpu.fleet.plugins.module_utils._host.worker_ports import ranges

    numbered: dict[tuple[str, str], list[int]] = {}
    plain = []
    for name in in_order(names):
        # A number with a leading zero would not be restored unchanged.
        match = re.fullmatch(r"(.*?)(0|[1-9]\d*)(\D*)", name)
        if match and not match[1].endswith(tuple("0123456789")):
            numbered.setdefault((match[1], match[3]), []).append(int(match[2]))
        else:
            plain.append(name)
    parts = list(plain)
    for (before, after), numbers in numbered.items():
        if len(numbers) == 1:
            parts.append(f"{before}{numbers[0]}{after}")
        else:
            parts.append(f"{before}[{','.join(ranges(numbers))}]{after}")
    return ",".join(in_order(parts))
