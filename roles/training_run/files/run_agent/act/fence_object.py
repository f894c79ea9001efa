"""The object of the fence, beside the checkpoints in a bucket (see `decide/fence.py`).

It is read and written with the machine's account and the rights of the run's user. A write replaces
the very generation that was read before. Where its answer is lost, the object shows whose it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from ..decide import fence
from ..decide.fence import Claim, Mark
from ..decide.values import json_object, one_line
from . import restore_search
from .bucket_requests import Bucket, CannotLook

SECONDS = 5.0
"""How long one request may take: shorter than the time between two looks of a guard."""
_TRIES, _PAUSE = 3, 1.0
T = TypeVar("T")


def main(words: list[str]) -> int:
    """Do what a JSON object asks; print the answer."""
    print(json.dumps(answer(json.loads(words[0]))))
    return 0


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Look at the object, claim or release it if asked to; return its `mark`, or an `error`."""
    told: dict[str, Any] = {"mark": None, "error": ""}
    try:
        mark = _as_asked(asked)
        told["mark"] = mark and mark._asdict()
    except CannotLook as trouble:
        told["error"] = one_line(f"the fence {shown(asked['place'])}: {trouble}")
    return told


def _as_asked(asked: dict[str, Any]) -> Mark | None:
    fence_object, ended = FenceObject(asked["place"]), asked.get("ended")
    if ended:
        return fence_object.release(ended["owner"], ended["attempt"])
    return claim_as_asked(asked) if asked["claim"] else fence_object.read()


def claim_as_asked(asked: dict[str, Any]) -> Mark | None:
    """Claim the object for a leader, with the folder to restore from where attempts have their own.

    Asked is with the `place`, the `claim`, and whether attempts have `folders` of their own.
    """
    given = asked["claim"]
    mark = Mark.from_json(given["mark"])
    if mark is None:
        raise CannotLook("there is nothing to claim it for")
    claim = Claim(mark._replace(at=time.time()), given["is_new"], given["is_sure"])
    place = asked["place"]

    def complete(mark: Mark) -> Mark:
        if mark.reserved or not asked["folders"]:
            return mark
        return mark._replace(restore=restore_search.folder(place, mark.attempt, mark.restore))

    return FenceObject(place).claim(claim, complete)


def shown(place: dict[str, Any]) -> str:
    """Return the object's address."""
    return f"gs://{place['bucket']}/{place['name']}"


class FenceObject:
    """One run's fence. A place has `storage` and `metadata` addresses, `bucket` and `name`."""

    def __init__(self, place: dict[str, Any]) -> None:
        self._place = place

    def read(self) -> Mark | None:
        """Return what the object says; None if it is not there, or says nothing."""
        return self._patiently(self._read)[0]

    def read_once(self) -> Mark | None:
        """Do so with one request."""
        return self._read()[0]

    def claim(
        self, claim: Claim, complete: Callable[[Mark], Mark] = lambda mark: mark
    ) -> Mark | None:
        """Have the object name an attempt, unless another gang has it; return what it says then.

        `complete` adds to the mark what takes time to find. Of claims at the same time one
        succeeds. Raises CannotLook where that is not known.
        """
        found, generation = self._patiently(self._read)
        wanted = fence.claimed(found, claim)
        if wanted is None:
            return found
        wanted = complete(wanted)
        data = (json.dumps(wanted._asdict()) + "\n").encode()
        try:
            won = self._write(data, generation)
        except CannotLook:
            # It may be written all the same, and then it names us.
            there = self.read()
            if there is None or (there.owner, there.attempt) != (wanted.owner, wanted.attempt):
                raise
            return there
        return wanted if won else self.read()

    def release(self, owner: str, attempt: int) -> Mark | None:
        """Have the object say that an attempt has ended, if it names it; return what it says then.

        Not tried again, as the machine may go: an heir waits where it is not written.
        """
        found, generation = self._read()
        ended = fence.released(found, owner, attempt)
        if ended is None:
            return found
        ended = ended._replace(at=time.time())
        data = (json.dumps(ended._asdict()) + "\n").encode()
        return ended if self._write(data, generation) else self._read()[0]

    def _patiently(self, ask: Callable[[], T]) -> T:
        for _ in range(_TRIES - 1):
            try:
                return ask()
            except CannotLook:
                time.sleep(_PAUSE)
        return ask()

    def _read(self) -> tuple[Mark | None, int]:
        with closing(self._bucket()) as bucket:
            found = bucket.read(self._place["name"])
        if found is None:
            return None, 0
        return Mark.from_json(json_object(found[0]) or {}), found[1]

    def _write(self, data: bytes, generation: int) -> bool:
        with closing(self._bucket()) as bucket:
            return bucket.write(self._place["name"], data, generation)

    def _bucket(self) -> Bucket:
        place = self._place
        return Bucket(place["storage"], place["metadata"], place["bucket"], SECONDS)
