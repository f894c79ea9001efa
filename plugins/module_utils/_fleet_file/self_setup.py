# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that set themselves up: where they find their setup, and their startup script.

No I/O.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .._apply_agent import first
from .._core.ownership import DEFAULT_OWNER
from .._schema.keys import Key, Problem, check_keys, entries, text_of

ENDPOINT = "https://storage.googleapis.com"
UNIT = "tpu-fleet-self-setup"
PLACE = {
    "bucket": Key(
        description="Bucket and folder in it: `my-bucket/fleet`, also with `gs://`. This, or "
        "`server`.",
    ),
    "server": Key(description="NFS server that has it, as the machines reach it."),
    "export_path": Key(description="Folder that the server exports."),
    "local_path": Key(description="Where this computer has that folder mounted."),
    "endpoint": Key(
        description="Where the machines find Cloud Storage.",
        default=f"`{ENDPOINT}`",
    ),
    "cross_region": Key(
        choices=("refuse", "allow"),
        description="Whether a bucket in another region than a zone of these slices is an error, "
        "or its price accepted.",
        default="refuse",
    ),
}
SELF_SETUP = {"fleet_self_setup": Key("dict", options=PLACE)}

_BUCKET = re.compile(r"[a-z0-9][-_.a-z0-9]{1,61}[a-z0-9]")
_FOLDER = re.compile(r"[A-Za-z0-9._/-]*")
_NFS = "server", "export_path", "local_path"
# The metadata server itself; in a local cloud everything is there.
_LINK_LOCAL = "169.254.169.254"


def check_self_setup(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the place of publication, and with the slices that use it."""
    problems = check_keys("", data, SELF_SETUP, among=())
    place = data.get("fleet_self_setup") or {}
    if not problems and place:
        problems += _check_place(place)
    for field, entry in entries(data, "fleet_slices"):
        if entry.get("self_setup") is not True:
            continue
        if not place:
            message = "needs a place from which the machine fetches its setup"
            remedy = "Set fleet_self_setup, or leave it out"
            problems.append(Problem(f"{field}.self_setup", True, message, remedy))
        if "startup-script" in (entry.get("metadata") or {}):
            message = "is a startup script, and so is metadata startup-script"
            remedy = "Write your own one as startup_script: then both are run"
            problems.append(Problem(f"{field}.self_setup", True, message, remedy))
    return problems


def _check_place(place: Mapping[str, Any]) -> list[Problem]:
    problems = []
    bucket = text_of(place, "bucket")
    nfs = [key for key in _NFS if place.get(key)]
    if bool(bucket) == bool(nfs):
        message = f"has bucket and {nfs[0]}" if nfs else "says no place"
        remedy = f"Give bucket, or {', '.join(_NFS)}"
        return [Problem("fleet_self_setup", None, message, remedy)]
    if bucket:
        name, folder = split_bucket(bucket)
        if not _BUCKET.fullmatch(name) or not _FOLDER.fullmatch(folder):
            message = "is not a bucket with a folder"
            remedy = "Write it as my-bucket/fleet, of letters, digits and . _ - /"
            problems.append(Problem("fleet_self_setup.bucket", bucket, message, remedy))
    for key in _NFS if nfs else ():
        value = text_of(place, key)
        if not value or (key != "server" and not value.startswith("/")):
            message = "is missing" if not value else "is no whole path"
            remedy = f"An NFS share takes {', '.join(_NFS)}, the last two beginning with /"
            problems.append(Problem(f"fleet_self_setup.{key}", value, message, remedy))
    endpoint = text_of(place, "endpoint")
    if endpoint and not _may_see_tokens(endpoint):
        message = "is not an address that may see the machines' tokens"
        remedy = f"Only https://*.googleapis.com may, and http://{_LINK_LOCAL} in a local cloud"
        problems.append(Problem("fleet_self_setup.endpoint", endpoint, message, remedy))
    return problems


def _may_see_tokens(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    is_google = parts.scheme == "https" and host.endswith(".googleapis.com")
    return is_google or (parts.scheme == "http" and host == _LINK_LOCAL)


def split_bucket(text: str) -> tuple[str, str]:
    """Return the bucket, and what the names of all objects in it begin with."""
    name, _slash, folder = text.removeprefix("gs://").partition("/")
    folder = folder.strip("/")
    return name, f"{folder}/" if folder else ""


def place_of(declared: Mapping[str, Any]) -> dict[str, str]:
    """Return what the machines need of the place."""
    if declared.get("bucket"):
        bucket, prefix = split_bucket(str(declared["bucket"]))
        endpoint = str(declared.get("endpoint") or ENDPOINT).rstrip("/")
        return {"bucket": bucket, "prefix": prefix, "endpoint": endpoint}
    return {key: str(declared[key]) for key in ("server", "export_path")}


def fleet_of(project: str, owner: str | None) -> dict[str, str]:
    """Return how a fleet is named where something is published for its machines."""
    return {"project": project, "owner": owner or DEFAULT_OWNER}


def startup_script(
    place: Mapping[str, Any], slice_name: str, fleet: Mapping[str, str], own: str = ""
) -> str:
    """Write the startup script of a slice; what its owner wants at each boot is run as well.

    The work is done beside the boot: who logs in does not wait for it, nor does anything else.
    """
    said = {"place": place_of(place), "slice": slice_name, "fleet": fleet}
    config = json.dumps(said, sort_keys=True)
    program = f"/run/tpu-fleet/{UNIT}.py"
    begin = [
        *("systemd-run", "--quiet", "--collect", f"--unit={UNIT}"),
        "--description=Set this machine up as it was published for it",
        *("/usr/bin/python3", "-I", "-S", program, config),
    ]
    lines = [
        "#!/bin/sh",
        "# Made by tpu.fleet: the machine sets itself up. Its log is /var/log/tpu-fleet/"
        "self-setup.log.",
        "umask 022",
        "mkdir -p /run/tpu-fleet",
        *_file(program, inspect.getsource(first)),
        f"{shlex.join(begin)} || echo 'tpu.fleet: the set-up was not begun'",
    ]
    if own.strip():
        own = own if own.startswith("#!") else f"#!/bin/bash\n{own}"
        lines += [
            "# What the fleet file has as startup_script.",
            "folder=$(mktemp -d)",
            *_file('"$folder/startup-script"', own),
            'chmod 700 "$folder/startup-script"',
            '"$folder/startup-script"',
            "code=$?",
            'rm -rf "$folder"',
            "exit $code",
        ]
    return "\n".join(lines) + "\n"


def _file(path: str, content: str) -> list[str]:
    """Write a file, whatever is in it."""
    end = f"END_{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return [f"cat > {path} <<'{end}'", *content.rstrip("\n").split("\n"), end]
