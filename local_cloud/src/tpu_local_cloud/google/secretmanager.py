"""The Secret Manager API: secrets with their versions, and who may read them."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import google_crc32c

from .. import errors
from ..errors import ApiError
from ..model.cloud import Cloud
from .answers import Call
from .policies import granted, policy_of, put_policy

_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")
_READERS = ("roles/secretmanager.secretAccessor", "roles/secretmanager.admin", "roles/owner")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_STATES = {"enable": "ENABLED", "disable": "DISABLED", "destroy": "DESTROYED"}


def admit(cloud: Cloud, call: Call, email: str, scopes: list[str]) -> None:
    """Raise if a machine's service account may not read a secret."""
    if _SCOPE not in scopes:
        method = "google.cloud.secretmanager.v1.SecretManagerService.AccessSecretVersion"
        metadata = {"service": "secretmanager.googleapis.com", "method": method}
        raise ApiError(
            "PERMISSION_DENIED",
            "Request had insufficient authentication scopes.",
            [errors.error_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", metadata)],
        )
    member, secret = f"serviceAccount:{email}", f"secrets/{call['secret']}"
    allowed = granted(cloud, "project", member) | granted(cloud, secret, member)
    if not allowed & set(_READERS) or call["secret"] not in cloud.around.secrets:
        raise _denied(cloud, "versions.access", call)


def _denied(cloud: Cloud, verb: str, call: Call) -> ApiError:
    resource = f"projects/{call['project']}/secrets/{call['secret']}"
    if call["version"]:
        resource += f"/versions/{call['version']}"
    permission = f"secretmanager.{verb}"
    return ApiError(
        "PERMISSION_DENIED",
        f"Permission '{permission}' denied for resource '{resource}' (or it may not exist).",
        [
            {
                **errors.error_info(
                    "IAM_PERMISSION_DENIED", {"permission": permission, "resource": resource}
                ),
                "domain": "iam.googleapis.com",
            }
        ],
    )


def create(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a secret without a version."""
    name, wanted = call.query.get("secretId", ""), call.json()
    if not _ID.fullmatch(name):
        text = f"Resource ID [projects/{cloud.number}/secrets/{name}] is not in a valid format."
        raise ApiError("INVALID_ARGUMENT", text)
    if name in cloud.around.secrets:
        full = f"projects/{cloud.number}/secrets/{name}"
        raise ApiError("ALREADY_EXISTS", f"Secret [{full}] already exists.")
    secret: dict[str, Any] = {
        "id": name,
        "createTime": cloud.clock.timestamp(),
        "replication": wanted.get("replication") or {"automatic": {}},
        "labels": wanted.get("labels") or {},
        "versions": [],
    }
    cloud.around.secrets.put(name, secret)
    return _shown(cloud, secret)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return a secret."""
    return _shown(cloud, _secret(cloud, call))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the secrets."""
    return call.page(list(cloud.around.secrets), "secrets", lambda item: _shown(cloud, item))


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a secret with all its versions."""
    name = _secret(cloud, call)["id"]
    cloud.around.secrets.drop(name)
    cloud.around.policies.drop(f"secrets/{name}")
    return {}


def add_version(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Add a version, which becomes the latest."""
    secret, data = _secret(cloud, call), (call.json().get("payload") or {}).get("data", "")
    try:
        plain = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise errors.invalid_value("payload.data", "TYPE_BYTES", "") from None
    if not 0 < len(plain) <= 65536:
        raise ApiError("INVALID_ARGUMENT", "The payload is empty or larger than 65536 bytes.")
    version = {"data": data, "state": "ENABLED", "createTime": cloud.clock.timestamp()}
    changed = {**secret, "versions": [*secret["versions"], version]}
    cloud.around.secrets.put(secret["id"], changed)
    return _version_shown(cloud, changed, len(changed["versions"]))


def versions(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List a secret's versions, the newest first."""
    secret = _secret(cloud, call)
    numbers = list(range(len(secret["versions"]), 0, -1))
    return call.page(numbers, "versions", lambda number: _version_shown(cloud, secret, number))


def get_version(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return a version, without its payload."""
    secret = _secret(cloud, call)
    return _version_shown(cloud, secret, _number(cloud, secret, call))


def access(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the payload of a version."""
    secret = _secret(cloud, call)
    number = _number(cloud, secret, call)
    version = secret["versions"][number - 1]
    name = _version_shown(cloud, secret, number)["name"]
    if version["state"] != "ENABLED":
        text = f"Secret Version [{name}] is in {version['state']} state."
        raise ApiError("FAILED_PRECONDITION", text)
    # Clients check the payload by it.
    checksum = str(google_crc32c.value(base64.b64decode(version["data"])))
    return {"name": name, "payload": {"data": version["data"], "dataCrc32c": checksum}}


def switch(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Enable, disable or destroy a version."""
    secret = _secret(cloud, call)
    number = _number(cloud, secret, call)
    version = {**secret["versions"][number - 1], "state": _STATES[call["verb"]]}
    if call["verb"] == "destroy":
        version["data"] = ""
    changed = [*secret["versions"]]
    changed[number - 1] = version
    secret = {**secret, "versions": changed}
    cloud.around.secrets.put(secret["id"], secret)
    return _version_shown(cloud, secret, number)


def get_policy(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the policy of a secret."""
    return policy_of(cloud, f"secrets/{_secret(cloud, call)['id']}")


def set_policy(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Set the policy of a secret."""
    return put_policy(
        cloud, f"secrets/{_secret(cloud, call)['id']}", call.json().get("policy") or {}
    )


def _secret(cloud: Cloud, call: Call) -> dict[str, Any]:
    found = cloud.around.secrets.get(call["secret"])
    if found is None:
        full = f"projects/{cloud.number}/secrets/{call['secret']}"
        raise ApiError("NOT_FOUND", f"Secret [{full}] not found.")
    return found


def _number(cloud: Cloud, secret: dict[str, Any], call: Call) -> int:
    last = len(secret["versions"])
    word = call["version"]
    number = last if word == "latest" else int(word) if word.isdigit() else 0
    if not 1 <= number <= last:
        full = f"projects/{cloud.number}/secrets/{secret['id']}"
        text = f"Secret Version [{full}/versions/{word}] not found or has no versions."
        if word != "latest":
            text = f"Secret Version [{full}/versions/{word}] not found."
        raise ApiError("NOT_FOUND", text)
    return number


def _shown(cloud: Cloud, secret: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "name": f"projects/{cloud.number}/secrets/{secret['id']}",
        "replication": secret["replication"],
        "createTime": secret["createTime"],
    }
    return {**shown, "labels": secret["labels"]} if secret["labels"] else shown


def _version_shown(cloud: Cloud, secret: dict[str, Any], number: int) -> dict[str, Any]:
    version = secret["versions"][number - 1]
    return {
        "name": f"projects/{cloud.number}/secrets/{secret['id']}/versions/{number}",
        "createTime": version["createTime"],
        "state": version["state"],
        "replicationStatus": {"automatic": {}},
    }
