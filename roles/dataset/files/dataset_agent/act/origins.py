"""Where data sets come from: a bucket, a file on the web, a repository of the Hugging Face hub.

Each lists its files, with the checksums that it knows, and gives a file from any offset on.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

from ..decide.config import Config, Dataset
from ..decide.listing import UNKNOWN, Item
from ..decide.source import BUCKET, HUB, Source, file_of, source_of
from . import web
from .bucket_requests import Bucket, CannotLook, Denied, authorization

_LIST_SECONDS, _TOKEN_SECONDS = 600.0, 240.0
_ABOUT = "name,size,generation,md5Hash,crc32c"
# More objects than a data set may have.
_MOST_PAGES = 2000
_NEXT = re.compile(r'<([^>]+)>;\s*rel="?next"?')
_DIGITS = {"sha256": 64, "git": 40}


class Origin(Protocol):
    """Where one data set comes from. Both raise web.CannotGet."""

    def items(self) -> list[Item]:
        """Return its files."""

    def open(self, item: Item, offset: int) -> AbstractContextManager[web.Reading]:
        """Give one of them, from an offset on."""


def origin_of(config: Config, dataset: Dataset) -> Origin:
    """Return where a data set comes from."""
    source = source_of(dataset.source)
    if source.kind == BUCKET:
        return FromBucket(config, source)
    if source.kind == HUB:
        return FromHub(config.hub, source, config.tokens.get(dataset.name, ""))
    return FromWeb(source.address, dataset.sha256)


class FromBucket:
    """Objects of Cloud Storage, read with the machine's own account."""

    def __init__(self, config: Config, source: Source) -> None:
        self._config, self._source = config, source
        self._token, self._since = "", 0.0

    def items(self) -> list[Item]:
        """List the objects of a folder, or one object."""
        wanted = self._source.folder
        bucket = Bucket(
            self._config.storage, self._config.metadata, self._source.address, _LIST_SECONDS
        )
        try:
            objects = bucket.items_below(wanted, _MOST_PAGES, _ABOUT)
            found = [item for one in objects if (item := self._item(one, wanted))]
        except Denied as error:
            raise web.Refused(403, str(error)) from None
        except CannotLook as error:
            raise web.CannotGet(str(error)) from None
        finally:
            bucket.close()
        return found

    def _item(self, told: Any, wanted: str) -> Item | None:
        """Return an object as a file; None for what stands for a folder, or is beside it."""
        if not isinstance(told, dict):
            return None
        name = str(told.get("name") or "")
        path = name[len(wanted) :].lstrip("/") if name != wanted else name.rpartition("/")[2]
        inside = not wanted or name == wanted or name.startswith(f"{wanted}/")
        if not inside or name.endswith("/"):
            return None
        generation = str(told.get("generation") or "")
        return Item(path, _whole(told.get("size")), name, generation, _of_bucket(told))

    def open(self, item: Item, offset: int) -> AbstractContextManager[web.Reading]:
        """Give an object, in the generation that was listed."""
        query = urlencode({"alt": "media", "generation": item.version})
        bucket, name = self._source.address, quote(item.ref, safe="")
        url = f"{self._config.storage}/storage/v1/b/{bucket}/o/{name}?{query}"
        return web.reading(url, offset, token=self._fresh_token(), way=web.STAYS)

    def _fresh_token(self) -> str:
        if time.monotonic() - self._since > _TOKEN_SECONDS or not self._since:
            try:
                headers = authorization(self._config.storage, self._config.metadata, 60.0)
            except CannotLook as error:
                raise web.CannotGet(str(error)) from None
            self._token = headers.get("Authorization", "").removeprefix("Bearer ")
            self._since = time.monotonic()
        return self._token


