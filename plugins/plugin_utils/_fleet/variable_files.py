# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of variables beside an inventory, and say where one of them is no YAML.

Ansible reads group_vars of a group only when there are hosts in it, and shows a mistake in the YAML
of a file without file or line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.parsing.dataloader import DataLoader
from yaml import MarkedYAMLError

from ...module_utils._schema.names import old_names

UNREAD = "[ERROR]: "
"""How the inventory plugin begins the text with which it ends a program that cannot read it."""
_FOLDERS = ("group_vars", "host_vars")
_SUFFIXES = (".yml", ".yaml", ".json")
_INDENTATION = (
    "Look at the indentation of this line and of the one before it: the entries of a list begin in "
    "the same column, and so do the keys of an entry. A text with a colon and a space in it needs "
    "quotation marks"
)
_TAB = "Write spaces in place of the tab: YAML takes no tabs at the beginning of a line"
_TEMPLATE = 'Put a value that begins with {{ into quotation marks: key: "{{ value }}"'
_QUOTE = "Close the quotation mark that begins there"


def variable_files(folder: Path) -> list[Path]:
    """List the files in group_vars and host_vars of a folder that Ansible would read."""
    return [file for name in _FOLDERS for file in sorted(_files(folder / name, top=True))]


def folders_of(sources: Iterable[Any]) -> list[Path]:
    """List the folders of the sources of an inventory, as ansible_inventory_sources names them."""
    places = (Path(str(source)) for source in sources)
    found = (place if place.is_dir() else place.parent for place in places if place.exists())
    return list(dict.fromkeys(found))


def read_variables(loader: DataLoader, file: Path) -> dict[str, Any]:
    """Return the variables of a file. Raises AnsibleParserError with file, line and remedy."""
    try:
        data = loader.load_from_file(str(file), cache="all", unsafe=True, trusted_as_template=True)
    except AnsibleError as error:
        cause = error.__cause__
        if not isinstance(cause, MarkedYAMLError):
            raise
        raise AnsibleParserError(_told(file, cause)) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a text"
        raise AnsibleParserError(
            f"{shown(file)} holds {kind} in place of variables. Write each as NAME: VALUE."
        )
    return data


def fill_empty_sections(variables: dict[str, Any]) -> None:
    """Make a section of the fleet file that has nothing below it an empty one, in place.

    YAML gives nothing for it, which is neither a list nor a mapping. These are the very objects
    that Ansible goes on with: it reads a file once.
    """
    if None not in variables.values():
        return
    for name, empty in empty_values().items():
        if name in variables and variables[name] is None:
            variables[name] = empty


def empty_values() -> dict[str, Any]:
    """Return what an empty section is, by variable. Without a grant, none is declared."""
    # Seldom needed, and all rules of the fleet file: 0.08 s of each start of Ansible.
    from ...module_utils._fleet_file.around import AROUND
    from ...module_utils._fleet_file.budget import BUDGET
    from ...module_utils._fleet_file.check import role_keys
    from ...module_utils._fleet_file.notify import NOTIFIED
    from ...module_utils._fleet_file.queue import QUEUE
    from ...module_utils._fleet_file.self_setup import SELF_SETUP
    from ...module_utils._schema.keys import LISTS, WORDS, Key
    from .._roles.specs import fleet_options

    keys = {**role_keys(fleet_options()), **AROUND, **NOTIFIED, **SELF_SETUP, **BUDGET, **QUEUE}
    keys |= {name: Key("list") for name in LISTS if name not in WORDS}
    return {
        name: [] if key.type == "list" else {}
        for name, key in keys.items()
        if key.type in ("list", "dict")
    }


def refuse_old_names(found: Iterable[tuple[str, Path]]) -> None:
    """Refuse variables, each with its file, that the fleet file has by other names now.

    Raises AnsibleParserError, which names all of them.
    """
    places: dict[str, list[str]] = {}
    for name, file in found:
        places.setdefault(name, []).append(shown(file))
    problems = old_names(places, lambda name: " and ".join(places[name]))
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise AnsibleParserError(
            f"The fleet file has {len(problems)} old names. Nothing was changed.\n{lines}"
            if len(problems) > 1
            else f"The fleet file has an old name. Nothing was changed.\n{lines}"
        )


def names_by_file(loader: DataLoader, sources: Iterable[Any]) -> dict[str, str]:
    """Return all variables in the files beside an inventory, each with the file that has it."""
    found: dict[str, tuple[str, Path]] = {}
    for folder in folders_of(sources):
        for file in variable_files(folder):
            try:
                names = read_variables(loader, file)
            except AnsibleError:
                # A vault without its password, of a group without hosts: not needed here.
                continue
            group = file.relative_to(folder).parts[1]
            for name in names:
                # Of the files of a group the last one counts.
                if found.get(str(name), (group,))[0] == group or group.partition(".")[0] == "all":
                    found[str(name)] = group, file
    return {name: shown(file) for name, (_group, file) in found.items()}


def shown(file: Path) -> str:
    """Return a file's name as it is written in the current folder."""
    return os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file)


def _files(folder: Path, *, top: bool) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir():
            yield from _files(path, top=False)
        # Without a suffix it may be anything, if it has not the name of a group.
        elif path.suffix in _SUFFIXES or (not path.suffix and (not top or path.name == "all")):
            yield path


def _told(file: Path, error: MarkedYAMLError) -> str:
    """Say where the mistake is, what it is, and what to look for."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return f"{shown(file)} is no YAML: {error.problem}."
    what = " ".join(word for word in (error.context, error.problem) if word)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    at, remedy = mark.line + 1, _INDENTATION
    if "\t" in line[: len(line) - len(line.lstrip())] or "\\t" in what:
        remedy = _TAB
    elif "{{" in line and line.partition("{{")[0].rstrip().endswith((":", "-")):
        remedy = _TEMPLATE
    elif "quoted scalar" in what and error.context_mark is not None:
        at, remedy = error.context_mark.line + 1, _QUOTE
    return f"{shown(file)}, line {at}: {what}. {remedy}."
