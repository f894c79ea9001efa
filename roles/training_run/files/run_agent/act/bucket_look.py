"""One look at a bucket's checkpoints, with the machine's own account: a process that ends soon.

It has the rights of the run's user alone. Requests, bytes and seconds are bounded, however many
objects there are and whatever they are called.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from ..decide import checkpoints
from ..decide.checkpoints import Checkpoint, Unit
from ..decide.fence import number_of
from ..decide.values import is_whole, one_line
from .bucket_requests import Bucket, CannotLook
from .guard import STEPS

SECONDS = 40.0
"""How long a look may take."""
_LISTS, _GETS = 20, 40
_NAME = 300  # what is longer is looked at again
_ITEMS = 1000  # of one page
_PAGES = 5  # of one list
_FOLDERS, _DEPTH = 8, 3  # between the run's folder and those of its steps
_WITHOUT_MARK = 2  # folders that are listed


def main(words: list[str]) -> int:
    """Look as a JSON object asks; print what was found."""
    print(json.dumps(look(json.loads(words[0]))))
    return 0


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoints of a bucket's folder, and what it cost to find them.

    Asked is with the addresses of `storage` and `metadata`, the `bucket`, the `prefix` of its
    objects, and the checkpoints that are `known` to be whole, as an earlier answer has them; with
    `without_attempts`, folders of attempts are left out.
    """
    bucket = Bucket(asked["storage"], asked["metadata"], asked["bucket"], SECONDS)
    store = _Store(bucket)
    answer: dict[str, Any] = {"error": "", "note": ""}
    try:
        without = asked.get("without_attempts") is True
        answer |= _Look(store, asked["prefix"], asked["known"], without).found()
    except CannotLook as trouble:
        answer["error"] = one_line(f"gs://{asked['bucket']}/{asked['prefix']}: {trouble}")
    finally:
        bucket.close()
    return {**answer, "lists": store.lists, "gets": store.gets}


class _Store:
    """The bucket, as far as the limits of one look allow to ask."""

    def __init__(self, bucket: Bucket) -> None:
        self.lists = self.gets = 0
        self._bucket = bucket

    def page(self, **query: str) -> dict[str, Any]:
        """Return one page."""
        self.lists += 1
        if self.lists > _LISTS:
            raise CannotLook(f"it needs more than {_LISTS} lists: name a smaller folder")
        found = self._bucket.found(f"?{urlencode({'maxResults': _ITEMS, **query})}")
        if found is None:
            raise CannotLook("there is no such bucket: correct checkpoint_dir")
        return found

    def at(self, name: str) -> float | None:
        """Return when an object was written; None if there is none."""
        self.gets += 1
        found = self._bucket.found(f"/{quote(name, safe='')}?fields=updated")
        return None if found is None else checkpoints.time_of(found.get("updated"))

    @property
    def is_tired(self) -> bool:
        """Return whether this look has asked for as many objects as it may."""
        return self.gets >= _GETS


@dataclass
class _Level:
    """What lies directly in one folder, without its prefix."""

    folders: list[str] = field(default_factory=list)
    files: list[checkpoints.Thing] = field(default_factory=list)


class _Look:
    """Goes from the run's folder to those of its steps, and looks at the newest."""

    def __init__(
        self, store: _Store, prefix: str, known: dict[str, Any], without_attempts: bool
    ) -> None:
        self._store, self._prefix = store, prefix
        self._without_attempts = without_attempts
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
            found = [name for folder in folders[:_FOLDERS] for name in self._below(folder)]
            folders = self._worth_a_look(found)
            # What lies beside the steps, such as curves, is not worth its requests.
            if self._folders or not folders:
                break

    def _worth_a_look(self, folders: list[str]) -> list[str]:
        """Return the folders of attempts with the last one first, then all others."""
        numbers = {name: number_of(name) for name in folders}
        attempts = sorted((n, name) for name, n in numbers.items() if n is not None)
        others = [name for name, number in numbers.items() if number is None]
        return [name for _number, name in reversed(attempts) if not self._without_attempts] + others

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
        there = [one for one in _list(prefixes) if not checkpoints.is_archived(one)]
        found = [checkpoints.name_below(one, self._prefix) for one in there]
        self._refused += found.count(None)
        return [one for one in found if one is not None]

    def _things(self, items: Any) -> list[checkpoints.Thing]:
        # The object that stands for the folder itself is none of its files.
        there = [one for one in _list(items) if not checkpoints.is_folder(one)]
        found = [checkpoints.thing_of(one, self._prefix) for one in there]
        self._refused += found.count(None)
        return [one for one in found if one is not None and not checkpoints.is_fence(one.name)]

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
