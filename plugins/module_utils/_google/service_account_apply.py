# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a service account and its rights, and change what differs, one call a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .._core.errors import AlreadyExists, NotFound
from .._core.ownership import owner_in, require_owned, with_owner, without_owner
from .._wire.changes import alter_newest
from .apis import GoogleApis
from .bucket_policy import once_known, read_policy, write_policy
from .change import Applier, Change
from .service_account_plan import DEFAULT_TEXT, AccountSpec, all_roles_of, altered, roles_of


class AccountApplier(Applier):
    """One account with its rights."""

    def __init__(self, apis: GoogleApis, spec: AccountSpec, adopt: bool, purge: bool) -> None:
        super().__init__(apis)
        self._spec = spec
        self._adopt = adopt
        self._purge = purge
        self._path = f"v1/projects/{spec.project}/serviceAccounts/{spec.email}"

    def plan_present(self) -> list[Change]:
        """Return the steps to the wanted account; raise for forbidden ones."""
        spec = self._spec
        account = self._owned_account()
        changes = []
        if account is None:
            self.after = self._described({})
            changes.append(Change("create", "there is no such account", self._create))
        else:
            self.after = self._described(account)
            names = [key for key in ("display_name", "description") if self._differs(key)]
            if names:
                why = f"{' and '.join(names)} differ"
                changes.append(Change("update", why, self._update))
        roles = all_roles_of(self._project_policy(), spec.member)
        surplus = sorted(roles - set(spec.roles))
        if surplus and not self._purge:
            listed = ", ".join(surplus)
            self.warnings.append(f"The account {spec.email} also has the roles {listed}.")
        changes += self._policy_changes(
            "the project",
            (self._project_policy, self._write_project_policy),
            spec.roles,
            surplus if self._purge else (),
        )
        self.before["roles"] = sorted(roles)
        self.after["roles"] = sorted({*spec.roles, *(() if self._purge else roles)})
        self._plan_buckets(changes, dict(spec.buckets))
        if account is None:
            self.before = {}
        return changes

    def plan_absent(self) -> list[Change]:
        """Return the steps that delete the account, its rights first to leave no dead entries."""
        spec = self._spec
        account = self._owned_account()
        if account is None:
            return []
        roles = all_roles_of(self._project_policy(), spec.member)
        self.before["roles"] = sorted(roles)
        changes = self._policy_changes(
            "the project", (self._project_policy, self._write_project_policy), (), roles
        )
        self._purge = True
        self._plan_buckets(changes, {name: () for name, _roles in spec.buckets})
        self.after = {}
        return [*changes, Change("delete", "it is not wanted any more", self._delete)]

    # The account itself -----------------------------------------------------------------------

    def _owned_account(self) -> dict[str, Any] | None:
        account = self._apis.find("iam", self._path)
        if account is not None:
            found = owner_in(str(account.get("description") or ""))
            what = f"service account {self._spec.email}"
            require_owned(what, found, self._spec.owner, self._adopt)
            self.before = self._summary(account)
            if account.get("disabled"):
                self.warnings.append(f"The account {self._spec.email} is disabled.")
        return account

    def _summary(self, account: dict[str, Any]) -> dict[str, Any]:
        return {
            "email": self._spec.email,
            "display_name": str(account.get("displayName") or ""),
            "description": str(account.get("description") or ""),
        }

    def _described(self, account: dict[str, Any]) -> dict[str, Any]:
        """Return the account with the wanted texts; undeclared ones stay."""
        spec, have = self._spec, self._summary(account)
        text = spec.description
        if text is None:
            text = without_owner(have["description"]) or DEFAULT_TEXT
        name = have["display_name"] if spec.display_name is None else spec.display_name
        owner = spec.owner or owner_in(have["description"])
        return {**have, "display_name": name, "description": with_owner(text, owner)}

    def _differs(self, key: str) -> bool:
        return bool(self.before.get(key) != self.after.get(key))

    def _texts(self) -> dict[str, str]:
        return {
            "displayName": self.after["display_name"],
            "description": self.after["description"],
        }

    def _create(self) -> None:
        spec = self._spec
        body = {"accountId": spec.account_id, "serviceAccount": self._texts()}
        try:
            self._apis.repeat("iam", "POST", f"v1/projects/{spec.project}/serviceAccounts", body)
        except AlreadyExists:
            # Created by this module, if the answer to its request was lost.
            account = self._apis.find("iam", self._path)
            if account is None or account.get("description") != self.after["description"]:
                raise

    def _update(self) -> None:
        body = {"serviceAccount": self._texts(), "updateMask": "displayName,description"}
        self._apis.repeat("iam", "PATCH", self._path, body)

    def _delete(self) -> None:
        try:
            self._apis.repeat("iam", "DELETE", self._path)
        except NotFound:
            return  # what was wanted is there

    # Its rights -------------------------------------------------------------------------------

    def _plan_buckets(self, changes: list[Change], wanted: dict[str, tuple[str, ...]]) -> None:
        before: dict[str, list[str]] = {}
        after: dict[str, list[str]] = {}
        for name, roles in wanted.items():
            have = all_roles_of(read_policy(self._apis, name), self._spec.member)
            before[name] = sorted(have)
            after[name] = sorted({*roles, *(() if self._purge else have)})
            changes += self._policy_changes(
                f"the bucket {name}",
                (
                    partial(read_policy, self._apis, name),
                    partial(write_policy, self._apis, name),
                ),
                roles,
                have - set(roles) if self._purge else (),
            )
        self.before["buckets"], self.after["buckets"] = before, after

    def _policy_changes(
        self,
        where: str,
        access: tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], dict[str, Any]]],
        grant: Iterable[str],
        revoke: Iterable[str],
    ) -> list[Change]:
        read, write = access
        member, wanted, surplus = self._spec.member, tuple(grant), tuple(revoke)
        policy = read()
        if altered(policy, member, wanted, surplus) is None:
            return []
        missing = sorted(set(wanted) - roles_of(policy, member))
        words = []
        if missing:
            words.append(f"it lacks {', '.join(missing)}")
        if surplus:
            words.append(f"it is not to have {', '.join(sorted(surplus))}")
        kind = "grant" if missing else "revoke"

        def apply() -> None:
            once_known(
                self._apis.clock,
                lambda: alter_newest(
                    self._apis.clock,
                    read,
                    lambda policy: altered(policy, member, wanted, surplus),
                    write,
                ),
            )

        return [Change(kind, f"in {where} {' and '.join(words)}", apply)]

    def _project_policy(self) -> dict[str, Any]:
        path = f"v1/projects/{self._spec.project}:getIamPolicy"
        body = {"options": {"requestedPolicyVersion": 3}}
        return self._apis.repeat("cloudresourcemanager", "POST", path, body)

    def _write_project_policy(self, policy: dict[str, Any]) -> dict[str, Any]:
        path = f"v1/projects/{self._spec.project}:setIamPolicy"
        transport = self._apis.transport("cloudresourcemanager")
        return transport.send("POST", path, body={"policy": {**policy, "version": 3}})
