"""The IAM API: the project's service accounts."""

from __future__ import annotations

import re
from typing import Any

from .. import errors
from ..errors import ApiError
from ..model.cloud import Cloud
from .answers import Call
from .operations import number
from .policies import forget_member

_ID = re.compile(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])")


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the accounts."""
    return call.page(list(cloud.around.accounts), "accounts", lambda item: _show(cloud, item))


def create(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create an account."""
    asked = call.json()
    account_id, wanted = str(asked.get("accountId", "")), asked.get("serviceAccount") or {}
    if not _ID.fullmatch(account_id):
        raise ApiError(
            "INVALID_ARGUMENT",
            f'"{account_id}" does not match the account ID format [a-z]([-a-z0-9]*[a-z0-9]), '
            "6-30 characters long.",
        )
    email = f"{account_id}@{cloud.project}.iam.gserviceaccount.com"
    if email in cloud.around.accounts:
        raise ApiError(
            "ALREADY_EXISTS",
            f"Service account {account_id} already exists within project projects/{cloud.project}.",
        )
    account = {
        "email": email,
        "uniqueId": number(),
        "displayName": str(wanted.get("displayName", "")),
        "description": str(wanted.get("description", "")),
        "disabled": False,
    }
    cloud.around.accounts.put(email, account)
    return _show(cloud, account)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one account."""
    return _show(cloud, _account(cloud, call))


def patch(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Change the display name and the description."""
    account, asked = _account(cloud, call), call.json()
    wanted = asked.get("serviceAccount", asked)
    mask = str(asked.get("updateMask") or "displayName,description")
    names = [re.sub(r"_([a-z])", lambda m: m[1].upper(), name) for name in mask.split(",")]
    for name in names:
        if name not in ("displayName", "description"):
            raise errors.invalid_mask()
    changes = {name: str(wanted.get(name, "")) for name in names}
    cloud.around.accounts.put(account["email"], {**account, **changes})
    return get(cloud, call)


def switch(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Disable an account, or enable it again."""
    account = _account(cloud, call)
    cloud.around.accounts.put(account["email"], {**account, "disabled": call["verb"] == "disable"})
    return {}


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete an account."""
    account = _account(cloud, call)
    cloud.around.accounts.drop(account["email"])
    forget_member(cloud, account["email"], account["uniqueId"])
    return {}


def _account(cloud: Cloud, call: Call) -> dict[str, Any]:
    for account in cloud.around.accounts:
        if call["id"] in (account["email"], account["uniqueId"]):
            return account
    # The service's message names no account.
    raise ApiError("NOT_FOUND", "Unknown service account")


def _show(cloud: Cloud, account: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "name": f"projects/{cloud.project}/serviceAccounts/{account['email']}",
        "projectId": cloud.project,
        "oauth2ClientId": account["uniqueId"],
        "etag": "MDEwMjE5MjA=",
        **account,
    }
    return {key: value for key, value in shown.items() if value}
