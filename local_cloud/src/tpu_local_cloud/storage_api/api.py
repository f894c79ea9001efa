"""Answers every request for Cloud Storage."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from .. import errors
from ..compute_errors import as_compute
from ..errors import ApiError
from ..google import api as google
from ..model.cloud import Cloud
from ..model.shared import known_methods
from ..model.shared.store import is_full
from ..model.storage.documents import not_here
from ..tpu_api import partial
from . import buckets, objects, uploads, xml
from .call import Call, Handler, Reply, Request

JSON = "application/json; charset=UTF-8"
BATCH = re.compile(r"/batch/storage/v1")
_JSON_API = re.compile(r"/(?:(?:resumable/)?upload/|download/)?storage/v1(?:/.*)?")


class Method(NamedTuple):
    """A method: the JSON API's name of it, the permission that it needs, and its function."""

    name: str
    permission: str
    handler: Handler
    groups: dict[str, str]


Route = tuple[str, str, re.Pattern[str], str, Handler]


def _route(name: str, http: str, path: str, permission: str, handler: Handler) -> Route:
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return name, http, re.compile(pattern), f"storage.{permission}", handler


_B = "/storage/v1/b"
_BUCKET = _B + "/{bucket}"
_O = _BUCKET + "/o"
_OBJECT = _O + "/{object}"
_UPLOAD = "(?:/resumable)?/upload" + _O
_TO = "/b/{into}/o/{target}"
_NONE = ""

_ROUTES = [
    _route("buckets.list", "GET", _B, "buckets.list", buckets.listed),
    _route("buckets.insert", "POST", _B, "buckets.create", buckets.insert),
    _route("buckets.get", "GET", _BUCKET, "buckets.get", buckets.get),
    _route("buckets.patch", "PATCH", _BUCKET, "buckets.update", buckets.patch),
    _route("buckets.update", "PUT", _BUCKET, "buckets.update", buckets.update),
    _route("buckets.delete", "DELETE", _BUCKET, "buckets.delete", buckets.delete),
    _route("buckets.getIamPolicy", "GET", _BUCKET + "/iam", "buckets.getIamPolicy",
           buckets.get_policy),
    _route("buckets.setIamPolicy", "PUT", _BUCKET + "/iam", "buckets.setIamPolicy",
           buckets.set_policy),
    _route("buckets.testIamPermissions", "GET", _BUCKET + "/iam/testPermissions", _NONE,
           buckets.test_permissions),
    _route("buckets.getStorageLayout", "GET", _BUCKET + "/storageLayout", "objects.list",
           buckets.layout),
    _route("managedFolders.list", "GET", _BUCKET + "/managedFolders", "objects.list",
           buckets.no_folders),
    _route("projects.serviceAccount.get", "GET", "/storage/v1/projects/{project}/serviceAccount",
           _NONE, buckets.service_account),
    _route("objects.list", "GET", _O, "objects.list", objects.listed),
    _route("objects.insert", "POST", _UPLOAD, "objects.create", uploads.insert),
    _route("objects.get", "GET|HEAD", "(?:/download)?" + _OBJECT, "objects.get", objects.get),
    _route("objects.delete", "DELETE", _OBJECT, "objects.delete", objects.delete),
    _route("objects.patch", "PATCH", _OBJECT, "objects.update", objects.patch),
    _route("objects.update", "PUT", _OBJECT, "objects.update", objects.update),
    _route("objects.compose", "POST", _OBJECT + "/compose", "objects.create", objects.compose),
    _route("objects.restore", "POST", _OBJECT + "/restore", "objects.restore", objects.restore),
    _route("objects.move", "POST", _OBJECT + "/moveTo/o/{target}", "objects.move", objects.move),
    _route("objects.copy", "POST", _OBJECT + "/copyTo" + _TO, "objects.get", objects.copy),
    _route("objects.rewrite", "POST", _OBJECT + "/rewriteTo" + _TO, "objects.get",
           objects.rewrite),
]  # fmt: skip


def is_json(path: str) -> bool:
    """Return whether a path is one of the JSON API, or of its batches."""
    return bool(_JSON_API.fullmatch(path) or BATCH.fullmatch(path))