def _of_bucket(told: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the checksum of an object; one that was composed has only the second."""
    for key, kind, length in (("md5Hash", "md5", 16), ("crc32c", "crc32c", 4)):
        try:
            found = base64.b64decode(str(told.get(key) or ""), validate=True)
        except (binascii.Error, ValueError):
            continue
        if len(found) == length:
            return ((kind, found.hex()),)
    return ()


def _is_digest(kind: str, text: str) -> bool:
    return len(text) == _DIGITS[kind] and set(text) <= set("0123456789abcdef")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else UNKNOWN


class FromWeb:
    """One file with an address."""

    def __init__(self, url: str, sha256: str) -> None:
        self._url = url
        self._checks = (("sha256", sha256),) if sha256 else ()

    def items(self) -> list[Item]:
        """Ask for its size and version."""
        with web.opened(self._url) as answer:
            length = answer.headers.get("Content-Length", "")
            version = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        name = unquote(file_of(self._url))
        return [Item(name, _whole(length), self._url, version, self._checks)]

    def open(self, item: Item, offset: int) -> AbstractContextManager[web.Reading]:
        """Give it; one that has changed meanwhile from its begin."""
        weak = not item.version or item.version.startswith("W/")
        headers = {} if weak else {"If-Range": item.version}
        return web.reading(self._url, 0 if weak else offset, headers)


class FromHub:
    """A repository of models or data sets. Three addresses of the hub are all that it needs.

    Its own library would be a venv with a dozen packages on every machine.
    """

    def __init__(self, hub: str, source: Source, token: str) -> None:
        self._hub, self._source, self._token = hub.rstrip("/"), source, token
        self._commit = ""
        repository = "" if source.repository == "models" else f"{source.repository}/"
        self._files = f"{self._hub}/{repository}{source.address}/resolve"
        self._api = f"{self._hub}/api/{source.repository}/{source.address}"

    def items(self) -> list[Item]:
        """List the files of a revision, which is fixed by its commit."""
        self._commit = self._commit_of_revision()
        wanted = self._source.folder
        return [item for told in self._tree() if (item := self._item(told, wanted))]

    def _commit_of_revision(self) -> str:
        told = self._asked(f"{self._api}/revision/{quote(self._source.revision, safe='')}")[0]
        found = told.get("sha") if isinstance(told, dict) else None
        if not isinstance(found, str) or not _is_digest("git", found):
            raise web.CannotGet(f"the hub names no commit of {self._source.revision}")
        return found

    def _tree(self) -> Iterator[dict[str, Any]]:
        url = f"{self._api}/tree/{self._commit}?recursive=true"
        while url:
            told, headers = self._asked(url)
            yield from (one for one in _list(told) if isinstance(one, dict))
            following = _NEXT.search(headers.get("Link") or headers.get("link") or "")
            url = urljoin(url, following[1]) if following else ""
            if url and urlsplit(url).netloc != urlsplit(self._hub).netloc:
                raise web.CannotGet("the hub goes on at another host")

    def _item(self, told: dict[str, Any], wanted: str) -> Item | None:
        path = str(told.get("path") or "")
        inside = not wanted or path == wanted or path.startswith(f"{wanted}/")
        if told.get("type") != "file" or not inside:
            return None
        large = told.get("lfs")
        kind, about = ("sha256", large) if isinstance(large, dict) else ("git", told)
        digest, length = str(about.get("oid") or ""), _whole(about.get("size"))
        checks = ((kind, digest),) if _is_digest(kind, digest) else ()
        own = path.rpartition("/")[2] if path == wanted else path[len(wanted) :].lstrip("/")
        return Item(own, length, path, digest or self._commit, checks)

    def open(self, item: Item, offset: int) -> AbstractContextManager[web.Reading]:
        """Give a file of the listed commit; the hub may redirect to where it keeps large ones."""
        url = f"{self._files}/{self._commit}/{quote(item.ref)}"
        return web.reading(url, offset, token=self._token)

    def _asked(self, url: str) -> Any:
        try:
            return web.json_of(url, self._token)
        except web.Refused as error:
            if error.status not in (401, 403, 404):
                raise
            remedy = (
                "is its token allowed to read it, and are its terms accepted?"
                if self._token
                else "one that is private or gated needs secrets, a set with HF_TOKEN"
            )
            name = f"{self._source.repository}/{self._source.address}@{self._source.revision}"
            raise web.Refused(error.status, f"the hub has no {name} for us: {remedy}") from None
