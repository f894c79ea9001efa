"""OS Login: the accounts and keys of people on a project's machines."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from ..errors import ApiError
from ..model.cloud import Cloud
from .answers import Call


def profile(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return a person's account and keys."""
    person = call["id"]
    username = re.sub(r"[^a-z0-9]", "_", person.lower())[:32]
    number = str(int.from_bytes(hashlib.sha256(person.encode()).digest()[:3], "big") + 100_000)
    account = {
        "accountId": cloud.project,
        "gid": number,
        "homeDirectory": f"/home/{username}",
        "primary": True,
        "uid": number,
        "username": username,
    }
    shown: dict[str, Any] = {"name": person, "posixAccounts": [account]}
    keys = cloud.around.logins.get(person)
    if keys:
        shown["sshPublicKeys"] = keys
    return shown


def import_key(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Add a key for a person."""
    key = str(call.json().get("key", ""))
    try:
        blob = base64.b64decode(key.split()[1], validate=True)
    except (ValueError, IndexError):
        raise ApiError("INVALID_ARGUMENT", "The SSH public key is not valid.") from None
    fingerprint = hashlib.sha256(blob).hexdigest()
    keys = cloud.around.logins.get(call["id"]) or {}
    keys[fingerprint] = {"key": key, "fingerprint": fingerprint}
    cloud.around.logins.put(call["id"], keys)
    return {"loginProfile": profile(cloud, call)}
