# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide about settings in files and units that belong to other packages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The image's own line is kept behind this mark, so that it can be restored.
KEPT = "# tpu.fleet keeps this line out: "
_PRELOAD = re.compile(r"\s*(?:export\s+)?LD_PRELOAD\s*=\s*(?P<value>.*?)\s*$")
# Locales that exist without being generated.
BUILT_IN = frozenset({"C", "POSIX", "C.utf8"})


# -- /etc/environment --------------------------------------------------------------------------


def without_tcmalloc(text: str) -> str:
    """Return the environment without tcmalloc in LD_PRELOAD; other libraries are kept."""
    lines = []
    for line in text.splitlines():
        match = _PRELOAD.fullmatch(line)
        value = match.group("value").strip("\"'") if match else ""
        libraries = [word for word in re.split(r"[\s:]+", value) if word]
        others = [word for word in libraries if "tcmalloc" not in word.rpartition("/")[2]]
        if len(others) == len(libraries):
            lines.append(line)
            continue
        lines.append(f"{KEPT}{line}")
        if others:
            lines.append(f'LD_PRELOAD="{":".join(others)}"')
    return _joined(lines)


def with_tcmalloc(text: str) -> str:
    """Return the environment with tcmalloc restored; later additions to LD_PRELOAD are kept."""
    lines = text.splitlines()
    back = [line[len(KEPT) :] for line in lines if line.startswith(KEPT)]
    if not back:
        return text
    # The shortened line is dropped, because the image's line is restored.
    rest = set(without_tcmalloc(_joined(back)).splitlines())
    kept = []
    for line in lines:
        if line.startswith(KEPT):
            kept.append(line[len(KEPT) :])
        elif line not in rest:
            kept.append(line)
    return _joined(kept)


# -- locale ------------------------------------------------------------------------------------


def with_lang(text: str, locale: str) -> str:
    """Return /etc/default/locale with this LANG; other categories are kept."""
    lines = text.splitlines()
    wanted = f"LANG={locale}"
    places = [index for index, line in enumerate(lines) if re.match(r"\s*(export\s+)?LANG=", line)]
    if not places:
        return _joined([*lines, wanted])
    if [lines[index].strip().replace('"', "") for index in places] == [wanted]:
        return text
    kept = [line for index, line in enumerate(lines) if index not in places[1:]]
    kept[places[0]] = wanted
    return _joined(kept)


def with_generated(text: str, locale: str) -> str:
    """Return /etc/locale.gen with this locale; the others are kept."""
    wanted = f"{locale} UTF-8"
    lines = text.splitlines()
    if any(line.split() == wanted.split() for line in lines):
        return text
    for index, line in enumerate(lines):
        if line.lstrip("# ").split() == wanted.split():
            lines[index] = wanted
            return _joined(lines)
    return _joined([*lines, wanted])


def spelled(locale: str) -> str:
    """Return a locale as `locale -a` spells it."""
    name, dot, charset = locale.partition(".")
    return name + dot + charset.replace("-", "").lower()


def is_there(locale: str, listed: Sequence[str]) -> bool:
    """Return whether a locale exists already."""
    return spelled(locale) in BUILT_IN or spelled(locale) in {spelled(item) for item in listed}


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# -- systemd -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """The wanted state of a unit that belongs to the role."""

    name: str
    on: bool


def read_values(text: str) -> dict[str, str]:
    """Return the values of lines in the form key=value."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def default_limits(text: str) -> dict[str, str]:
    """Return the output that systemctl show must give after systemd has read these limits."""
    found = {}
    for key, value in read_values(text).items():
        if key.startswith("DefaultLimit"):
            soft, _colon, hard = value.strip().partition(":")
            found[key] = _plain(hard or soft)
            found[f"{key}Soft"] = _plain(soft)
    return found


def _plain(number: str) -> str:
    return str(int(number[:-1]) * 1024) if re.fullmatch(r"\d+K", number) else number


def unit_steps(units: Sequence[Unit], shown: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """Return the systemctl commands that switch units on or off."""
    steps = []
    for unit in units:
        seen = shown.get(unit.name, {})
        enabled = seen.get("UnitFileState") == "enabled"
        active = seen.get("ActiveState") in ("active", "activating")
        if unit.on and not (enabled and active):
            steps.append(["systemctl", "enable", "--now", unit.name])
        elif not unit.on and (enabled or active):
            steps.append(["systemctl", "disable", "--now", unit.name])
    return steps


def wall_time(since_boot: str | None, boot: float) -> float | None:
    """Return a time for microseconds since the boot; None for 0, which means never."""
    if not since_boot or not since_boot.isdigit() or int(since_boot) == 0:
        return None
    return boot + int(since_boot) / 1e6


def is_stale(began: float | None, written: float | None) -> bool:
    """Return whether a service began before its configuration was written."""
    return began is not None and written is not None and began < written


# -- snaps -------------------------------------------------------------------------------------


def snap_step(held: str, wanted: bool) -> list[str] | None:
    """Return the command that holds snaps or allows refreshes, or None."""
    is_held = held.strip() == "forever"
    if wanted and not is_held:
        return ["snap", "set", "system", "refresh.hold=forever"]
    if not wanted and is_held:
        return ["snap", "unset", "system", "refresh.hold"]
    return None


def as_units(entries: Sequence[Mapping[str, Any]]) -> list[Unit]:
    """Return the units in the module's option."""
    return [Unit(str(entry["name"]), bool(entry["enabled"])) for entry in entries]
