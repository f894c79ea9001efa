"""The control interface of the local GitHub: accounts with tokens, and repositories."""

from __future__ import annotations

from typing import Any

from ..model.cloud import Cloud
from .keys import token_id

CLASSIC = ["admin:public_key", "repo"]


def answer(cloud: Cloud, method: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Add the given accounts and repositories (POST), and return all of them, without tokens.

    accounts: token, login, and scopes (a classic token) or permissions (a fine-grained one);
    repositories: name, admins, readers. Both are lists, and new entries replace old ones.
    """
    around = cloud.around
    with cloud.lock:
        for entry in asked.get("accounts", []) if method == "POST" else []:
            key = token_id(entry["token"])
            number = (around.github_accounts.get(key) or {}).get("id")
            account = {
                "login": str(entry["login"]),
                "scopes": list(entry.get("scopes", CLASSIC)),
                "permissions": entry.get("permissions"),
                "id": number or 1 + len(list(around.github_accounts)),
            }
            around.github_accounts.put(key, account)
        for entry in asked.get("repositories", []) if method == "POST" else []:
            repository: dict[str, Any] = {
                "name": str(entry["name"]),
                "admins": list(entry.get("admins", [])),
                "readers": list(entry.get("readers", [])),
            }
            around.github_repositories.put(repository["name"].lower(), repository)
        return {
            "accounts": list(around.github_accounts),
            "repositories": list(around.github_repositories),
            "keys": list(around.github_keys),
        }
