"""Access to buckets and objects: roles and permissions as Google has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..compute_errors import ComputeError
from ..google.policies import PROJECT, granted
from ..model.cloud import Cloud
from ..model.storage.buckets import no_access

_AUTH = "https://www.googleapis.com/auth/"
_FULL = {f"{_AUTH}{name}" for name in ("cloud-platform", "devstorage.full_control")}
_WRITE = _FULL | {f"{_AUTH}devstorage.read_write"}
_READ = _WRITE | {f"{_AUTH}{name}" for name in ("cloud-platform.read-only", "devstorage.read_only")}
_READING = ("get", "list")
_OWNING = ("getIamPolicy", "setIamPolicy", "create", "update", "delete")


def _words(text: str) -> frozenset[str]:
    return frozenset(f"storage.{word}" for word in text.split())


_MULTIPART = "multipartUploads.abort multipartUploads.create multipartUploads.listParts"
_VIEW = "objects.get objects.list"
_USE = (
    f"{_VIEW} objects.create objects.delete objects.move objects.restore objects.update "
    f"{_MULTIPART} multipartUploads.list"
)
_ALL_BUCKETS = (
    "buckets.create buckets.delete buckets.get buckets.getIamPolicy buckets.list "
    "buckets.setIamPolicy buckets.update"
)
_POLICIES = "objects.getIamPolicy objects.setIamPolicy"
_BASIC = "buckets.create buckets.delete buckets.list"
_WRITER = (
    f"buckets.get objects.create objects.delete objects.list objects.restore {_MULTIPART} "
    "multipartUploads.list"
)
ROLES = {
    "roles/storage.objectViewer": _words(_VIEW),
    "roles/storage.objectCreator": _words(f"objects.create {_MULTIPART}"),
    "roles/storage.objectUser": _words(_USE),
    "roles/storage.objectAdmin": _words(f"{_USE} {_POLICIES}"),
    "roles/storage.bucketViewer": _words("buckets.get buckets.list"),
    "roles/storage.admin": _words(f"{_USE} {_POLICIES} {_ALL_BUCKETS}"),
    "roles/storage.legacyBucketReader": _words("buckets.get objects.list multipartUploads.list"),
    "roles/storage.legacyBucketWriter": _words(_WRITER),
    "roles/storage.legacyBucketOwner": _words(
        f"{_WRITER} buckets.getIamPolicy buckets.setIamPolicy buckets.update"
    ),
    "roles/storage.legacyObjectReader": _words("objects.get"),
    "roles/storage.legacyObjectOwner": _words(f"objects.get objects.update {_POLICIES}"),
    # Their holders reach objects through the members projectViewer:, … of a bucket's policy.
    "roles/viewer": _words("buckets.list"),
    "roles/editor": _words(_BASIC),
    "roles/owner": _words(_BASIC),
}
# The members of a bucket's policy that stand for holders of a role in the project.
_CONVENIENCES = {
    "roles/viewer": "projectViewer",
    "roles/editor": "projectEditor",
    "roles/owner": "projectOwner",
}
Kind = Literal["owner", "account", "anyone", "unknown"]


@dataclass(frozen=True)
class Caller:
    """The sender of a request: the owner of the cloud, a service account, or one without a token.

    unknown: the token is none, or has expired.
    """

    kind: Kind
    email: str = ""
    scopes: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Return how errors name the caller."""
        return self.email or "Anonymous caller"


OWNER = Caller("owner")
ANYONE = Caller("anyone")
UNKNOWN = Caller("unknown")


def permissions(cloud: Cloud, caller: Caller, bucket: str) -> frozenset[str]:
    """Return what a caller may do with a bucket; empty: with those of the project."""
    with cloud.lock:
        project = _granted(cloud, PROJECT, _members(caller))
        members = _members(caller)
        members |= {
            f"{word}:{cloud.project}" for role, word in _CONVENIENCES.items() if role in project
        }
        roles = project | (_granted(cloud, f"buckets/{bucket}", members) if bucket else set())
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))


def require(cloud: Cloud, caller: Caller, bucket: str, permission: str) -> None:
    """Raise if a caller has not a permission."""
    if caller.kind == "owner":
        return
    if caller.kind == "unknown":
        raise ComputeError(401, "authError", "Invalid Credentials", "UNAUTHENTICATED")
    if caller.kind == "account":
        _require_scope(caller, permission)
    if permission not in permissions(cloud, caller, bucket):
        refused = no_access(permission, caller.shown)
        if caller.kind == "anyone":
            raise ComputeError(401, "required", refused.message, "UNAUTHENTICATED")
        raise refused


def _require_scope(caller: Caller, permission: str) -> None:
    kind, verb = permission.split(".")[1:]
    needed = _READ if verb in _READING else _WRITE
    if kind == "buckets" and verb in _OWNING:
        needed = _FULL
    if not needed & set(caller.scopes):
        text = "Request had insufficient authentication scopes."
        raise ComputeError(403, "insufficientPermissions", text, "PERMISSION_DENIED")


def _members(caller: Caller) -> set[str]:
    if caller.kind != "account":
        return {"allUsers"}
    return {"allUsers", "allAuthenticatedUsers", f"serviceAccount:{caller.email}"}


def _granted(cloud: Cloud, of: str, members: set[str]) -> set[str]:
    return set().union(*(granted(cloud, of, member) for member in members))
