"""One look at a bucket's checkpoints, with the machine's own account: a process that ends soon.

It has the rights of the run's user alone. Requests, bytes and seconds are bounded, however many
objects there are and whatever they are called. The token goes to Cloud Storage and nowhere else.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ..decide import checkpoints
from ..decide.checkpoints import Checkpoint, Unit
from ..decide.values import is_whole, json_object, one_line
from .guard import STEPS

SECONDS = 40.0
"""How long a look may take."""
_LISTS, _GETS = 20, 40
_NAME = 300  # what is longer is looked at again
_ITEMS = 1000  # of one page
_PAGES = 5  # of one list
_FOLDERS, _DEPTH = 8, 3  # between the run's folder and those of its steps
_WITHOUT_MARK = 2  # folders that are listed
_BYTES = 4 << 20
_SILENCE = 15.0
_GOOGLE = "storage.googleapis.com"
_TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path


class CannotLook(Exception):
    """What stands in the way; the text has the remedy."""


def main(words: list[str]) -> int:
    """Look as a JSON object asks; print what was found."""
    print(json.dumps(look(json.loads(words[0]))))
    return 0


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoints of a bucket's folder, and what it cost to find them.

    Asked is with the addresses of `storage` and `metadata`, the `bucket`, the `prefix` of its
    objects, and the checkpoints that are `known` to be whole, as an earlier answer has them.
    """
    store = _Store(asked["storage"], asked["metadata"], asked["bucket"])
    answer: dict[str, Any] = {"error": "", "note": ""}
    try:
        answer |= _Look(store, asked["prefix"], asked["known"]).found()
    except CannotLook as trouble:
        answer["error"] = one_line(f"gs://{asked['bucket']}/{asked['prefix']}: {trouble}")
    finally:
        store.close()
    return {**answer, "lists": store.lists, "gets": store.gets}


