# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the runs of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._core.checkpoints import bucket_and_folder
from ..._core.in_zone import EXAMPLE, REMEDY, in_zone, unknown_placeholder
from ..._schema import values as rules
from ..._schema.keys import UNREADABLE, Problem, duplicates, entries, text_of, texts_of
from ..._schema.refs import hides_a_name, in_its_slice, known, known_slices, known_user
from ..._schema.values import ENTRY_NAME
from ..dataset.rules import check_datasets_of
from ..env_secrets.rules import check_uses
from ..python_env.frameworks import DEFAULT_VERSIONS, OLDEST_WITH_MTLS, version_key
from ..whose import TREES, VENVS, check_code_of

_SIGNAL = re.compile("(SIG)?(TERM|INT|HUP|QUIT|USR1|USR2)")


def check_training_run(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared runs."""
    problems = duplicates(data, "fleet_runs", "name", "Give each run its own name")
    for field, entry in entries(data, "fleet_runs"):
        name = text_of(entry, "name")
        if name and not ENTRY_NAME.fullmatch(name):
            remedy = "Use at most 63 letters, digits, - and _, with a letter or digit first"
            problems.append(Problem(f"{field}.name", name, "is not a name for a run", remedy))
        problems += known_slices(data, field, entry)
        problems += _about_slices(field, entry)
        for key, what, variable in (
            ("venv", "venv", VENVS),
            ("code", "tree", TREES),
        ):
            name = text_of(entry, key)
            if name and not name.startswith("/"):
                problems += known(data, f"{field}.{key}", name, what, variable)
            problems += check_code_of(
                data, f"{field}.{key}", text_of(entry, "user"), name, variable
            )
        problems += known_user(data, field, entry, "user")
        problems += check_uses(data, field, entry, text_of(entry, "user"))
        problems += check_datasets_of(data, field, entry)
        for key in entry["env"] if isinstance(entry.get("env"), dict) else ():
            if not isinstance(key, str) or not rules.VARIABLE_NAME.fullmatch(key):
                remedy = "Use letters, digits and _, without a digit first"
                message = "is not the name of an environment variable"
                problems.append(Problem(f"{field}.env.{key}", None, message, remedy))
        problems += _about_watching(field, entry) + _about_checkpoints(field, entry)
        problems += _about_mtls(data, field, entry)
        retries = entry.get("retries")
        if isinstance(retries, int) and retries < 0:
            remedy = "Use 0 or more"
            problems.append(Problem(f"{field}.retries", retries, "is below zero", remedy))
        port = entry.get("port")
        if isinstance(port, int) and not 1024 <= port <= 65534:
            remedy = "Use 1024 to 65534, or remove it"
            problems.append(Problem(f"{field}.port", port, "is not a port for a run", remedy))
        port = entry.get("peer_port")
        if isinstance(port, int) and not 1 <= port < 1024:
            remedy = "Use a port below 1024, which only root can open, or remove it"
            problems.append(Problem(f"{field}.peer_port", port, "is not a privileged port", remedy))
    return problems + in_its_slice(data, "training_run")


def _about_checkpoints(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the addresses of buckets, and of the fence in one."""
    place = text_of(entry, "checkpoint_dir") or ""
    archive = text_of(entry, "archive") or ""
    problems = _about_address(f"{field}.checkpoint_dir", place) if place.startswith("gs:") else []
    problems += _about_address(f"{field}.archive", archive) if archive else []
    if text_of(entry, "fence") == "attempt" and not place.startswith("gs:"):
        remedy = "Write checkpoint_dir: gs://BUCKET/FOLDER, or remove it"
        message = "needs checkpoints in a bucket"
        problems.append(Problem(f"{field}.fence", "attempt", message, remedy))
    return problems


def _about_mtls(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if the run's JAX would ignore certificates, and go on without a word."""
    if entry.get("mtls") is not True or hides_a_name(data.get("fleet_venvs")):
        return []
    venvs = (one for _field, one in entries(data, "fleet_venvs"))
    named = next((one for one in venvs if one.get("name") == entry.get("venv")), {})
    told = (entry.get("venv"), named.get("framework"), named.get("framework_version"))
    if UNREADABLE in (*told, data.get("fleet_jax_version")):
        return []
    version = str(
        named.get("framework_version") or data.get("fleet_jax_version") or DEFAULT_VERSIONS["jax"]
    )
    knows = named.get("framework") == "jax"
    if knows and version_key(version) >= version_key(OLDEST_WITH_MTLS):
        return []
    what = f"has JAX {version}" if knows else "is none with framework: jax"
    message = f"needs JAX {OLDEST_WITH_MTLS} or newer, and the run's venv {what}"
    remedy = f"Name a venv with framework: jax and framework_version {OLDEST_WITH_MTLS} or newer"
    return [Problem(f"{field}.mtls", True, message, f"{remedy}, or remove it")]


def _about_address(field: str, place: str) -> list[Problem]:
    if bucket_and_folder(in_zone(place, EXAMPLE)) is not None:
        return []
    other = unknown_placeholder(place)
    if other:
        message = f"has {other}, which is neither region nor zone"
        return [Problem(field, place, message, REMEDY)]
    remedy = "Write gs://BUCKET/FOLDER; a bucket's name has small letters, digits and . _ -"
    return [Problem(field, place, "is not the address of a bucket", remedy)]


def _about_slices(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a run over several slices."""
    names = [name for _index, name in texts_of(entry, "slices")]
    if entry.get("multislice") is not True:
        return []
    if len(names) < 2:
        message = "needs several slices, but the run has one"
        remedy = "Add the others to slices, or remove it"
        return [Problem(f"{field}.multislice", True, message, remedy)]
    if len(set(names)) < len(names):
        message, remedy = "names a slice twice", "Name each slice once"
        return [Problem(f"{field}.slices", names, message, remedy)]
    return []


def _about_watching(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of how a run is watched, and asked to save."""
    problems = []
    pattern = text_of(entry, "step_pattern")
    if pattern:
        remedy = r"Write one group, like step[ =:]+(\d+), in single quotes"
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            message = f"is not a regular expression: {error}"
            problems.append(Problem(f"{field}.step_pattern", pattern, message, remedy))
        else:
            if groups != 1:
                message = f"has {groups} groups, but needs exactly one, for the step"
                problems.append(Problem(f"{field}.step_pattern", pattern, message, remedy))
    for key in ("stop_signal", "checkpoint_signal"):
        name = text_of(entry, key)
        if name and not _SIGNAL.fullmatch(name):
            remedy = "Use SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 or SIGUSR2"
            problems.append(Problem(f"{field}.{key}", name, "is not a signal for a run", remedy))
    codes = entry.get("no_retry_exit_codes")
    for index, code in enumerate(codes if isinstance(codes, list) else ()):
        if isinstance(code, int) and not 1 <= code <= 255:
            place = f"{field}.no_retry_exit_codes[{index}]"
            problems.append(
                Problem(place, code, "is not the exit code of a failure", "Use 1 to 255")
            )
    return problems
