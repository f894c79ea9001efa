"""The XML API: objects and buckets by their paths, and uploads in parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from .. import payload
from ..compute_errors import ComputeError
from ..errors import ApiError
from ..model.storage import conditions, listing
from ..model.storage.documents import OF_OBJECT, not_here
from ..model.storage.index import Document
from ..model.storage.uploads import part_etag
from . import buckets
from .call import Answer, Call, Handler, Reply, Request
from .media import download, headers_of
from .objects import page_size
from .uploads import announced

KIND = "application/xml; charset=UTF-8"
# Google answers in two namespaces: lists in the older one.
_OLD_SPACE = "http://doc.s3.amazonaws.com/2006-03-01"
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
HOST = re.compile(r"(?:(?P<bucket>[a-z0-9][-_.a-z0-9]+)\.)?storage\.googleapis\.com")
_CODES = {
    "authError": "AuthenticationRequired",
    "required": "AuthenticationRequired",
    "conditionNotMet": "PreconditionFailed",
    "forbidden": "AccessDenied",
    "notImplemented": "NotImplemented",
    "rateLimitExceeded": "SlowDown",
    "requestedRangeNotSatisfiable": "InvalidRange",
}
_BY_STATUS = {400: "InvalidArgument", 403: "AccessDenied", 500: "InternalError",
              503: "ServiceUnavailable"}  # fmt: skip


def place(request: Request) -> tuple[str, str]:
    """Return the bucket and the object of a request, still encoded; the bucket may be the host."""
    path = request.path.removeprefix("/")
    match = HOST.fullmatch(request.headers.get("host", "").partition(":")[0])
    if match and match["bucket"]:
        return match["bucket"], path
    bucket, _, name = path.partition("/")
    return bucket, name


def error(refused: ApiError) -> Reply:
    """Return a refusal as the XML API words it."""
    reason = getattr(refused, "reason", "")
    code = _CODES.get(reason) or _code(refused) or _BY_STATUS.get(refused.http, "InternalError")
    text = f"<Code>{code}</Code><Message>{escape(refused.message)}</Message>"
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error>{text}</Error>"
    return Reply(refused.http, body.encode(), {"Content-Type": KIND, **refused.headers})


def _code(refused: ApiError) -> str:
    bucket = "bucket" in refused.message
    if refused.http == 404:
        return "NoSuchUpload" if "upload" in refused.message else _no_such(bucket)
    if refused.http == 409:
        return "BucketNotEmpty" if "not empty" in refused.message else "BucketAlreadyOwnedByYou"
    return ""


def _no_such(bucket: bool) -> str:
    return "NoSuchBucket" if bucket else "NoSuchKey"


def method(request: Request) -> tuple[str, str, Handler]:
    """Return what a request asks for: the JSON API's name of it, its permission, its function."""
    bucket, name = place(request)
    keys = (request.method, bool(name), *sorted(_MARKS & set(request.query)))
    found = _METHODS.get(keys)
    if found is None or not bucket:
        raise not_here(f"{request.method} {request.path.partition('?')[0]} of the XML API")
    return found


def _answer(tag: str, inside: str, headers: dict[str, str] | None = None) -> Reply:
    space = _OLD_SPACE if tag == "ListBucketResult" else _SPACE
    body = f"<?xml version='1.0' encoding='UTF-8'?><{tag} xmlns='{space}'>{inside}</{tag}>"
    return Reply(200, body.encode(), {"Content-Type": KIND, **(headers or {})})


def _etag(document: Document) -> str:
    return f'"{part_etag(document["md5Hash"])}"' if "md5Hash" in document else document["etag"]


def _said(document: Document) -> dict[str, str]:
    """Return what headers say about an object that was written or is read."""
    return {**headers_of(document), "ETag": _etag(document)}


def _written(document: Document) -> dict[str, str]:
    names = (
        *("ETag", "x-goog-component-count", "x-goog-generation", "x-goog-hash"),
        *("x-goog-metageneration", "x-goog-stored-content-length"),
    )
    return {key: value for key, value in _said(document).items() if key in names}


def _conditions(call: Call) -> conditions.Conditions:
    return conditions.of_headers(call.request.headers)


# Objects --------------------------------------------------------------------------------------


