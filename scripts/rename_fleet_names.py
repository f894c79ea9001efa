#!/usr/bin/env python3
"""Give the variables in fleet files of tpu.fleet 0.1 the names and values of 0.2.

    .venv/bin/python scripts/rename_fleet_names.py inventory/group_vars/all/*.yml

The old name of a variable becomes the new one wherever it stands in a file, also in comments and
templates. The old key of an entry becomes the new one, a number there gets its unit (`size_gb: 500`
becomes `size: 500GiB`), and an old word for what is off becomes null. Nothing else changes. Prints
the files that changed, and what a person must change: one entry of fleet_disks has what data_disks
of a slice and the mounts of the role data_disk had. Not for playbooks that apply a role alone: the
roles keep their own variables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import (
    FLEET_NAMES,
    GONE,
    MERGED,
    fleet_name,
    renamed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.old_keys import (
    MOVED_KEYS,
    OLD_KEYS,
    OLD_WORDS,
    in_new_form,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.sizes import MEMORIES, meant

NAMES = {old: new for old, new in FLEET_NAMES.items() if old not in MERGED}
BY_HAND = {**MERGED, "data_disks": MOVED_KEYS["fleet_slices.data_disks"]}
# Amounts of memory, which had the units of systemd.
MEMORY = {
    f"{fleet_name(variable)}{dot}{key}"
    for variable, dot, key in (place.partition(".") for place in MEMORIES)
}
# Where an edit begins and ends in the text, and what stands there afterwards.
Edit = tuple[int, int, str]


def by_hand(text: str) -> Iterator[str]:
    """Yield what to do with each line that cannot be moved by its name alone."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in BY_HAND.keys() & set(re.findall(r"\w+", line)):
            yield f"{number}: {name}: {BY_HAND[name]}."


def main(files: list[str]) -> None:
    """Rename in files, in place."""
    for file in map(Path, files):
        before = file.read_text(encoding="utf-8")
        after = moved(renamed(before, NAMES), str(file))
        if after != before:
            file.write_text(after, encoding="utf-8")
            print(file)
        for told in by_hand(after):
            print(f"{file}:{told}")


def moved(text: str, name: str = "") -> str:
    """Return a fleet file with the new keys and values; `name` is for messages."""
    root = yaml.compose(text)
    if not isinstance(root, yaml.MappingNode):
        return text
    edits = list(edits_below(root, "", name))
    for begin, end, new in sorted(edits, reverse=True):
        text = f"{text[:begin]}{new}{text[end:]}"
    return text


def edits_below(node: yaml.Node, place: str, name: str) -> Iterator[Edit]:
    """Yield the edits of a mapping, or of the entries of a list; `place` is that of the tables."""
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from edits_below(one, place, name)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        old = str(key.value)
        new = (OLD_KEYS.get(place, {}) if place else GONE).get(old)
        here = f"{place}.{old}" if place else old
        if new:
            yield from edits_of(key, value, new, f"{name}: {here}")
            here = f"{here.removesuffix(old)}{new.split(':')[0]}"
        if not new and isinstance(value, yaml.ScalarNode) and not value.tag.endswith(":null"):
            word = OLD_WORDS.get(here, {}).get(value.value)
            word = meant(value.value) if here in MEMORY else word
            if word:
                yield value.start_mark.index, value.end_mark.index, word
        yield from edits_below(value, here, name)


def edits_of(key: yaml.Node, value: yaml.Node, new: str, where: str) -> Iterator[Edit]:
    """Yield the edits of a renamed key, and of its value if that has another form."""
    name, colon, form = new.partition(": ")
    yield key.start_mark.index, key.end_mark.index, name
    number = isinstance(value, yaml.ScalarNode) and re.fullmatch(r"-?[0-9]+", value.value)
    if number and "{}" in form:
        found = in_new_form(new, value.value).partition(": ")[2]
        yield value.start_mark.index, value.end_mark.index, found
    elif colon:
        print(f"{where}: give {name} its new value: {form.replace('{}', 'NUMBER')}")


if __name__ == "__main__":
    main(sys.argv[1:])
