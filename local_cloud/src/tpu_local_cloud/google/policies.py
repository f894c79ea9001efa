"""IAM policies of the project and its buckets, read and written as a whole, guarded by an etag."""

from __future__ import annotations

import re
from typing import Any

from ..compute_errors import ComputeError, concurrent_policy
from ..errors import ApiError
from ..model.cloud import Cloud
from .answers import Call, fingerprint

PROJECT = "project"
BUCKETS = "buckets/"
_MEMBER = re.compile(
    r"(user|group|serviceAccount):[^\s:@]+@[^\s:@]+|domain:\S+|allUsers|allAuthenticatedUsers|"
    r"deleted:serviceAccount:\S+|project(Owner|Editor|Viewer):\S+|principal(Set)?://\S+"
)


def get_project(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the policy of the project."""
    options = call.json().get("options") or {}
    return _shown(_project(cloud), int(options.get("requestedPolicyVersion") or 1))


def set_project(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the policy of the project."""
    wanted = call.json().get("policy") or {}
    if wanted.get("etag", _project(cloud)["etag"]) != _project(cloud)["etag"]:
        raise concurrent_policy()
    return _put(cloud, PROJECT, wanted)


def get_bucket(cloud: Cloud, name: str, version: int) -> dict[str, Any]:
    """Return the policy of a bucket."""
    return _shown(_bucket(cloud, name), version)


def set_bucket(cloud: Cloud, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Replace the policy of a bucket."""
    etag = _bucket(cloud, name)["etag"]
    if wanted.get("etag", etag) != etag:
        text = "At least one of the pre-conditions you specified did not hold."
        raise ComputeError(412, "conditionNotMet", text, "FAILED_PRECONDITION")
    return _put(cloud, f"{BUCKETS}{name}", wanted)


def policy_of(cloud: Cloud, of: str) -> dict[str, Any]:
    """Return the policy of a resource whose initial policy is empty."""
    found = cloud.around.policies.get(of)
    return _shown(found if found is not None else _written(cloud, of, 1, []), 3)


def put_policy(cloud: Cloud, of: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Replace such a policy."""
    etag = policy_of(cloud, of)["etag"]
    if wanted.get("etag", etag) != etag:
        raise concurrent_policy()
    return _put(cloud, of, wanted)


def granted(cloud: Cloud, of: str, member: str) -> set[str]:
    """Return the roles that a policy grants a member without conditions."""
    found = _project(cloud) if of == PROJECT else cloud.around.policies.get(of)
    if of.startswith(BUCKETS):
        found = _bucket(cloud, of.removeprefix(BUCKETS))
    bindings = found["bindings"] if found else []
    return {b["role"] for b in bindings if member in b["members"] and "condition" not in b}


def forget_member(cloud: Cloud, email: str, uid: str) -> None:
    """Mark a deleted account's bindings, which stay."""
    old, new = f"serviceAccount:{email}", f"deleted:serviceAccount:{email}?uid={uid}"
    for policy in list(cloud.around.policies):
        bindings = [
            {**item, "members": [new if name == old else name for name in item["members"]]}
            for item in policy["bindings"]
        ]
        if bindings != policy["bindings"]:
            _put(cloud, policy["of"], {**policy, "bindings": bindings}, check=False)


def _project(cloud: Cloud) -> dict[str, Any]:
    found = cloud.around.policies.get(PROJECT)
    if found is None:
        agent = f"serviceAccount:{cloud.number}-compute@developer.gserviceaccount.com"
        bindings = [
            {"role": "roles/editor", "members": [agent]},
            {"role": "roles/owner", "members": ["user:you@example.com"]},
        ]
        found = _written(cloud, PROJECT, 1, bindings)
    return found


def _bucket(cloud: Cloud, name: str) -> dict[str, Any]:
    found = cloud.around.policies.get(f"{BUCKETS}{name}")
    if found is None:
        owners = [f"projectEditor:{cloud.project}", f"projectOwner:{cloud.project}"]
        viewers = [f"projectViewer:{cloud.project}"]
        bindings = [
            {"role": f"roles/storage.legacy{kind}", "members": members}
            for kind, members in (
                ("BucketOwner", owners),
                ("BucketReader", viewers),
                ("ObjectOwner", owners),
                ("ObjectReader", viewers),
            )
        ]
        found = _written(cloud, f"{BUCKETS}{name}", 1, bindings)
    return found


def _shown(policy: dict[str, Any], version: int) -> dict[str, Any]:
    bindings = policy["bindings"]
    has_conditions = any("condition" in item for item in bindings)
    if has_conditions and version < 3:
        # As at Google: a client that ignores conditions must not see an unconditional binding.
        bindings = [
            {
                "role": f"{item['role']}_withcond_{fingerprint(item['condition'])[:8]}"
                if "condition" in item
                else item["role"],
                "members": item["members"],
            }
            for item in bindings
        ]
        return {"version": 1, "etag": policy["etag"], "bindings": bindings}
    shown = {"version": policy["version"], "etag": policy["etag"]}
    return {**shown, "bindings": bindings} if bindings else shown


def _put(cloud: Cloud, of: str, wanted: dict[str, Any], check: bool = True) -> dict[str, Any]:
    bindings = [item for item in wanted.get("bindings") or [] if item.get("members")]
    version = int(wanted.get("version") or 1)
    if check:
        for binding in bindings:
            _check(cloud, binding, version)
    return _shown(_written(cloud, of, version, bindings), 3)


def _check(cloud: Cloud, binding: dict[str, Any], version: int) -> None:
    if not re.fullmatch(r"(roles|projects/[^/]+/roles)/[\w.]+", str(binding.get("role"))):
        text = f"Role {binding.get('role')} is not supported for this resource."
        raise ApiError("INVALID_ARGUMENT", text)
    if "condition" in binding and version < 3:
        raise ApiError("INVALID_ARGUMENT", "Policy version must be 3 for conditional bindings.")
    own = f"@{cloud.project}.iam.gserviceaccount.com"
    for member in binding["members"]:
        kind, _, email = str(member).partition(":")
        if not _MEMBER.fullmatch(str(member)):
            raise ApiError("INVALID_ARGUMENT", f"Invalid argument: '{member}' is no member.")
        if kind == "serviceAccount" and email.endswith(own) and email not in cloud.around.accounts:
            raise ApiError("INVALID_ARGUMENT", f"Service account {email} does not exist.")


def _written(cloud: Cloud, of: str, version: int, bindings: list[Any]) -> dict[str, Any]:
    before = cloud.around.policies.get(of) or {"revision": 0}
    revision = before["revision"] + 1
    policy = {
        "of": of,
        "revision": revision,
        "version": version,
        "etag": fingerprint([of, revision, bindings]),
        "bindings": bindings,
    }
    cloud.around.policies.put(of, policy)
    return policy
