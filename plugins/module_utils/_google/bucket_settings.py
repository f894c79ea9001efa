# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bucket for rotating checkpoints should have, in one table. No I/O.

A run that keeps its last checkpoints deletes one with each that it saves. Soft delete, which Google
switches on in every new bucket, keeps each of them for at least seven days, and versioning keeps
them for good; both are billed as if nothing was deleted. Lifecycle rules count days and know no
"newest", so none may cover checkpoints: they are for parts of uploads that never ended, and for the
folder `tmp/`. Nearline and colder classes bill 30 days and more of each object, and each read.

The playbook that makes buckets takes the values from here, and the doctor compares with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DAY = 86400
STORAGE_CLASS = "STANDARD"
SOFT_DELETE_SECONDS = 0
"""Off. Google takes 0, or 7 to 90 days."""
ABORT_DAYS = 7
TMP_DAYS = 7
TMP = "tmp/"
LONGEST = 300
"""Characters of rules in a command; with more of them, a person edits the file."""
ABORT = "AbortIncompleteMultipartUpload"
LIFECYCLE: tuple[Mapping[str, Any], ...] = (
    {"action": {"type": ABORT}, "condition": {"age": ABORT_DAYS}},
    {"action": {"type": "Delete"}, "condition": {"age": TMP_DAYS, "matchesPrefix": [TMP]}},
)


def wanted() -> dict[str, Any]:
    """Return the settings as fields of the bucket resource of Cloud Storage's JSON API.

    The location is not among them: it is that of the slices.
    """
    return {
        "storageClass": STORAGE_CLASS,
        "softDeletePolicy": {"retentionDurationSeconds": SOFT_DELETE_SECONDS},
        "versioning": {"enabled": False},
        "lifecycle": {"rule": [dict(rule) for rule in LIFECYCLE]},
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
    }


SOFT_DELETE, VERSIONING, CLASS, NO_ABORT, EATS = (
    "soft_delete",
    "versioning",
    "storage_class",
    "no_abort",
    "deletes_checkpoints",
)


@dataclass(frozen=True)
class Misfit:
    """One setting of a bucket that does not fit rotating checkpoints."""

    case: str
    """SOFT_DELETE, VERSIONING, CLASS, NO_ABORT or EATS."""
    command: str
    """The command that corrects it."""
    days: float = 0.0
    """How long what is deleted stays billed; infinite with versions that no rule deletes."""
    value: str = ""


def misfits(bucket: Mapping[str, Any], folders: tuple[str, ...] = ()) -> Iterator[Misfit]:
    """Yield what does not fit of a bucket, as the JSON API shows it.

    `folders` are what the names of checkpoints in it begin with, as `lm/`; empty for none known.
    """
    name = bucket.get("name", "BUCKET")
    update = f"gcloud storage buckets update gs://{name}"
    seconds = soft_delete_seconds(bucket)
    if seconds > SOFT_DELETE_SECONDS:
        yield Misfit(SOFT_DELETE, f"{update} --soft-delete-duration=0", seconds / DAY)
    if (bucket.get("versioning") or {}).get("enabled"):
        yield Misfit(VERSIONING, f"{update} --no-versioning", _days_of_versions(bucket))
    kind = str(bucket.get("storageClass") or STORAGE_CLASS)
    if kind != STORAGE_CLASS:
        command = f"{update} --default-storage-class={STORAGE_CLASS}"
        yield Misfit(CLASS, command, value=kind)
    rules = _rules(bucket)
    for rule in rules:
        if folders and _eats(rule, folders):
            keep = [one for one in rules if one is not rule]
            yield Misfit(EATS, _lifecycle_command(update, keep), value=_condition(rule))
    if not any((rule.get("action") or {}).get("type") == ABORT for rule in rules):
        yield Misfit(NO_ABORT, _lifecycle_command(update, [*rules, LIFECYCLE[0]]))


def soft_delete_seconds(bucket: Mapping[str, Any]) -> int:
    """Return how long a bucket keeps what is deleted, in seconds; 0 if it does not."""
    try:
        return int((bucket.get("softDeletePolicy") or {}).get("retentionDurationSeconds") or 0)
    except (TypeError, ValueError):
        return 0


def _rules(bucket: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = (bucket.get("lifecycle") or {}).get("rule") or []
    return [rule for rule in found if isinstance(rule, Mapping)]


def _days_of_versions(bucket: Mapping[str, Any]) -> float:
    """Return after how many days a rule deletes versions that are no longer live."""
    ages = [
        condition.get("daysSinceNoncurrentTime", condition.get("age"))
        for rule in _rules(bucket)
        for condition in [rule.get("condition") or {}]
        if (rule.get("action") or {}).get("type") == "Delete"
        and not condition.get("matchesPrefix")
        and not condition.get("isLive")
    ]
    known = [float(age) for age in ages if isinstance(age, (int, float))]
    return min(known, default=float("inf"))


def _eats(rule: Mapping[str, Any], folders: tuple[str, ...]) -> bool:
    """Return whether a rule deletes live objects in one of these folders."""
    condition = rule.get("condition") or {}
    only_old = condition.get("isLive") is False or any(
        key in condition
        for key in ("daysSinceNoncurrentTime", "noncurrentTimeBefore", "numNewerVersions")
    )
    if (rule.get("action") or {}).get("type") != "Delete" or only_old:
        return False
    prefixes = condition.get("matchesPrefix")
    return prefixes is None or any(
        folder.startswith(prefix) or prefix.startswith(folder)
        for prefix in prefixes
        for folder in folders
    )


def _condition(rule: Mapping[str, Any]) -> str:
    return json.dumps(rule.get("condition") or {}, sort_keys=True)


def _lifecycle_command(update: str, rules: list[Mapping[str, Any]]) -> str:
    """Return the command that makes these the rules of a bucket; it replaces those before."""
    if not rules:
        return f"{update} --clear-lifecycle"
    text = json.dumps({"rule": rules}, sort_keys=True)
    write = f"echo '{text}' > lifecycle.json"
    if len(write) > LONGEST or "'" in text:
        read = update.replace(" update ", " describe ")
        write = f"{read} --format='json(lifecycle_config)' > lifecycle.json; edit this file"
    return f"{write}; {update} --lifecycle-file=lifecycle.json"
