"""What becomes of a project's policy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._google.service_account_plan import (
    altered,
    require_narrow,
)

ME, YOU = "serviceAccount:me@p.iam.gserviceaccount.com", "user:you@example.com"
SOON = {"title": "soon"}


@pytest.mark.parametrize(
    ("bindings", "grant", "revoke", "after"),
    [
        ([], ["r"], [], [{"role": "r", "members": [ME]}]),
        ([{"role": "r", "members": [ME]}], ["r"], ["s"], None),
        ([{"role": "r", "members": [YOU]}], ["r"], [], [{"role": "r", "members": [YOU, ME]}]),
        ([{"role": "r", "members": [ME, YOU]}], [], ["r"], [{"role": "r", "members": [YOU]}]),
        ([{"role": "r", "members": [ME]}], [], ["r"], []),
        ([{"role": "r", "members": [ME], "condition": SOON}], ["r"], [],
         [{"role": "r", "members": [ME], "condition": SOON}, {"role": "r", "members": [ME]}]),
        ([{"role": "r", "members": [ME], "condition": SOON}], [], ["r"], []),
    ],
)  # fmt: skip
def test_a_policy_is_altered_for_one_alone(
    bindings: list[Any], grant: list[str], revoke: list[str], after: list[Any] | None
) -> None:
    policy = {"etag": "e", "version": 3, "auditConfigs": ["kept"], "bindings": bindings}
    changed = altered(policy, ME, grant, revoke)
    assert changed == (None if after is None else {**policy, "bindings": after})


@pytest.mark.parametrize(
    "role",
    ["roles/owner", "roles/editor", "roles/viewer", "roles/storage.objectUser", "roles/tpu.admin",
     "roles/iam.serviceAccountTokenCreator", "roles/resourcemanager.projectIamAdmin", "owner",
     "roles/compute.instanceAdmin"],
)  # fmt: skip
def test_wide_roles_are_refused(role: str) -> None:
    with pytest.raises(_errors.BadRequest):
        require_narrow(role)


@pytest.mark.parametrize("role", ["roles/logging.logWriter", "projects/p/roles/myRole"])
def test_narrow_roles_are_taken(role: str) -> None:
    require_narrow(role)
