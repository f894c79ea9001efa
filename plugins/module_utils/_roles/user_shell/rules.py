# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for shells and dotfiles in the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..._schema.keys import Problem, entries, text_of, texts_of
from ..._schema.refs import known_slices, known_user
from ..._schema.values import COMMIT
from ..git_access import address

PEOPLE = "fleet_shells"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]*")


def check_user_shell(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared shells and dotfiles."""
    problems = list(_check_ids(data))
    problems += _words(data, "fleet_shell_theme")
    for key in ("fleet_shell_plugins", "fleet_shell_packages"):
        problems += _lists(data, "", key)
    editor = text_of(data, "fleet_shell_editor")
    if editor and not re.fullmatch(r"[A-Za-z0-9_./+ -]+", editor):
        remedy = "Write the command, for example nvim or code --wait"
        problems.append(Problem("fleet_shell_editor", editor, "is not a command", remedy))
    seen: dict[tuple[str, str], str] = {}
    for field, entry in entries(data, PEOPLE):
        problems += known_user(data, field, entry, "user")
        problems += _words(entry, "theme", f"{field}.")
        problems += _lists(entry, f"{field}.", "plugins")
        slices = [name for _index, name in texts_of(entry, "slices")]
        if isinstance(data.get("fleet_slices"), list):
            problems += known_slices(data, field, entry)
        problems += _twice(field, text_of(entry, "user") or "", slices, seen)
        dotfiles = entry.get("dotfiles")
        if isinstance(dotfiles, Mapping):
            problems += _check_dotfiles(f"{field}.dotfiles", dotfiles)
    return problems


def _check_ids(data: Mapping[str, Any]) -> Iterable[Problem]:
    for key in ("fleet_ohmyzsh_commit", "fleet_ohmyzsh_tree"):
        value = text_of(data, key)
        if value and not COMMIT.fullmatch(value):
            remedy = "Write all 40 digits, as git rev-parse COMMIT and COMMIT^{tree} print them"
            yield Problem(key, value, "is not a git object id", remedy)
    if text_of(data, "fleet_ohmyzsh_commit") and not text_of(data, "fleet_ohmyzsh_tree"):
        remedy = "Write what git rev-parse COMMIT^{tree} prints"
        yield Problem("fleet_ohmyzsh_tree", None, "is missing beside another commit", remedy)


def _words(entry: Mapping[str, Any], key: str, prefix: str = "") -> Iterable[Problem]:
    value = text_of(entry, key)
    if value and (not _WORD.fullmatch(value) or ".." in value):
        yield Problem(f"{prefix}{key}", value, "is not a name", "Use letters, digits, - and _")


def _lists(entry: Mapping[str, Any], prefix: str, key: str) -> Iterable[Problem]:
    for index, value in texts_of(entry, key):
        if not _WORD.fullmatch(value) or ".." in value:
            remedy = "Use letters, digits, - and _"
            yield Problem(f"{prefix}{key}[{index}]", value, "is not a name", remedy)


def _twice(
    field: str, user: str, slices: list[str], seen: dict[tuple[str, str], str]
) -> Iterable[Problem]:
    """Return a problem for a second entry for the same user on the same slice."""
    for name in slices or [""]:
        other = next(
            (at for (who, where), at in seen.items() if who == user and "" in (where, name)),
            seen.get((user, name)),
        )
        if other:
            message = f"has an entry already, {other}"
            yield Problem(f"{field}.user", user, message, "Write one for each slice")
            break
    for name in slices or [""]:
        seen.setdefault((user, name), field)


def _check_dotfiles(field: str, dotfiles: Mapping[str, Any]) -> Iterable[Problem]:
    repo, local = text_of(dotfiles, "repo"), text_of(dotfiles, "local_path")
    if bool(repo) == bool(local):
        message = "has both repo and local_path" if repo else "has neither repo nor local_path"
        remedy = "Set repo for a git repository, or local_path for a folder of this computer"
        yield Problem(field, None, message, remedy)
    if repo and (wrong := address.problem_of(repo)):
        # The value may have a password, so it is not shown.
        yield Problem(f"{field}.repo", None, *wrong)
    version = text_of(dotfiles, "version")
    if version and (version.startswith("-") or re.search(r"\s", version)):
        remedy = "Use main, v1.2 or a full commit id"
        yield Problem(f"{field}.version", version, "is not a branch, tag or commit", remedy)
    subfolder = text_of(dotfiles, "subfolder")
    if subfolder and (subfolder.startswith("/") or ".." in subfolder.split("/")):
        remedy = "Write it relative to the top of the dotfiles"
        yield Problem(f"{field}.subfolder", subfolder, "leads out of the dotfiles", remedy)
