# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a bucket for checkpoints has, and what an existing one lacks. Pure.

What it should have stands in `bucket_settings.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL, check_owner
from .._schema.values import BUCKET_NAME
from .bucket_settings import (
    ABORT,
    ABORT_DAYS,
    DAY,
    LIFECYCLE,
    SOFT_DELETE_SECONDS,
    STORAGE_CLASS,
    soft_delete_seconds,
    wanted,
)
from .service_account_plan import BUCKET_ROLES, altered, roles_of

# Google keeps what is deleted for no time, or for one between these.
SOFT_DELETE_DAYS = (7, 90)
# What a program needs that saves and restores: Orbax asks for the bucket itself, too.
ACCESS = BUCKET_ROLES["write"]
DEFAULT_ACCOUNT = "default"

# The field of the bucket resource that has each of the compared settings.
_FIELDS = {
    "uniform_access": "iamConfiguration",
    "public_access_prevention": "iamConfiguration",
    "soft_delete": "softDeletePolicy",
    "versioning": "versioning",
    "unfinished_uploads": "lifecycle",
    "owner": "labels",
}
_LOCATION = re.compile(r"[a-z]+(-[a-z]+)?\d*")
_EMAIL = re.compile(r"[^\s:@]+@[^\s:@]+")
PRINCIPAL = re.compile(
    r"(user|group|serviceAccount):[^\s:@]+@[^\s:@]+|domain:[^\s:@]+|principal(Set)?://\S+"
)
"""How policies name one who gets access; `allUsers` is none, because a bucket is never public."""
PRINCIPAL_REMEDY = (
    "Write it as policies do: user:alice@example.org, group:lab@example.org, serviceAccount:EMAIL"
)


@dataclass(frozen=True)
class BucketSpec:
    """A wanted bucket. `soft_delete` is in seconds; an account is an address, or `default`.

    Writers and readers are named as policies do.
    """

    name: str
    location: str
    soft_delete: int = SOFT_DELETE_SECONDS
    accounts: tuple[str, ...] = ()
    owner: str | None = None
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise BadRequest for values that no bucket can have, before any request."""
        if not BUCKET_NAME.fullmatch(self.name):
            raise BadRequest(
                f"name = {self.name!r} is no name of a bucket.",
                remedy="Write it without gs:// and folders.",
            )
        if self.location and not _LOCATION.fullmatch(self.location.lower()):
            raise BadRequest(
                f"location = {self.location!r} is no location.",
                remedy="Write the region of the slices, such as us-central2.",
            )
        self._check_soft_delete()
        self._check_accounts()
        check_owner(self.owner)

    def _check_soft_delete(self) -> None:
        least, most = SOFT_DELETE_DAYS
        if self.soft_delete and not least * DAY <= self.soft_delete <= most * DAY:
            raise BadRequest(
                f"soft_delete_duration = {period(self.soft_delete)} is no time that Google offers.",
                remedy=f"Write 0s, or {least}d to {most}d.",
            )

    def _check_accounts(self) -> None:
        for account in self.accounts:
            if account != DEFAULT_ACCOUNT and not _EMAIL.fullmatch(account):
                raise BadRequest(
                    f"accounts: {account!r} is no service account.",
                    remedy="Write its e-mail address, or default for the project's own.",
                )
        for principal in (*self.writers, *self.readers):
            if not PRINCIPAL.fullmatch(principal):
                raise BadRequest(
                    f"{principal!r} is not what gets access to a bucket.",
                    remedy=PRINCIPAL_REMEDY,
                )

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Return the roles that each account, writer and reader needs."""
        wanted = {
            **dict.fromkeys(self.readers, BUCKET_ROLES["read"]),
            **dict.fromkeys((*self.accounts, *self.writers), ACCESS),
        }
        return {name: wanted[name] for name in (*self.accounts, *self.writers, *self.readers)}

    def body(self) -> dict[str, Any]:
        """Return the request that creates it."""
        soft = {"softDeletePolicy": {"retentionDurationSeconds": str(self.soft_delete)}}
        own = {"name": self.name, "location": self.location.upper(), **wanted(), **soft}
        return {**own, "labels": {OWNER_LABEL: self.owner or DEFAULT_OWNER}}


def period(seconds: int) -> str:
    """Return a time in days, or in seconds if it is no whole number of days."""
    whole = seconds and seconds % DAY == 0
    return f"{seconds // DAY}d" if whole else f"{seconds}s"


def owner_of(bucket: Mapping[str, Any]) -> str | None:
    """Return the owner that a bucket's labels name."""
    return (bucket.get("labels") or {}).get(OWNER_LABEL)


def summary(bucket: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are compared, in words for people."""
    protection = bucket.get("iamConfiguration") or {}
    return {
        "storage_class": str(bucket.get("storageClass") or STORAGE_CLASS),
        "uniform_access": bool((protection.get("uniformBucketLevelAccess") or {}).get("enabled")),
        "public_access_prevention": str(protection.get("publicAccessPrevention") or "inherited"),
        "soft_delete": period(soft_delete_seconds(bucket)),
        "versioning": bool((bucket.get("versioning") or {}).get("enabled")),
        "unfinished_uploads": _uploads(bucket) or "kept",
        "owner": owner_of(bucket) or "",
    }


def wanted_summary(spec: BucketSpec, bucket: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same settings as they should be."""
    return {
        "storage_class": STORAGE_CLASS,
        "uniform_access": True,
        "public_access_prevention": "enforced",
        "soft_delete": period(spec.soft_delete),
        "versioning": False,
        "unfinished_uploads": _uploads(bucket) or _days(ABORT_DAYS),
        "owner": spec.owner or owner_of(bucket) or DEFAULT_OWNER,
    }


def changes(spec: BucketSpec, bucket: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a PATCH has to say, so that an existing bucket is as wanted."""
    have, want = summary(bucket), wanted_summary(spec, bucket)
    every: dict[str, dict[str, Any]] = {
        "uniform_access": {"uniformBucketLevelAccess": {"enabled": True}},
        "public_access_prevention": {"publicAccessPrevention": "enforced"},
        "soft_delete": {"retentionDurationSeconds": str(spec.soft_delete)},
        "versioning": {"enabled": False},
        "unfinished_uploads": {"rule": [*_rules(bucket), dict(LIFECYCLE[0])]},
        "owner": {OWNER_LABEL: want["owner"]},
    }
    body: dict[str, Any] = {}
    for key in (key for key in every if have[key] != want[key]):
        body[_FIELDS[key]] = {**body.get(_FIELDS[key], {}), **every[key]}
    if have["storage_class"] != STORAGE_CLASS:
        body["storageClass"] = STORAGE_CLASS
    return body


def remarks(bucket: Mapping[str, Any]) -> list[str]:
    """Return in sentences what does not suit checkpoints, and is never corrected."""
    kept = int((bucket.get("retentionPolicy") or {}).get("retentionPeriod") or 0)
    if not kept:
        return []
    return [
        f"The bucket's retention policy keeps each object for {period(kept)}, so that no program "
        "can delete old checkpoints before."
    ]


def members_of(spec: BucketSpec, project_number: str) -> dict[str, str]:
    """Return how policies name each who gets access; the default account has the number in it."""
    own = f"{project_number}-compute@developer.gserviceaccount.com"
    accounts = {
        account: f"serviceAccount:{own if account == DEFAULT_ACCOUNT else account}"
        for account in spec.accounts
    }
    return {name: accounts.get(name, name) for name in spec.roles}


def with_access(
    policy: Mapping[str, Any], spec: BucketSpec, members: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the policy with access for all members; None if they have it."""
    found = dict(policy)
    for name, member in members.items():
        found = altered(found, member, spec.roles[name]) or found
    return None if found == policy else found


def access_of(policy: Mapping[str, Any], members: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the roles that each has."""
    return {name: sorted(roles_of(policy, member)) for name, member in members.items()}


def access_given(have: Mapping[str, Iterable[str]], spec: BucketSpec) -> dict[str, list[str]]:
    """Return the roles that each has afterwards: nothing is taken away."""
    return {name: sorted({*roles, *spec.roles[name]}) for name, roles in have.items()}


def lacking(
    policy: Mapping[str, Any], spec: BucketSpec, project_number: str
) -> dict[str, list[str]]:
    """Return the roles that the policy does not give, by the account that lacks them."""
    have = access_of(policy, members_of(spec, project_number))
    missing = {name: sorted({*spec.roles[name]} - {*roles}) for name, roles in have.items()}
    return {name: roles for name, roles in missing.items() if roles}


def _rules(bucket: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list((bucket.get("lifecycle") or {}).get("rule") or [])


def _uploads(bucket: Mapping[str, Any]) -> str:
    """Return when a rule for the whole bucket ends uploads; empty if none does."""
    ages = [
        int(rule["condition"]["age"])
        for rule in _rules(bucket)
        if (rule.get("action") or {}).get("type") == ABORT
        and set(rule.get("condition") or {}) == {"age"}
    ]
    return _days(min(ages)) if ages else ""


def _days(number: int) -> str:
    return f"deleted after {number} days"
