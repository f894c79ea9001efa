"""The keys of users and repositories over HTTP, below /api/v3 as GitHub Enterprise has them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import payload
from ..errors import ApiError
from ..model.cloud import Cloud
from ..model.shared.faults import Fault
from . import answers
from .answers import Answer, Refusal

BASE = "/api/v3"
# Scopes that a classic token needs; admin includes write, and write includes read.
LEVELS = ("read", "write", "admin")
NEEDS = {"GET": "read", "POST": "write", "DELETE": "admin"}
KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384")
PAGE = 30
LARGEST_PAGE = 100
_USER = re.compile(r"/user/keys(?:/(?P<id>[^/]+))?")
_DEPLOY = re.compile(r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/keys(?:/(?P<id>[^/]+))?")
_PAGES = {
    "user": {
        "GET": "/users/keys#list-public-ssh-keys-for-the-authenticated-user",
        "POST": "/users/keys#create-a-public-ssh-key-for-the-authenticated-user",
        "DELETE": "/users/keys#delete-a-public-ssh-key-for-the-authenticated-user",
    },
    "deploy": {
        "GET": "/deploy-keys/deploy-keys#list-deploy-keys",
        "POST": "/deploy-keys/deploy-keys#create-a-deploy-key",
        "DELETE": "/deploy-keys/deploy-keys#delete-a-deploy-key",
    },
}


@dataclass(frozen=True)
class Place:
    """The user or repository whose keys a request concerns."""

    kind: str
    of: str
    """Login of the user, or full name of the repository."""
    page: str
    url: str


def answer(
    cloud: Cloud,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
) -> Answer | None:
    """Answer a request, or return None if it is not for GitHub."""
    if not path.startswith(BASE + "/"):
        return None
    cloud.requests[f"github.{method.lower()}"] += 1
    try:
        with cloud.lock:
            return _answer(cloud, method, path.removeprefix(BASE), query, headers, body)
    except Refusal as refusal:
        return refusal.answer()


def _answer(
    cloud: Cloud,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
) -> Answer:
    match = _USER.fullmatch(path) or _DEPLOY.fullmatch(path)
    kind = "deploy" if match and "owner" in match.re.groupindex else "user"
    if not match or method not in NEEDS or (method == "POST" and match["id"]):
        raise answers.not_found("")
    page = _PAGES[kind][method]
    account = _account(cloud, headers, page)
    now = cloud.clock.now()
    if cloud.faults.hit("rate_limit", now, _for_us, service="github"):
        raise answers.rate_limited(account["id"], int(now) + 3600)
    if cloud.faults.hit("unavailable", now, _for_us, service="github"):
        return Answer(503, {"message": "Service unavailable"})
    _permit(account, kind, method, page)
    place = _place(cloud, kind, match.groupdict(), account, page, headers)
    if method == "POST":
        return _create(cloud, place, account, body)
    if match["id"]:
        return _one(cloud, place, method, match["id"])
    return _listed(cloud, place, query)


def _account(cloud: Cloud, headers: Mapping[str, str], page: str) -> dict[str, Any]:
    word, _, token = headers.get("Authorization", "").partition(" ")
    if word.lower() not in ("bearer", "token") or not token.strip():
        raise answers.requires_authentication(page)
    account = cloud.around.github_accounts.get(token_id(token.strip()))
    if account is None:
        raise answers.bad_credentials()
    return account


def _for_us(fault: Fault) -> bool:
    """Return whether a fault names GitHub; one that names nothing is for the TPU API."""
    return fault.match.get("service") == "github"


def token_id(token: str) -> str:
    """Return the hash of a token, which is stored instead of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def _permit(account: dict[str, Any], kind: str, method: str, page: str) -> None:
    """Refuse a token without the right: a classic one by scopes, others by permissions."""
    if account.get("permissions") is not None:
        wanted = "git_ssh_keys" if kind == "user" else "administration"
        given = account["permissions"].get(wanted)
        if given != "write" and not (given == "read" and method == "GET"):
            raise answers.not_accessible(page)
        return
    scopes = account["scopes"]
    if kind == "deploy":
        if "repo" not in scopes:
            raise answers.not_found(page)
        return
    enough = LEVELS[LEVELS.index(NEEDS[method]) :]
    if not any(f"{level}:public_key" in scopes for level in enough):
        raise answers.not_found(page)