def may_have_token(address: str) -> bool:
    """Return whether a token may be sent to a server: to Google by TLS, or to this computer."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname == _GOOGLE:
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    return False


class _Server:
    """One connection, without proxies and redirections; a silent or verbose server is cut off."""

    def __init__(self, address: str, deadline: float) -> None:
        parts = urlsplit(address)
        self.name = parts.hostname or address
        is_secret = parts.scheme == "https"  # by the system's certificates
        kind = http.client.HTTPSConnection if is_secret else http.client.HTTPConnection
        self._connection = kind(parts.netloc, timeout=_SILENCE)
        self._deadline = deadline

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return the status and the body; raise CannotLook."""
        try:
            self._connection.request("GET", path, headers=headers)
            answer = self._connection.getresponse()
            body = b"".join(self._parts(answer))
            # Before Python 3.12 an answer that was read in parts does not end by itself, and its
            # connection takes no other request.
            answer.close()
            return answer.status, body
        except (http.client.HTTPException, OSError, ValueError) as error:
            self._connection.close()
            raise CannotLook(f"{self.name} does not answer: {error or 'nothing'}") from error

    def _parts(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        size = 0
        while part := answer.read1(1 << 16):
            size += len(part)
            if size > _BYTES:
                raise OSError("it says too much")
            if time.monotonic() > self._deadline:
                raise OSError("it is too slow")
            yield part

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class _Store:
    """The bucket, as far as the limits of one look allow to ask."""

    def __init__(self, storage: str, metadata: str, bucket: str) -> None:
        self.lists = self.gets = 0
        self._deadline = time.monotonic() + SECONDS
        self._address, self._metadata, self._bucket = storage, metadata, bucket
        self._server = _Server(storage, self._deadline)
        self._headers: dict[str, str] | None = None

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    def page(self, **query: str) -> dict[str, Any]:
        """Return one page."""
        self.lists += 1
        if self.lists > _LISTS:
            raise CannotLook(f"it needs more than {_LISTS} lists: name a smaller folder")
        found = self._get(f"?{urlencode({'maxResults': _ITEMS, **query})}")
        if found is None:
            raise CannotLook("there is no such bucket: correct checkpoint_dir")
        return found

    def at(self, name: str) -> float | None:
        """Return when an object was written; None if there is none."""
        self.gets += 1
        found = self._get(f"/{quote(name, safe='')}?fields=updated")
        return None if found is None else checkpoints.time_of(found.get("updated"))

    @property
    def is_tired(self) -> bool:
        """Return whether this look has asked for as many objects as it may."""
        return self.gets >= _GETS

    def _get(self, rest: str) -> dict[str, Any] | None:
        if self._headers is None:
            self._headers = self._authorization()
        if time.monotonic() > self._deadline:
            raise CannotLook(f"{self._server.name} is too slow")
        path = f"/storage/v1/b/{self._bucket}/o{rest}"
        status, body = self._server.get(path, self._headers)
        if status == 404:
            return None
        if status != 200:
            raise CannotLook(_refusal(status, body))
        found = json_object(body)
        if found is None:
            raise CannotLook(f"{self._server.name} gives no JSON")
        return found

    def _authorization(self) -> dict[str, str]:
        if not self._metadata:
            return {}
        if not may_have_token(self._address):
            raise CannotLook(f"no token is sent to {self._address}, which is not {_GOOGLE}")
        server = _Server(self._metadata, self._deadline)
        try:
            status, body = server.get(_TOKEN, {"Metadata-Flavor": "Google"})
        finally:
            server.close()
        token = (json_object(body) or {}).get("access_token")
        if status != 200 or not isinstance(token, str) or not token.isascii():
            raise CannotLook(
                f"the machine gets no token ({status}): give the slice a service_account"
            )
        return {"Authorization": f"Bearer {token}"}


def _refusal(status: int, body: bytes) -> str:
    if status in (401, 403):
        return (
            f"the bucket refuses ({status}): give the service account of the slice "
            "roles/storage.objectViewer on it"
        )
    error = (json_object(body) or {}).get("error")
    said = error.get("message") if isinstance(error, dict) else ""
    return f"the bucket answers {status} {one_line(str(said or ''), 100)}".rstrip()


@dataclass
class _Level:
    """What lies directly in one folder, without its prefix."""

    folders: list[str] = field(default_factory=list)
    files: list[checkpoints.Thing] = field(default_factory=list)


class _Look:
    """Goes from the run's folder to those of its steps, and looks at the newest."""

    def __init__(self, store: _Store, prefix: str, known: dict[str, Any]) -> None:
        self._store, self._prefix = store, prefix
        self._known = known
        self._refused = 0
        self._cut = False
        self._folders: list[str] = []
        self._files: list[checkpoints.Thing] = []

    def found(self) -> dict[str, Any]:
        """Return what was found, as the agent reads it."""
        self._find()
        units = [*self._steps(), *(checkpoints.unit_of(one.name, [one]) for one in self._files)]
        judged = checkpoints.judged(units)
        newest = checkpoints.newest_of(judged)
        size = self._size_of(newest) if newest else None
        whole = [one for one in judged if one.state != checkpoints.UNFINISHED and one.at]
        seen = len(self._folders) + len(self._files) + sum(one.objects for one in units)
        latest = max((unit.newest for unit in units), default=0.0)
        return {
            "newest": [_ns(max(latest, newest.at if newest else 0.0)), seen],
            "saved": _ns(newest.at) if newest else 0,
            "steps": [[one.step, _ns(one.at)] for one in whole if one.step is not None][-STEPS:],
            "known": {
                one.name: [one.at, size if one is newest else None]
                for one in whole[-STEPS:]
                if one.state == checkpoints.WHOLE and len(one.name) <= _NAME
            },
            "checkpoint": {"name": newest.name, "step": newest.step, "bytes": size}
            if newest
            else None,
            "note": self._note(newest),
        }

    def _find(self) -> None:
        """List folders until steps are found; not below those that are of a step."""
        folders = [""]
        for _level in range(_DEPTH):
            self._cut = self._cut or len(folders) > _FOLDERS
            folders = [name for folder in folders[:_FOLDERS] for name in self._below(folder)]
            # What lies beside the steps, such as curves, is not worth its requests.
            if self._folders or not folders:
                break

    def _below(self, folder: str) -> list[str]:
        """Take in what lies in a folder; return its folders that are of no step."""
        found = self._level(folder)
        self._files += found.files
        steps = {name for name in found.folders if checkpoints.is_of_step(name)}
        self._folders += steps
        return [name for name in found.folders if name not in steps]

    def _level(self, folder: str) -> _Level:
        prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        fields = "prefixes,items(name,size,updated),nextPageToken"
        level, token, page = _Level(), "", 0
        while page == 0 or (token and page < _PAGES):
            asked = {"prefix": prefix, "delimiter": "/", "fields": fields}
            answer = self._store.page(**asked, **({"pageToken": token} if token else {}))
            level.folders += self._names(answer.get("prefixes"))
            level.files += self._things(answer.get("items"))
            token, page = _text(answer.get("nextPageToken")), page + 1
        self._cut = self._cut or bool(token)
        return level

    def _names(self, prefixes: Any) -> list[str]:
        found = [checkpoints.name_below(one, self._prefix) for one in _list(prefixes)]
        self._refused += found.count(None)
        return [one for one in found if one is not None]

    def _things(self, items: Any) -> list[checkpoints.Thing]:
        # The object that stands for the folder itself is none of its files.
        there = [one for one in _list(items) if not checkpoints.is_folder(one)]
        found = [checkpoints.thing_of(one, self._prefix) for one in there]
        self._refused += found.count(None)
        return [one for one in found if one is not None]

    def _steps(self) -> list[Unit]:
        """Return the folders of the highest steps, each with its mark."""
        units: list[Unit] = []
        missing = 0
        for name in self._by_step()[:STEPS]:
            marked_at = self._marked_at(name, is_first=not units)
            if marked_at is None and missing < _WITHOUT_MARK:
                units.append(self._listed(name))
            else:
                units.append(Unit(name, True, marked_at, newest=marked_at or 0.0))
            missing += marked_at is None
            # A writer without marks: to look for more of them costs, and finds nothing.
            if missing >= _WITHOUT_MARK and not any(map(checkpoints.has_marks, units)):
                break
        return units

    def _by_step(self) -> list[str]:
        def step(name: str) -> tuple[int, str]:
            return checkpoints.step_of_folder(name.rpartition("/")[2]) or 0, name

        return sorted(self._folders, key=step, reverse=True)

    def _marked_at(self, name: str, is_first: bool) -> float | None:
        """Return when the mark was written. That of the newest step is looked at each time."""
        known_at, _size = self._known_one(name)
        if known_at is not None and not is_first:
            return known_at
        for mark in checkpoints.MARKS:
            if self._store.is_tired:
                return None
            at = self._store.at(f"{self._prefix}{name}/{mark}")
            if at is not None:
                return at
        return None

    def _listed(self, name: str) -> Unit:
        """Return a folder as its first page shows it: to see it grow, one is enough."""
        things, _next = self._page_below(name)
        unit = checkpoints.unit_of(name, things)
        return replace(unit, is_folder=True, marked_at=None)

    def _size_of(self, newest: Checkpoint) -> int | None:
        """Return the bytes of a checkpoint, listed once; None of one with too many objects."""
        if newest.objects:
            return newest.size if newest.objects < _ITEMS else None
        known_at, size = self._known_one(newest.name)
        if known_at == newest.at and size is not None:
            return size
        total, token, page = 0, "", 0
        while page == 0 or (token and page < _PAGES):
            things, token = self._page_below(newest.name, token)
            total, page = total + sum(one.size for one in things), page + 1
        return None if token else total

    def _page_below(self, name: str, token: str = "") -> tuple[list[checkpoints.Thing], str]:
        """Return one page of a step's objects, and the token of the next."""
        fields = "items(name,size,updated),nextPageToken"
        more = {"pageToken": token} if token else {}
        answer = self._store.page(prefix=f"{self._prefix}{name}/", fields=fields, **more)
        return self._things(answer.get("items")), _text(answer.get("nextPageToken"))

    def _known_one(self, name: str) -> tuple[float | None, int | None]:
        """Return time and size of a checkpoint as an earlier look found them."""
        known = self._known.get(name)
        at, size = known if isinstance(known, list) and len(known) == 2 else (None, None)
        return at if isinstance(at, float) else None, size if is_whole(size) else None

    def _note(self, newest: Checkpoint | None) -> str:
        notes = []
        if newest is not None and newest.state == checkpoints.UNMARKED:
            notes.append("its checkpoints have no mark, so the time is that of the newest file")
        if self._cut:
            notes.append("it has more folders or objects than are looked at")
        if self._refused:
            notes.append(f"{self._refused} objects have names, sizes or times that are refused")
        return "; ".join(notes)


def _ns(at: float) -> int:
    return int(at * 1_000_000) * 1000


def _list(value: Any) -> list[Any]:
    return value[:_ITEMS] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
