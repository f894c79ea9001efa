# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the data sets of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ..._core.in_zone import EXAMPLE, REMEDY, in_zone, unknown_placeholder
from ..._schema.keys import Problem, duplicates, entries, text_of, texts_of
from ..._schema.refs import absolute, known, known_slices, known_user, twice_on_a_slice
from ..._schema.values import BUCKET_NAME, ENTRY_NAME
from ..dataset_variable import variable_of
from ..env_secrets.rules import check_uses
from .source import BUCKET, HUB, WEB, BadSource, Source, is_loopback, source_of

DATASETS = "fleet_datasets"
_HUB_URL = "fleet_hugging_face_url"
_PORT = "fleet_dataset_port"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_dataset(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared data sets."""
    problems = duplicates(data, DATASETS, "name", "Give each data set its own name")
    for field, entry in entries(data, DATASETS):
        problems += _check_name(field, entry) + _check_place(data, field, entry)
        problems += _check_from(field, entry) + known_user(data, field, entry, "user")
        problems += check_uses(data, field, entry, text_of(entry, "user"))
        problems += known_slices(data, field, entry)
    problems += twice_on_a_slice(data, DATASETS, "path") + list(_same_variable(data))
    return problems + _check_hub(text_of(data, _HUB_URL)) + _check_port(data.get(_PORT))


def check_datasets_of(data: Mapping[str, Any], field: str, run: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the data sets that a run names: each has to be on all its slices."""
    problems = []
    slices = {name for _index, name in texts_of(run, "slices")}
    declared = {entry.get("name"): entry for _field, entry in entries(data, DATASETS)}
    for index, name in texts_of(run, "datasets"):
        where = f"{field}.datasets[{index}]"
        found = known(data, where, name, "data set", DATASETS)
        has = {one for _index, one in texts_of(declared.get(name, {}), "slices")}
        if not found and has and slices - has:
            message = f"is not on {', '.join(sorted(slices - has))}"
            found = [Problem(where, name, message, f"Add that to the slices of {name}")]
        problems += found
    return problems


def _check_name(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    name = text_of(entry, "name")
    if name is None or ENTRY_NAME.fullmatch(name):
        return []
    remedy = "Use at most 63 letters, digits, - and _, with a letter or digit first"
    return [Problem(f"{field}.name", name, "is not a name for a data set", remedy)]


def _same_variable(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Find names that programs would find in the same variable."""
    first: dict[str, str] = {}
    for field, entry in entries(data, DATASETS):
        name = text_of(entry, "name") or ""
        other = first.setdefault(variable_of(name), name)
        if other != name:
            message = f"and {other} would both be in the variable {variable_of(name)}"
            yield Problem(f"{field}.name", name, message, "Rename one of them")


def _check_place(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    path = text_of(entry, "path")
    if path is None:
        return []
    problems = absolute(field, entry, "path")
    if not problems and (PurePosixPath(path).name == "" or ".." in path.split("/")):
        problems.append(Problem(f"{field}.path", path, "is no folder of its own", _PATHS))
    return [*problems, *_on_disks(data, field, entry, path), *_inside(data, field, path)]


def _inside(data: Mapping[str, Any], field: str, path: str) -> Iterator[Problem]:
    for _field, other in entries(data, DATASETS):
        outer = text_of(other, "path")
        if outer and PurePosixPath(outer) in PurePosixPath(path).parents:
            message = f"is inside of the data set {other.get('name')}"
            yield Problem(f"{field}.path", path, message, "Put it beside that")


_PATHS = "Use a path such as /mnt/data/imagenet or /dev/shm/imagenet"


def _on_disks(
    data: Mapping[str, Any], field: str, entry: Mapping[str, Any], path: str
) -> Iterator[Problem]:
    """Find what nothing can be written to."""
    mine = {name for _index, name in texts_of(entry, "slices")}
    for _field, disk in entries(data, "fleet_disks"):
        mount = text_of(disk, "path")
        theirs = {name for _index, name in texts_of(disk, "slices")}
        below = mount is not None and PurePosixPath(mount) in PurePosixPath(path).parents
        if not below or (mine and not mine & theirs):
            continue
        if disk.get("read_only") is True:
            message = f"is on the disk {disk.get('name')}, which is read-only"
            remedy = "Use another path; a read-only disk is filled from one slice alone"
            yield Problem(f"{field}.path", path, message, remedy)
        owner = text_of(disk, "user")
        if owner not in (None, "root"):
            message = f"is on the disk {disk.get('name')} of {owner}, who could replace it"
            remedy = "Use another path, or remove user from the disk"
            yield Problem(f"{field}.path", path, message, remedy)


def _check_from(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    text = text_of(entry, "from")
    if text is None:
        return []
    other = unknown_placeholder(text) if text.startswith("gs:") else ""
    if other:
        message = f"has {other}, which is neither region nor zone"
        return [Problem(f"{field}.from", text, message, REMEDY)]
    try:
        source = source_of(in_zone(text, EXAMPLE))
    except BadSource as error:
        # A login in an address is not shown.
        shown = None if "login" in error.message else text
        return [Problem(f"{field}.from", shown, error.message, error.remedy)]
    if source.kind == BUCKET and not BUCKET_NAME.fullmatch(source.address):
        remedy = "Write gs://BUCKET/FOLDER; a bucket's name has small letters, digits and . _ -"
        return [Problem(f"{field}.from", text, "is not the address of a bucket", remedy)]
    return _check_details(field, entry, source)


def _check_details(field: str, entry: Mapping[str, Any], source: Source) -> list[Problem]:
    """Check the keys that only some sources have."""
    problems = []
    digest = text_of(entry, "sha256")
    if digest and source.kind != WEB:
        message = "is for one file of https:// alone"
        remedy = "Remove it: buckets and the hub have checksums of their own"
        problems.append(Problem(f"{field}.sha256", digest, message, remedy))
    elif digest and not _SHA256.fullmatch(digest):
        remedy = "Write 64 digits of 0-9 and a-f, as sha256sum prints them"
        problems.append(Problem(f"{field}.sha256", digest, "is no SHA-256", remedy))
    if entry.get("include") and source.kind == WEB:
        remedy = "Remove it"
        message = "chooses among files, and there is one"
        problems.append(Problem(f"{field}.include", None, message, remedy))
    if entry.get("secrets") and source.kind != HUB:
        message = "are for hf:// alone"
        remedy = "Remove them: a bucket is read with the slice's service account"
        problems.append(Problem(f"{field}.secrets", None, message, remedy))
    return problems


def _check_hub(url: str | None) -> list[Problem]:
    """Return a problem if a token would go unprotected."""
    found = re.fullmatch(r"(https?)://([^/@\s]+?)(:[0-9]+)?(/[^\s?#]*)?", url or "https://host")
    if found and (found[1] == "https" or is_loopback(found[2])):
        return []
    remedy = "Write https://huggingface.co, or the address of a mirror with https://"
    return [Problem(_HUB_URL, url, "is no address of a hub", remedy)]


def _check_port(port: Any) -> list[Problem]:
    if not isinstance(port, int) or 1 <= port < 1024:
        return []
    remedy = "Use a port below 1024, which only root can open"
    return [Problem(_PORT, port, "is not a privileged port", remedy)]
