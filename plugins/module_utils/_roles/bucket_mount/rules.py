# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the buckets of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._core.in_zone import EXAMPLE, REMEDY, in_zone, unknown_placeholder
from ..._host.mounts import UNDONE_BY
from ..._schema.keys import Problem, entries, text_of
from ..._schema.refs import absolute, at_least, known_slices, twice_on_a_slice
from ..._schema.values import BUCKET_NAME

BUCKETS = "fleet_buckets"
MODE = re.compile(r"0?[0-7]{3}")


def check_bucket_mount(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared buckets."""
    problems: list[Problem] = []
    for field, entry in entries(data, BUCKETS):
        problems += _check_bucket(data, field, entry)
    problems += twice_on_a_slice(data, BUCKETS, "path")
    if text_of(data, "fleet_gcsfuse_apt_key") and not text_of(data, "fleet_gcsfuse_apt_uri"):
        remedy = "Set fleet_gcsfuse_apt_uri, too, or remove the key"
        problems.append(Problem("fleet_gcsfuse_apt_uri", None, "is missing", remedy))
    if text_of(data, "fleet_gcsfuse_apt_uri") and not text_of(data, "fleet_gcsfuse_apt_key"):
        remedy = "Set it to the text of the key that signs the repository"
        problems.append(Problem("fleet_gcsfuse_apt_key", None, "is missing", remedy))
    return problems + at_least(data, {"fleet_bucket_timeout": "1s"})


def _check_bucket(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = absolute(field, entry, "path") + absolute(field, entry, "cache_dir")
    name = text_of(entry, "bucket")
    other = unknown_placeholder(name or "")
    if name and other:
        message = f"has {other}, which is neither region nor zone"
        problems.append(Problem(f"{field}.bucket", name, message, REMEDY))
    elif name and not BUCKET_NAME.fullmatch(in_zone(name, EXAMPLE)):
        remedy = "Write its name alone, without gs:// and folders"
        problems.append(Problem(f"{field}.bucket", name, "is not the name of a bucket", remedy))
    if text_of(entry, "path") == "/":
        remedy = "Use a folder such as /mnt/data"
        problems.append(Problem(f"{field}.path", "/", "is the whole machine", remedy))
    if "//" in (text_of(entry, "path") or ""):
        remedy = "Use a single slash"
        problems.append(Problem(f"{field}.path", entry["path"], "has two slashes", remedy))
    options = entry.get("options")
    values = {key: entry.get(key) for key in ("path", "only_dir", "cache_dir")}
    if isinstance(options, Mapping):
        values.update({f"options.{key}": value for key, value in options.items()})
        for key in (key for key in options if str(key).lstrip("-") in UNDONE_BY):
            message = "would let what another machine wrote become root here"
            problems.append(
                Problem(f"{field}.options.{key}", options[key], message, "Leave it out")
            )
    for key, value in values.items():
        if isinstance(value, str) and re.search(r"[,\s]", value):
            remedy = "Remove it: commas and blanks separate mount options"
            problems.append(Problem(f"{field}.{key}", value, "has a comma or a blank", remedy))
    for key in ("file_permissions", "dir_permissions"):
        mode = entry.get(key)
        if mode is not None and not (isinstance(mode, str) and MODE.fullmatch(mode)):
            remedy = 'Write them in quotes: "0664"'
            problems.append(Problem(f"{field}.{key}", mode, "are not permissions", remedy))
    size = entry.get("cache_size")
    if size and not entry.get("cache_dir"):
        remedy = "Set cache_dir, because a cache needs a folder"
        problems.append(Problem(f"{field}.cache_size", size, "needs cache_dir", remedy))
    problems += known_slices(data, field, entry)
    return problems