def _get(call: Call) -> Answer:
    generation = call.query.get("generation", "")
    where = (call["bucket"], call["object"], generation, _conditions(call))
    document, file = call.cloud.buckets.open(*where)
    reply = download(call.request, document, file)
    return Reply(reply.status, b"", {**reply.headers, "ETag": _etag(document)}, reply.content)


def _put(call: Call) -> Answer:
    if "x-goog-copy-source" in call.request.headers:
        return _copy(call)
    about = {**announced(call), **_about(call)}
    where = (call["bucket"], call["object"], about, iter(call.request.body))
    made = call.cloud.buckets.store(*where, _conditions(call), call.may_replace)
    return Reply(200, headers={"Content-Type": KIND, **_written(made)})


def _about(call: Call) -> dict[str, Any]:
    headers = call.request.headers
    fields = {
        "cacheControl": "cache-control",
        "contentDisposition": "content-disposition",
        "contentEncoding": "content-encoding",
        "contentLanguage": "content-language",
        "contentType": "content-type",
        "storageClass": "x-goog-storage-class",
    }
    own = {key: headers[name] for key, name in fields.items() if name in headers}
    begin = "x-goog-meta-"
    custom = {k.removeprefix(begin): v for k, v in headers.items() if k.startswith(begin)}
    return {**own, **({"metadata": custom} if custom else {})}


def _copy(call: Call) -> Answer:
    given = unquote(call.request.headers["x-goog-copy-source"]).removeprefix("/")
    bucket, _, name = given.partition("/")
    call.require("storage.objects.get", bucket)
    generation = call.request.headers.get("x-goog-copy-source-generation", "")
    source = call.cloud.buckets.find(bucket, name, generation)
    about = {key: source.document[key] for key in OF_OBJECT if key in source.document}
    if call.request.headers.get("x-goog-metadata-directive", "").upper() == "REPLACE":
        about = _about(call)
    where = (source, call["bucket"], call["object"], about, _conditions(call))
    made = call.cloud.buckets.copy(*where, may_replace=call.may_replace)
    inside = f"<ETag>{escape(_etag(made))}</ETag><LastModified>{made['updated']}</LastModified>"
    return _answer("CopyObjectResult", inside, _written(made))


def _delete(call: Call) -> Answer:
    where = (call["bucket"], call["object"], call.query.get("generation", ""))
    call.cloud.buckets.delete(*where, _conditions(call))
    return Reply(204)


# Buckets --------------------------------------------------------------------------------------


def _make(call: Call) -> Answer:
    location = re.search(rb"<LocationConstraint>([^<]+)<", call.raw())
    wanted = {"name": call["bucket"], **({"location": location[1].decode()} if location else {})}
    call.cloud.buckets.make(wanted)
    return Reply(200, headers={"Content-Type": KIND})


def _head_bucket(call: Call) -> Answer:
    found = call.cloud.buckets.bucket(call["bucket"])
    metageneration = {"x-goog-metageneration": found["metageneration"]}
    return Reply(200, headers={"Content-Type": KIND, **metageneration})


def _list(call: Call) -> Answer:
    query, second = call.query, call.query.get("list-type") == "2"
    begin, after = query.get("prefix", ""), query.get("start-after" if second else "marker", "")
    asked = listing.Question(
        prefix=begin,
        delimiter=query.get("delimiter", ""),
        # The one that is named comes not again.
        start=after + "\0" if after else "",
        size=page_size(query.get("max-keys", "")),
        token=query.get("continuation-token", ""),
    )
    page = call.cloud.buckets.listed(call["bucket"], ("live",), asked)
    inside = f"<Name>{call['bucket']}</Name><Prefix>{escape(begin)}</Prefix>"
    inside += f"<IsTruncated>{str(bool(page.token)).lower()}</IsTruncated>"
    if page.token:
        inside += _next(page, second)
    inside += "".join(map(_contents, page.items))
    prefixes = (f"<Prefix>{escape(each)}</Prefix>" for each in page.folders)
    inside += "".join(f"<CommonPrefixes>{each}</CommonPrefixes>" for each in prefixes)
    return _answer("ListBucketResult", inside)


def _next(page: listing.Page, second: bool) -> str:
    if second:
        return f"<NextContinuationToken>{page.token}</NextContinuationToken>"
    last = max([each["name"] for each in page.items] + page.folders)
    return f"<NextMarker>{escape(last)}</NextMarker>"