def answer(cloud: Cloud, request: Request, token: bool, unpaid: bool = False) -> Reply:
    """Return the answer to a request that is no batch.

    token: it carries one. unpaid: it comes from a person and names no quota project.
    """
    try:
        found = _find(request)
        cloud.requests[f"storage.{found.name}"] += 1
        google.admit(cloud, "storage", "", token, unpaid, **_where(cloud, request, found))
        return _say(request, _done(cloud, request, found))
    except ApiError as refused:
        return _refusal(request, as_compute(refused))
    except ConnectionError:
        raise
    except Exception as problem:
        logging.getLogger(__name__).exception("%s %s", request.method, request.path)
        unknown = errors.disk_full() if is_full(problem) else errors.internal()
        return _refusal(request, as_compute(unknown))


def where(cloud: Cloud, request: Request) -> dict[str, Any]:
    """Return the properties by which a fault matches a request."""
    try:
        return {"service": "storage", **_where(cloud, request, _find(request))}
    except ApiError:
        return {"service": "storage", "method": request.method}


def _where(cloud: Cloud, request: Request, found: Method) -> dict[str, Any]:
    groups = {key: unquote(value) for key, value in found.groups.items()}
    # The object of a request that uploads is in its query, or in what began the upload.
    name = groups.get("object") or request.query.get("name") or ""
    if "upload_id" in request.query and not name:
        with cloud.buckets.lock:
            known = cloud.buckets.index.upload(request.query["upload_id"]) or {}
        name = known.get("name", "")
    return {
        "permission": found.permission,
        "method": [found.name, request.method],
        "bucket": groups.get("bucket", ""),
        "object": name,
    }


def _find(request: Request) -> Method:
    if not is_json(request.path):
        bucket, name = xml.place(request)
        return Method(*xml.method(request), {"bucket": bucket, "object": name})
    if "/upload/" in request.path and "upload_id" in request.query:
        return _of_session(request)
    for name, http, pattern, permission, handler in _ROUTES:
        match = pattern.fullmatch(request.path)
        if match and re.fullmatch(http, request.method):
            permission = "" if permission == "storage." else permission
            return Method(name, permission, handler, match.groupdict())
    raise _missing(request)


def _of_session(request: Request) -> Method:
    """Return the method of a resumable upload: who knows its address may go on with it."""
    match = re.fullmatch(_UPLOAD.replace("{bucket}", "(?P<bucket>[^/]+)"), request.path)
    handler = uploads.cancel if request.method == "DELETE" else uploads.resume
    if match is None or request.method not in ("PUT", "POST", "DELETE"):
        raise _missing(request)
    return Method("objects.insert", "", handler, match.groupdict())


def _missing(request: Request) -> ApiError:
    """Return the refusal of a method that Google has, or that is none."""
    name = known_methods.name_of(request.method, request.path)
    return not_here(name) if name else errors.NoSuchMethod(request.path)


def _done(cloud: Cloud, request: Request, found: Method) -> dict[str, Any] | Reply:
    call = Call(cloud, request, found.groups)
    if found.permission:
        if call["bucket"] and found.permission != "storage.buckets.create":
            # As at Google: that a bucket is absent is no secret.
            cloud.buckets.bucket(call["bucket"])
            call.require(found.permission)
        else:
            call.require(found.permission, "")
    return found.handler(call)


def _say(request: Request, found: dict[str, Any] | Reply) -> Reply:
    if isinstance(found, Reply):
        return found
    fields = ",".join(value for name, value in request.pairs if name == "fields")
    shown = partial.keep(found, partial.parse(fields)) if fields else found
    compact = request.query.get("prettyPrint") == "false"
    text = json.dumps(shown, indent=None if compact else 2, ensure_ascii=False) + "\n"
    etag = {"ETag": found["etag"]} if "etag" in found and not fields else {}
    return Reply(200, text.encode(errors="replace"), {"Content-Type": JSON, **etag})


def _refusal(request: Request, refused: ApiError) -> Reply:
    """Return a refusal in the words of the API that was asked."""
    if refused.http == 304:
        return Reply(304)
    if not is_json(request.path):
        return xml.error(refused)
    media = request.query.get("alt") == "media" or request.path.startswith("/download/")
    if media and request.method in ("GET", "HEAD"):
        # Downloads are refused in plain words.
        headers = {"Content-Type": "text/html; charset=UTF-8", **refused.headers}
        return Reply(refused.http, refused.message.encode(), headers)
    text = json.dumps(refused.body(), indent=2) + "\n"
    return Reply(refused.http, text.encode(), {"Content-Type": JSON, **refused.headers})
