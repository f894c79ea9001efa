"""The objects of the JSON API but for their uploads."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

from ..compute_errors import ComputeError
from ..model.storage import composing, globs, listing
from ..model.storage.conditions import of_query
from ..model.storage.documents import OF_OBJECT, not_here
from ..model.storage.index import Document, Row, State
from .call import Answer, Call, Reply
from .media import download


def shown(call: Call, document: Document) -> dict[str, Any]:
    """Return an object as the JSON API shows it."""
    root, name = call.request.root, quote(document["name"], safe="")
    path = f"storage/v1/b/{document['bucket']}/o/{name}"
    media = f"{root}/download/{path}?generation={document['generation']}&alt=media"
    return {**document, "selfLink": f"{root}/{path}", "mediaLink": media}


def get(call: Call) -> Answer:
    """Return an object's metadata, or with alt=media its content."""
    bucket, name, generation = call["bucket"], call["object"], call.query.get("generation", "")
    if call.query.get("alt") == "media" or call.request.path.startswith("/download/"):
        opened = call.cloud.buckets.open(bucket, name, generation, call.conditions)
        return download(call.request, *opened)
    found = call.cloud.buckets.find(bucket, name, generation, call.flag("softDeleted"))
    call.conditions.check(found.document, reading=True)
    return shown(call, found.document)


def listed(call: Call) -> Answer:
    """List objects by prefix, folders, offsets and patterns."""
    states: tuple[State, ...] = ("live",)
    if call.flag("softDeleted"):
        states = ("soft",)
    elif call.flag("versions"):
        states = ("live", "old")
    page = call.cloud.buckets.listed(call["bucket"], states, question(call))
    items = [shown(call, each) for each in page.items]
    parts = {"items": items, "prefixes": page.folders, "nextPageToken": page.token}
    return {"kind": "storage#objects", **{key: value for key, value in parts.items() if value}}


def question(call: Call) -> listing.Question:
    """Return what a list asks for."""
    query = call.query
    return listing.Question(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start=query.get("startOffset", ""),
        end=query.get("endOffset", ""),
        glob=globs.pattern(query["matchGlob"]) if query.get("matchGlob") else None,
        trailing=call.flag("includeTrailingDelimiter"),
        size=page_size(query.get("maxResults", "")),
        token=query.get("pageToken", ""),
    )


def page_size(given: str) -> int:
    """Return how many items a page has."""
    if given and (not given.isdecimal() or int(given) < 1):
        text = f"Invalid value for maxResults: '{given}'. Send a number from 1 to {listing.MOST}."
        raise ComputeError(400, "invalid", text)
    return min(int(given or listing.MOST), listing.MOST)


def delete(call: Call) -> Answer:
    """Delete an object."""
    generation = call.query.get("generation", "")
    call.cloud.buckets.delete(call["bucket"], call["object"], generation, call.conditions)
    return Reply(204)


def patch(call: Call) -> Answer:
    """Change the metadata that the body names."""
    return _updated(call, replace=False)


def update(call: Call) -> Answer:
    """Replace the metadata."""
    return _updated(call, replace=True)


def _updated(call: Call, replace: bool) -> Answer:
    where = (call["bucket"], call["object"], call.query.get("generation", ""))
    wanted = call.json()
    return shown(call, call.cloud.buckets.update(*where, wanted, call.conditions, replace))


def compose(call: Call) -> Answer:
    """Make an object of others."""
    call.require("storage.objects.get")
    wanted = call.json()
    sources, about = wanted.get("sourceObjects") or [], wanted.get("destination") or {}
    if wanted.get("deleteSourceObjects"):
        raise not_here("deleteSourceObjects of compositions")
    where = (call.cloud.buckets, call["bucket"], call["object"])
    made = composing.compose(*where, sources, about, call.conditions, call.may_replace)
    return shown(call, made)


def restore(call: Call) -> Answer:
    """Make a softly deleted generation live again."""
    generation = call.query.get("generation", "")
    if not generation:
        raise ComputeError(400, "required", "Required parameter: generation")
    source = call.cloud.buckets.find(call["bucket"], call["object"], generation, soft=True)
    return _copied(call, source, {}, call["object"])


def copy(call: Call) -> Answer:
    """Copy an object at once."""
    return _copied(call, _source(call), call.json(), call["target"], call["into"])


def move(call: Call) -> Answer:
    """Rename an object within its bucket, at one moment."""
    return _copied(call, _source(call), {}, call["target"], move=True)


def rewrite(call: Call) -> Answer:
    """Copy an object, in as many calls as the client asks for by the bytes of one."""
    source, about = _source(call), call.json()
    size = int(source.document["size"])
    done = _rewritten(call, source, size)
    answer: dict[str, Any] = {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": str(done),
        "objectSize": str(size),
        "done": done == size,
    }
    if done < size:
        return {**answer, "rewriteToken": _token([source.generation, done])}
    return {**answer, "resource": _copied(call, source, about, call["target"], call["into"])}


def _rewritten(call: Call, source: Row, size: int) -> int:
    """Return how many bytes are copied after this call."""
    most, token = call.query.get("maxBytesRewrittenPerCall", ""), call.query.get("rewriteToken")
    done = 0
    if token:
        generation, done = _of_token(token)
        if generation != source.generation:
            raise _no_token(token)
    if not most:
        return size
    if not most.isdecimal() or int(most) < 1 << 20:
        text = f"Invalid value for maxBytesRewrittenPerCall: '{most}'. The least is {1 << 20}."
        raise ComputeError(400, "invalid", text)
    return min(size, done + int(most))


def _token(value: list[int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def _of_token(token: str) -> tuple[int, int]:
    try:
        generation, done = json.loads(base64.urlsafe_b64decode(token))
        return int(generation), int(done)
    except (ValueError, TypeError):
        raise _no_token(token) from None


def _no_token(token: str) -> ComputeError:
    text = f"Invalid value for rewriteToken: '{token}' is none of this source."
    return ComputeError(400, "invalid", text)


def _source(call: Call) -> Row:
    call.require("storage.objects.get")
    generation = call.query.get("sourceGeneration", "")
    return call.cloud.buckets.find(call["bucket"], call["object"], generation)


def _copied(
    call: Call, source: Row, about: dict[str, Any], name: str, bucket: str = "", move: bool = False
) -> dict[str, Any]:
    bucket = bucket or call["bucket"]
    call.require("storage.objects.create", bucket)
    # What the client says replaces all metadata; without a word it is copied.
    old = source.document
    kept = {key: old[key] for key in OF_OBJECT if key in old and not key.endswith("Hold")}
    own = {key: value for key, value in about.items() if key in (*OF_OBJECT, "storageClass")}
    if not set(own) - {"storageClass"}:
        own = {**kept, **own}
    made = call.cloud.buckets.copy(
        source,
        bucket,
        name,
        own,
        call.conditions,
        of_query(call.query, "ifSource"),
        call.may("storage.objects.delete", bucket),
        move,
    )
    return shown(call, made)