def _contents(document: Document) -> str:
    return (
        f"<Contents><Key>{escape(document['name'])}</Key>"
        f"<Generation>{document['generation']}</Generation>"
        f"<MetaGeneration>{document['metageneration']}</MetaGeneration>"
        f"<LastModified>{document['updated']}</LastModified>"
        f"<ETag>{escape(_etag(document))}</ETag><Size>{document['size']}</Size></Contents>"
    )


# Uploads in parts -----------------------------------------------------------------------------


def _initiate(call: Call) -> Answer:
    where = ("multipart", call["bucket"], call["object"], _about(call), _conditions(call))
    key = call.cloud.uploads.begin(*where, call.may_replace)
    inside = f"<Bucket>{call['bucket']}</Bucket><Key>{escape(call['object'])}</Key>"
    return _answer("InitiateMultipartUploadResult", f"{inside}<UploadId>{key}</UploadId>")


def _part(call: Call) -> Answer:
    number = call.query["partNumber"]
    where = (call.query["uploadId"], int(number) if number.isdecimal() else 0)
    sums = call.cloud.uploads.receive_part(*where, iter(call.request.body))
    hashes = f"crc32c={sums.crc32c},md5={sums.md5}"
    etag = f'"{part_etag(sums.md5)}"'
    return Reply(200, headers={"Content-Type": KIND, "ETag": etag, "x-goog-hash": hashes})


def _complete(call: Call) -> Answer:
    made = call.cloud.uploads.complete(call.query["uploadId"], _parts(call.raw()))
    link = f"{call.request.root}/{call['bucket']}/{quote(call['object'])}"
    inside = (
        f"<Location>{escape(link)}</Location><Bucket>{call['bucket']}</Bucket>"
        f"<Key>{escape(call['object'])}</Key><ETag>{escape(_etag(made))}</ETag>"
    )
    return _answer("CompleteMultipartUploadResult", inside, _written(made))


def _parts(body: bytes) -> list[tuple[int, str]]:
    """Return numbers and etags of the parts that a client names."""
    if len(body) > payload.LARGEST or b"<!" in body:
        raise ComputeError(400, "badRequest", "The XML has a declaration, or is too large.")
    try:
        found = ElementTree.fromstring(body)  # noqa: S314 - without declarations there is no entity
        return [_numbered(each) for each in found.iter() if each.tag.rpartition("}")[2] == "Part"]
    except (ElementTree.ParseError, ValueError):
        text = "The XML you provided was not well-formed or did not validate."
        raise ComputeError(400, "badRequest", text) from None


def _numbered(part: Iterable[ElementTree.Element]) -> tuple[int, str]:
    words = {each.tag.rpartition("}")[2]: (each.text or "").strip() for each in part}
    return int(words.get("PartNumber", "")), words.get("ETag", "")


def _abort(call: Call) -> Answer:
    call.cloud.uploads.known(call.query["uploadId"], "multipart")
    call.cloud.uploads.cancel(call.query["uploadId"])
    return Reply(204)


# Words of a query that make another method of a request.
_MARKS = {
    *("acl", "billing", "compose", "cors", "encryption", "lifecycle", "location", "logging"),
    *("partNumber", "storageClass", "tagging", "uploadId", "uploads", "versioning", "versions"),
    *("website",),
}
_CREATE = "storage.multipartUploads.create"
_METHODS: dict[tuple[Any, ...], tuple[str, str, Handler]] = {
    ("GET", True): ("objects.get", "storage.objects.get", _get),
    ("HEAD", True): ("objects.get", "storage.objects.get", _get),
    ("PUT", True): ("objects.insert", "storage.objects.create", _put),
    ("DELETE", True): ("objects.delete", "storage.objects.delete", _delete),
    ("GET", False): ("objects.list", "storage.objects.list", _list),
    ("HEAD", False): ("buckets.get", "storage.buckets.get", _head_bucket),
    ("PUT", False): ("buckets.insert", "storage.buckets.create", _make),
    ("DELETE", False): ("buckets.delete", "storage.buckets.delete", buckets.delete),
    ("POST", True, "uploads"): ("multipartUploads.create", _CREATE, _initiate),
    ("PUT", True, "partNumber", "uploadId"): ("multipartUploads.part", _CREATE, _part),
    ("POST", True, "uploadId"): ("multipartUploads.complete", _CREATE, _complete),
    ("DELETE", True, "uploadId"): (
        *("multipartUploads.abort", "storage.multipartUploads.abort", _abort),
    ),
}