def _place(
    cloud: Cloud,
    kind: str,
    named: Mapping[str, str | None],
    account: dict[str, Any],
    page: str,
    headers: Mapping[str, str],
) -> Place:
    base = f"http://{headers.get('Host', 'localhost')}{BASE}"
    if kind == "user":
        return Place("user", account["login"], page, f"{base}/user/keys")
    # GitHub ignores case in names.
    full = f"{named['owner']}/{named['repo']}".lower()
    repository = cloud.around.github_repositories.get(full)
    if repository is None or account["login"] not in repository["admins"]:
        raise answers.not_found(page)
    return Place("deploy", repository["name"], page, f"{base}/repos/{repository['name']}/keys")


def _keys(cloud: Cloud, place: Place) -> list[dict[str, Any]]:
    return [
        document
        for document in cloud.around.github_keys
        if document["kind"] == place.kind and document["of"] == place.of
    ]


def _create(cloud: Cloud, place: Place, account: dict[str, Any], body: bytes) -> Answer:
    try:
        asked = payload.read(body or b"{}")
    except ApiError:
        raise answers.problems_parsing() from None
    if not isinstance(asked, dict):
        raise answers.problems_parsing()
    if not asked.get("key"):
        raise answers.invalid(place.page, "key", "missing_field")
    key = _clean(str(asked["key"]))
    if key is None:
        text = "key is invalid. You must supply a key in OpenSSH public key format"
        raise answers.invalid(place.page, "key", "custom", text)
    # In all of GitHub, a key belongs to one account or one repository.
    if any(document["key"] == key for document in cloud.around.github_keys):
        raise answers.invalid(place.page, "key", "custom", "key is already in use")
    number = 1 + max((document["id"] for document in cloud.around.github_keys), default=100)
    document = {
        "kind": place.kind,
        "of": place.of,
        "id": number,
        "key": key,
        "title": str(asked.get("title") or key.split()[1][:20]),
        "created_at": cloud.clock.timestamp()[:19] + "Z",
        "read_only": bool(asked.get("read_only", False)),
        "added_by": account["login"],
    }
    cloud.around.github_keys.put(f"{number:08}", document)
    return Answer(201, _shown(place, document), {"Location": f"{place.url}/{number}"})


def _clean(text: str) -> str | None:
    """Return type and key without the comment; None if it is not a public key."""
    words = text.split()
    if len(words) < 2 or words[0] not in KINDS:
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = words[0].encode()
    begins = len(kind).to_bytes(4, "big") + kind
    return " ".join(words[:2]) if blob.startswith(begins) and len(blob) > len(begins) else None


def _one(cloud: Cloud, place: Place, method: str, number: str) -> Answer:
    for document in _keys(cloud, place):
        if str(document["id"]) == number:
            if method == "GET":
                return Answer(200, _shown(place, document))
            cloud.around.github_keys.drop(f"{document['id']:08}")
            return Answer(204)
    raise answers.not_found(place.page)


def _listed(cloud: Cloud, place: Place, query: Mapping[str, str]) -> Answer:
    size = min(_number(query.get("per_page")) or PAGE, LARGEST_PAGE)
    page = _number(query.get("page")) or 1
    items = _keys(cloud, place)
    last = max(1, -(-len(items) // size))
    shown = [_shown(place, item) for item in items[(page - 1) * size : page * size]]
    links = []
    if page > 1:
        links += [_link(place, size, page - 1, "prev"), _link(place, size, 1, "first")]
    if page < last:
        links += [_link(place, size, page + 1, "next"), _link(place, size, last, "last")]
    return Answer(200, shown, {"Link": ", ".join(links)} if links else {})


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _link(place: Place, size: int, page: int, name: str) -> str:
    return f'<{place.url}?per_page={size}&page={page}>; rel="{name}"'


def _shown(place: Place, document: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "id": document["id"],
        "key": document["key"],
        "url": f"{place.url}/{document['id']}",
        "title": document["title"],
        "verified": True,
        "created_at": document["created_at"],
        "read_only": document["read_only"],
    }
    if place.kind == "deploy":
        shown |= {"added_by": document["added_by"], "last_used": None, "enabled": True}
    return shown
