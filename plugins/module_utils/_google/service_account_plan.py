# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which rights a service account gets: only what a training machine needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest
from .._core.ownership import check_owner
from .._schema.values import BUCKET_NAME

DEFAULT_ID = "tpu-fleet"
DEFAULT_TEXT = "TPU VMs of the fleet"
LEAST_ROLES = ("roles/logging.logWriter", "roles/monitoring.metricWriter")
# Roles to read or write a bucket; none of them can change its policy. The roles for objects do not
# contain storage.buckets.get, which Orbax needs to list steps.
BUCKET_ROLES = {
    "read": ("roles/storage.objectViewer", "roles/storage.legacyBucketReader"),
    "write": ("roles/storage.objectUser", "roles/storage.legacyBucketReader"),
}
_ID = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]")
_ROLE = re.compile(r"(roles|(projects|organizations)/[^/]+/roles)/[\w.]+")


@dataclass(frozen=True)
class AccountSpec:
    """A wanted service account."""

    account_id: str
    project: str
    display_name: str | None = None
    description: str | None = None
    roles: tuple[str, ...] = LEAST_ROLES
    buckets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    owner: str | None = None

    def check(self) -> None:
        """Raise for rights that no training machine should have, before any request."""
        if not _ID.fullmatch(self.account_id):
            raise BadRequest(
                f"{self.account_id!r} is no id for a service account.",
                remedy="Use 6 to 30 lower case letters, digits and dashes, a letter first; without "
                "@ and what follows.",
            )
        check_owner(self.owner)
        for role in self.roles:
            require_narrow(role)
        names = [name for name, _roles in self.buckets]
        for name in names:
            if not BUCKET_NAME.fullmatch(name):
                raise BadRequest(
                    f"{name!r} is no name for a bucket.", remedy="Write it without gs://."
                )
            if names.count(name) > 1:
                raise BadRequest(f"The bucket {name} is named twice.", remedy="Name it once.")

    @property
    def email(self) -> str:
        """Return the address of the account."""
        return f"{self.account_id}@{self.project}.iam.gserviceaccount.com"

    @property
    def member(self) -> str:
        """Return the account as policies name it."""
        return f"serviceAccount:{self.email}"


def require_narrow(role: str) -> None:
    """Raise if a role grants more than a training machine should have."""
    if not _ROLE.fullmatch(role):
        raise BadRequest(f"{role!r} is not a role.", remedy="Write it as roles/logging.logWriter.")
    name = role.rpartition("/")[2]
    if role in ("roles/owner", "roles/editor", "roles/viewer"):
        raise BadRequest(
            f"The role {role} reaches everything in the project.",
            remedy="Name the roles that the programs need.",
        )
    if name.startswith("storage."):
        raise BadRequest(
            f"The role {role} would hold for every bucket of the project.",
            remedy="Name the buckets in the option buckets instead.",
        )
    if name.startswith(("iam.", "resourcemanager.")) or name.lower().endswith("admin"):
        raise BadRequest(
            f"The role {role} lets its holder change the rights or resources of others.",
            remedy="Give a narrower one, or give it by hand to another account.",
        )


def roles_of(policy: Mapping[str, Any], member: str) -> set[str]:
    """Return the roles that a member has without conditions."""
    return {
        str(binding.get("role"))
        for binding in policy.get("bindings") or []
        if member in (binding.get("members") or []) and not binding.get("condition")
    }


def all_roles_of(policy: Mapping[str, Any], member: str) -> set[str]:
    """Return the roles that a member has, with conditions or without."""
    return {
        str(binding.get("role"))
        for binding in policy.get("bindings") or []
        if member in (binding.get("members") or [])
    }


def altered(
    policy: Mapping[str, Any], member: str, grant: Iterable[str], revoke: Iterable[str] = ()
) -> dict[str, Any] | None:
    """Return the policy with roles added and removed, others unchanged; None if nothing changes.

    A role that is taken goes with and without conditions.
    """
    missing = set(grant) - roles_of(policy, member)
    surplus = all_roles_of(policy, member) & set(revoke)
    if not missing and not surplus:
        return None
    bindings = []
    for binding in policy.get("bindings") or []:
        role, members = str(binding.get("role")), list(binding.get("members") or [])
        if role in surplus:
            members = [name for name in members if name != member]
        if role in missing and not binding.get("condition"):
            members.append(member)
            missing.discard(role)
        if members:
            bindings.append({**binding, "members": members})
    bindings += [{"role": role, "members": [member]} for role in sorted(missing)]
    return {**policy, "bindings": bindings}
