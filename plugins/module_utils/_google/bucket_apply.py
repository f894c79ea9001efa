# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a bucket, and make it what is wanted, one call a change.

Names of buckets are the same for all of Google. A bucket is the project's own if the project's list
has it; any other one is not touched.
"""

from __future__ import annotations

from typing import Any

from .._core.errors import NotFound, PermissionDenied, Refused, TpuError
from .._core.ownership import DEFAULT_OWNER, require_owned
from .._wire.changes import alter_newest, once
from .apis import GoogleApis
from .bucket_plan import (
    BucketSpec,
    access_given,
    access_of,
    changes,
    members_of,
    owner_of,
    remarks,
    summary,
    wanted_summary,
    with_access,
)
from .bucket_policy import alter_policy, read_policy
from .change import Applier, Change


class BucketApplier(Applier):
    """One bucket with the access of the slices' accounts."""

    def __init__(self, apis: GoogleApis, spec: BucketSpec, adopt: bool) -> None:
        super().__init__(apis)
        self._spec = spec
        self._adopt = adopt

    def plan_present(self) -> list[Change]:
        """Return the steps to the wanted bucket; raise for one that is not ours to change."""
        bucket = self._own_bucket()
        if bucket is None:
            return self._plan_new()
        self._check_location(bucket)
        self.warnings += remarks(bucket)
        self.before = {"name": self._spec.name, "location": bucket["location"], **summary(bucket)}
        return [*self._plan_settings(bucket), *self._plan_access(bucket)]

    def plan_used(self) -> list[Change]:
        """Return the steps to a bucket with access; one that is there keeps its settings.

        What this caller may not see, and what is not the project's, is a warning: others may have
        given the access. Raises Refused if there is no bucket, and no region for a new one.
        """
        try:
            bucket = self._own_bucket()
        except (PermissionDenied, Refused) as error:
            return self._unseen(error.message)
        if bucket is None:
            return self._plan_new() if self._spec.location else self._no_place()
        if owner_of(bucket) not in (None, self._spec.owner or DEFAULT_OWNER):
            return self._unseen(f"It is the bucket of the fleet {owner_of(bucket)}.")
        self.before = {"name": self._spec.name, "location": bucket["location"], **summary(bucket)}
        self.after = dict(self.before)
        try:
            return self._plan_access(bucket)
        except PermissionDenied as error:
            return self._unseen(error.message)

    def plan_absent(self) -> list[Change]:
        """Return the step that deletes an empty bucket; raise for one with contents."""
        bucket = self._own_bucket(elsewhere=False)
        if bucket is None:
            return []
        require_owned(*self._whose(bucket))
        self.before = {"name": self._spec.name, "location": bucket["location"], **summary(bucket)}
        self._check_empty()
        return [Change("delete", "it is empty and not wanted any more", lambda: self._drop(bucket))]

    # Finding it -------------------------------------------------------------------------------

    def _own_bucket(self, elsewhere: bool = True) -> dict[str, Any] | None:
        """Return the project's bucket of the name; raise if another project has the name."""
        found = self._in_project()
        if found is None and elsewhere and self._is_taken():
            raise self._taken()
        return found

    def _in_project(self) -> dict[str, Any] | None:
        query = {"project": self._apis.project, "prefix": self._spec.name}
        listed = self._apis.items("storage", "b", "items", query)
        return next((one for one in listed if one.get("name") == self._spec.name), None)

    def _is_taken(self) -> bool:
        try:
            return self._apis.find("storage", f"b/{self._spec.name}") is not None
        except PermissionDenied:
            # As the project's list does not have it, it is in another one.
            return True

    def _taken(self) -> TpuError:
        return Refused(
            f"name = {self._spec.name!r}: a bucket of another project has this name, and names of "
            "buckets are the same for all of Google.",
            remedy=f"Choose another name, such as {self._apis.project}-{self._spec.name}.",
        )

    def _whose(self, bucket: dict[str, Any]) -> tuple[str, str | None, str | None, bool]:
        return f"bucket {self._spec.name}", owner_of(bucket), self._spec.owner, self._adopt

    def _check_location(self, bucket: dict[str, Any]) -> None:
        here, wanted = str(bucket.get("location") or "").upper(), self._spec.location.upper()
        if wanted and here != wanted:
            raise Refused(
                f"location = {self._spec.location!r}: the bucket {self._spec.name} is in "
                f"{here.lower()}, and a bucket cannot move.",
                remedy=f"Choose another name for a bucket in {wanted.lower()}, or give "
                f"{here.lower()} as its region if traffic between the regions may cost money.",
            )

    def _no_place(self) -> list[Change]:
        raise Refused(
            f"name = {self._spec.name!r}: there is no such bucket, and its slices are in several "
            "regions or in none.",
            remedy="Declare it in fleet_checkpoint_buckets with its region.",
        )

    def _unseen(self, why: str) -> list[Change]:
        """Warn that access is left to others."""
        each = ", ".join(f"{name}: {' and '.join(r)}" for name, r in self._spec.roles.items())
        self.warnings.append(
            f"name = {self._spec.name!r}: who has access to the bucket was neither seen nor "
            f"changed. {why} It has to give these roles; its administrator can: {each}."
        )
        return []

    # Making it what is wanted -----------------------------------------------------------------

    def _plan_new(self) -> list[Change]:
        spec = self._spec
        nothing: dict[str, list[str]] = {name: [] for name in spec.roles}
        self.after = {
            "name": spec.name,
            "location": spec.location.upper(),
            **wanted_summary(spec, {}),
            "access": access_given(nothing, spec),
        }
        steps = [Change("create", "there is no such bucket", self._create)]
        if spec.roles:
            why = f"it has no access for {', '.join(spec.roles)}"
            steps.append(Change("grant", why, self._grant))
        return steps

    def _plan_settings(self, bucket: dict[str, Any]) -> list[Change]:
        want = {**self.before, **wanted_summary(self._spec, bucket)}
        differing = [key for key, value in self.before.items() if value != want[key]]
        if owner_of(bucket) is None and not self._adopt:
            self._leave(differing, want)
            return []
        require_owned(*self._whose(bucket))
        self.after = want
        if not differing:
            return []
        why = f"{', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'}"
        return [Change("update", why, self._update)]

    def _leave(self, differing: list[str], want: dict[str, Any]) -> None:
        """Warn of settings that stay because the bucket was made by others."""
        self.after = dict(self.before)
        others = [key for key in differing if key != "owner"]
        if others:
            shown = ", ".join(f"{key} is {self.before[key]}, not {want[key]}" for key in others)
            self.warnings.append(
                f"The bucket {self._spec.name} was not made by this collection, so its settings "
                f"stay: {shown}. With adopt: true they are corrected."
            )

    def _plan_access(self, bucket: dict[str, Any]) -> list[Change]:
        members = members_of(self._spec, str(bucket.get("projectNumber") or ""))
        policy = read_policy(self._apis, self._spec.name) if members else {}
        have = access_of(policy, members)
        self.before["access"], self.after["access"] = have, access_given(have, self._spec)
        without = [name for name in have if have[name] != self.after["access"][name]]
        why = f"it lacks access for {', '.join(without)}"
        return [Change("grant", why, self._grant)] if without else []

    def _create(self) -> None:
        body, project = self._spec.body(), {"project": self._apis.project}
        transport = self._apis.transport("storage")
        try:
            once(
                transport,
                lambda: transport.send("POST", "b", project, body),
                lambda _error: self._in_project(),
            )
        except TpuError as error:
            if error.http_status != 409:
                raise
            # Another caller made it meanwhile: for this project, or for another one.
            if self._in_project() is None:
                raise self._taken() from error

    def _update(self) -> None:
        path, transport = f"b/{self._spec.name}", self._apis.transport("storage")

        def write(wanted: dict[str, Any]) -> dict[str, Any]:
            return transport.send("PATCH", path, wanted["query"], wanted["body"])

        alter_newest(self._apis.clock, lambda: transport.read(path), self._patch, write)

    def _patch(self, bucket: dict[str, Any]) -> dict[str, Any] | None:
        """Return a request that holds for this state of the bucket; None if nothing is left."""
        body = changes(self._spec, bucket)
        query = {"ifMetagenerationMatch": bucket["metageneration"]}
        return {"query": query, "body": body} if body else None

    def _grant(self) -> None:
        bucket = self._apis.find("storage", f"b/{self._spec.name}") or {}
        members = members_of(self._spec, str(bucket.get("projectNumber") or ""))
        alter_policy(
            self._apis, self._spec.name, lambda policy: with_access(policy, self._spec, members)
        )

    # Deleting it ------------------------------------------------------------------------------

    def _check_empty(self) -> None:
        query = {"maxResults": 1, "versions": "true", "fields": "items/name"}
        page = self._apis.transport("storage").read(f"b/{self._spec.name}/o", query)
        if page.get("items"):
            raise self._full()

    def _full(self) -> TpuError:
        return Refused(
            f"name = {self._spec.name!r}: the bucket has contents, so it is not deleted.",
            remedy="Remove state: absent to keep it. To delete all that is in it: gcloud storage "
            f"rm --recursive --all-versions gs://{self._spec.name}/**",
        )

    def _drop(self, bucket: dict[str, Any]) -> None:
        query = {"ifMetagenerationMatch": bucket["metageneration"]}
        transport = self._apis.transport("storage")
        try:
            once(transport, lambda: transport.send("DELETE", f"b/{self._spec.name}", query))
        except NotFound:
            return  # what was wanted is there
        except TpuError as error:
            if error.http_status == 412:
                raise Refused(
                    f"The bucket {self._spec.name} was changed at the same moment.",
                    remedy="Run this again.",
                ) from error
            # Google refuses as well to delete a bucket with contents.
            if error.http_status == 409:
                raise self._full() from error
            raise
