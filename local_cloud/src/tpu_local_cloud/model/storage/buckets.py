"""The buckets of a cloud. Contents arrive outside the lock; checks and changes happen under it."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from ...compute_errors import ComputeError
from ..shared.clock import Clock, seconds_of
from ..shared.faults import Faults
from . import documents, lifecycle, listing
from .conditions import NONE, Conditions
from .contents import Contents, Received
from .index import Document, Index, Row, State

# Objects whose last write is remembered.
WRITTEN = 10_000
# What an object has of its content.
_SAME = ("size", "md5Hash", "crc32c", "componentCount")


class Buckets:
    """Buckets and objects, below a folder, or without one in a folder that ends with the process.

    Everything that raises does so with the answer of the JSON API, as a ComputeError.
    """

    def __init__(self, root: Path | None, clock: Clock, faults: Faults, number: str) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self._root, self._faults, self._number = root, faults, number
        self._looked: dict[str, float] = {}
        self._written: dict[tuple[str, str], float] = {}
        # Contents of the change that goes on.
        self._new: list[int] = []

    # The folder is made when it is first needed: most clouds of tests have no bucket.
    @cached_property
    def _folder(self) -> Path:
        folder = self._root or Path(tempfile.mkdtemp(prefix="buckets-"))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    @cached_property
    def contents(self) -> Contents:
        """Return the files."""
        return Contents(self._folder, durable=self._root is not None)

    @cached_property
    def index(self) -> Index:
        """Return the database, after removal of what a killed server left."""
        with self.lock:
            index = Index(self._folder / "index.db")
            self.contents.sweep(index.numbers(), {name for name, _ in index.uploads()})
            return index

    @property
    def _begun(self) -> bool:
        return "index" in vars(self) or bool(self._root and self._root.exists())

    def close(self) -> None:
        """Close the database; buckets without a folder of their own are deleted."""
        with self.lock:
            if "index" in vars(self):
                vars(self).pop("index").close()
            if "_folder" in vars(self) and self._root is None:
                shutil.rmtree(vars(self).pop("_folder"), ignore_errors=True)
                vars(self).pop("contents", None)

    def clear(self) -> None:
        """Delete everything."""
        if self._begun:
            with self.lock:
                for bucket in self.index.buckets():
                    self._remove(bucket["name"])

    @contextmanager
    def change(self) -> Iterator[float]:
        """Hold the lock, and do all changes or none; the value is the present moment."""
        with self.lock:
            self._new = []
            try:
                with self.index.transaction():
                    yield self.clock.now()
            except BaseException:
                self._drop(self._new)
                raise

    # Buckets ----------------------------------------------------------------------------------

    def bucket(self, name: str) -> Document:
        """Return a bucket, after what time has done to it; raise if there is none."""
        with self.lock:
            found = self.index.bucket(name)
            if found is None:
                text = "The specified bucket does not exist."
                raise ComputeError(404, "notFound", text, "NOT_FOUND")
            self._pass_time(found)
            return found

    def has(self, name: str) -> bool:
        """Return whether there is a bucket."""
        with self.lock:
            return self._begun and self.index.bucket(name) is not None

    def all(self) -> list[Document]:
        """Return all buckets by name."""
        with self.lock:
            return self.index.buckets() if self._begun else []

    def make(self, wanted: Mapping[str, Any]) -> Document:
        """Create a bucket."""
        lifecycle.check(wanted)
        with self.change() as now:
            document = documents.new_bucket(wanted, now, self._number)
            if self.index.bucket(document["name"]) is not None:
                text = (
                    "Your previous request to create the named bucket succeeded and you already "
                    "own it."
                )
                raise ComputeError(409, "conflict", text, "ALREADY_EXISTS")
            self.index.put_bucket(document)
            return document

    def alter(
        self, name: str, wanted: Mapping[str, Any], conditions: Conditions, replace: bool
    ) -> Document:
        """Change a bucket's configuration."""
        lifecycle.check(wanted)
        before = self.bucket(name)
        with self.change() as now:
            before = self.index.bucket(name) or before
            conditions.check(before)
            changed = documents.changed_bucket(before, wanted, now, replace)
            self.index.put_bucket(changed)
            self._looked.pop(name, None)
            return changed

    def delete_bucket(self, name: str, conditions: Conditions) -> None:
        """Delete a bucket that has no objects; what is softly deleted goes with it."""
        with self.lock:
            conditions.check(self.bucket(name))
            if self.index.holds(name):
                text = "The bucket you tried to delete is not empty."
                raise ComputeError(409, "conflict", text, "FAILED_PRECONDITION")
            self._remove(name)

    def _remove(self, name: str) -> None:
        with self.index.transaction():
            uploads = [key for key, each in self.index.uploads() if each["bucket"] == name]
            numbers = self.index.drop_bucket(name)
        for number in numbers:
            self.contents.drop(number)
        for key in uploads:
            self.contents.abandon(key)

    # Reading ----------------------------------------------------------------------------------

    def find(self, bucket: str, name: str, generation: str = "", soft: bool = False) -> Row:
        """Return an object, or one of its generations; soft: one that is softly deleted."""
        with self.lock:
            self.bucket(bucket)
            if generation:
                found = self.index.generation(bucket, name, _number(generation))
            else:
                found = self.index.live(bucket, name)
            if found is None or (found.state == "soft") != soft:
                at = f"#{generation}" if generation else ""
                text = f"No such object: {bucket}/{name}{at}"
                raise ComputeError(404, "notFound", text, "NOT_FOUND")
            return found

    def open(
        self, bucket: str, name: str, generation: str, conditions: Conditions
    ) -> tuple[Document, BinaryIO]:
        """Return an object and its open content."""
        with self.lock:
            found = self.find(bucket, name, generation)
            conditions.check(found.document, reading=True)
            return found.document, self.contents.open(found.generation)

    def listed(
        self, bucket: str, states: tuple[State, ...], asked: listing.Question
    ) -> listing.Page:
        """Return a page of the objects in these states."""
        with self.lock:
            self.bucket(bucket)
            return listing.page(lambda *place: self.index.after(bucket, states, *place), asked)

    # Writing ----------------------------------------------------------------------------------

    def store(
        self,
        bucket: str,
        name: str,
        about: Mapping[str, Any],
        parts: Iterable[bytes],
        conditions: Conditions,
        may_replace: bool = True,
        **more: Any,
    ) -> Document:
        """Make bytes an object. more: fields of the document, None to leave one out."""
        documents.check_object_name(name)
        self.bucket(bucket)
        received = self.contents.receive(parts)
        try:
            return self.commit(bucket, name, about, received, conditions, may_replace, **more)
        finally:
            received.path.unlink(missing_ok=True)

    def commit(
        self,
        bucket: str,
        name: str,
        about: Mapping[str, Any],
        received: Received,
        conditions: Conditions,
        may_replace: bool = True,
        upload: str = "",
        **more: Any,
    ) -> Document:
        """Make a received file an object, if the conditions hold; its upload is then over."""
        found = {**documents.of_sums(received.sums), **more}
        sums = {key: value for key, value in found.items() if value is not None}
        documents.check_sums(about, sums)
        dropped: list[int] = []
        with self.lock:
            holder = self.bucket(bucket)
            with self.change() as now:
                generation = self._enter(holder, name, conditions, may_replace, dropped)
                document = documents.new_object(holder, name, generation, about, now) | sums
                self.index.put(Row(name, generation, "live", document))
                self._end_upload(upload, document)
                self._new.append(generation)
                self.contents.keep(received, generation)
            received.path.unlink()
            self._drop(dropped)
        return document

    def _end_upload(self, upload: str, document: Document) -> None:
        """Remember what became of an upload, for a client that asks again."""
        known = self.index.upload(upload) if upload else None
        if known:
            self.index.put_upload(upload, {**known, "done": document})

    def copy(
        self,
        source: Row,
        bucket: str,
        name: str,
        about: Mapping[str, Any],
        conditions: Conditions,
        source_conditions: Conditions = NONE,
        may_replace: bool = True,
        move: bool = False,
    ) -> Document:
        """Give a content another name; move: it loses the one that it had."""
        documents.check_object_name(name)
        dropped: list[int] = []
        with self.lock:
            holder = self.bucket(bucket)
            with self.change() as now:
                again = self._again(source)
                source_conditions.check(again.document)
                generation = self._enter(holder, name, conditions, may_replace, dropped)
                document = documents.new_object(holder, name, generation, about, now)
                document |= {key: again.document[key] for key in _SAME if key in again.document}
                self._new.append(generation)
                self.contents.copy(source.generation, generation)
                self.index.put(Row(name, generation, "live", document))
                if move:
                    self._limit(bucket, source.name)
                    dropped += self._retire(holder, again)
            self._drop(dropped)
        return document

    def _again(self, row: Row) -> Row:
        """Return a row as it is now."""
        found = self.index.generation(row.document["bucket"], row.name, row.generation)
        if found is None:
            text = f"No such object: {row.document['bucket']}/{row.name}"
            raise ComputeError(404, "notFound", text, "NOT_FOUND")
        return found

    def update(
        self,
        bucket: str,
        name: str,
        generation: str,
        wanted: Mapping[str, Any],
        conditions: Conditions,
        replace: bool = False,
    ) -> Document:
        """Change an object's metadata."""
        documents.check_time(wanted)
        with self.lock:
            found = self.find(bucket, name, generation)
            with self.change() as now:
                conditions.check(found.document)
                self._limit(bucket, name)
                changed = documents.changed_object(found.document, wanted, now, replace)
                self.index.put(Row(name, found.generation, found.state, changed))
                return changed

    def delete(self, bucket: str, name: str, generation: str, conditions: Conditions) -> None:
        """Delete an object, or one of its generations for good."""
        with self.lock:
            holder, found = self.bucket(bucket), self.find(bucket, name, generation)
            conditions.check(found.document)
            with self.change():
                self._limit(bucket, name)
                dropped = self._retire(holder, found, for_good=bool(generation))
            self._drop(dropped)

    def _enter(
        self,
        holder: Document,
        name: str,
        conditions: Conditions,
        may_replace: bool,
        dropped: list[int],
    ) -> int:
        """Make room for a new generation of a name, and return its number."""
        before = self.index.live(holder["name"], name)
        conditions.check(before.document if before else None)
        self._limit(holder["name"], name)
        if before is not None:
            if not may_replace:
                raise no_access("storage.objects.delete")
            dropped += self._retire(holder, before)
        return self.index.next_generation(int(self.clock.now() * 1e6))

    def _retire(self, holder: Document, row: Row, for_good: bool = False) -> list[int]:
        """Do what happens to a deleted or replaced generation; return contents to drop."""
        self._check_kept(holder, row.document)
        now, seconds = self.clock.now(), _soft_delete(holder)
        versioned = (holder.get("versioning") or {}).get("enabled")
        if versioned and row.state == "live" and not for_good:
            document = {**row.document, "timeDeleted": documents.moment(now)}
            self.index.put(Row(row.name, row.generation, "old", document))
            return []
        if seconds:
            ends = {"softDeleteTime": documents.moment(now)}
            ends["hardDeleteTime"] = documents.moment(now + seconds)
            document = {**row.document, **ends}
            self.index.put(Row(row.name, row.generation, "soft", document), now + seconds)
            return []
        self.index.drop(holder["name"], row.name, row.generation)
        return [row.generation]

    def _check_kept(self, holder: Document, document: Document) -> None:
        """Raise if a hold or the bucket's retention keeps a generation."""
        name = f"{document['bucket']}/{document['name']}"
        for key, what in (("temporaryHold", "Temporary"), ("eventBasedHold", "Event-Based")):
            if document.get(key):
                text = (
                    f"Object '{name}' is under active {what} hold and cannot be deleted, "
                    "overwritten or archived until hold is removed."
                )
                raise ComputeError(403, "objectUnderActiveHold", text, "PERMISSION_DENIED")
        period = int((holder.get("retentionPolicy") or {}).get("retentionPeriod") or 0)
        until = seconds_of(document["timeCreated"]) + period
        if period and self.clock.now() < until:
            text = (
                f"Object '{name}' is subject to bucket's retention policy or object retention and "
                f"cannot be deleted or overwritten until {documents.moment(until)}"
            )
            raise ComputeError(403, "retentionPolicyNotMet", text, "PERMISSION_DENIED")

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            self.contents.drop(number)

    def _limit(self, bucket: str, name: str) -> None:
        """Note a write; raise if the owner limits how soon the next one may follow."""
        key, now = (bucket, name), self.clock.now()
        last = self._written.get(key, float("-inf"))
        where = {"service": "storage", "bucket": bucket, "object": name}
        soon = self._faults.hit(
            "object_rate", now, lambda f: now - last < float(f.options.get("seconds", 1)), **where
        )
        if soon:
            raise too_often(bucket, name)
        if len(self._written) >= WRITTEN:
            self._written.clear()
        self._written[key] = now

    # Time -------------------------------------------------------------------------------------

    def _pass_time(self, holder: Document) -> None:
        """Delete what has ended, and follow the bucket's lifecycle, as far as it is due."""
        now = self.clock.now()
        for bucket, name, number in self.index.ended(now):
            self.index.drop(bucket, name, number)
            self.contents.drop(number)
        rules = holder.get("lifecycle")
        if rules and now - self._looked.get(holder["name"], 0.0) >= lifecycle.EVERY:
            self._looked[holder["name"]] = now
            self._follow(holder, rules, now)

    def _follow(self, holder: Document, rules: Mapping[str, Any], now: float) -> None:
        rows = list(self.index.after(holder["name"], ("live", "old"), ""))
        counts: dict[str, int] = {}
        due = []
        for row in reversed(rows):
            wanted = lifecycle.action(rules, row, counts.get(row.name, 0), now)
            counts[row.name] = counts.get(row.name, 0) + 1
            if wanted:
                due.append((row, wanted))
        dropped: list[int] = []
        with self.index.transaction():
            for row, wanted in due:
                dropped += self._act(holder, row, wanted, now)
        self._drop(dropped)
        for name, upload in self.index.uploads():
            if upload["bucket"] == holder["name"] and lifecycle.aborts(rules, upload, now):
                self.index.drop_upload(name)
                self.contents.abandon(name)

    def _act(self, holder: Document, row: Row, wanted: Mapping[str, Any], now: float) -> list[int]:
        if wanted["type"] == "Delete":
            try:
                return self._retire(holder, row, for_good=row.state == "old")
            except ComputeError:
                # A hold or a retention: the rule waits.
                return []
        if row.document["storageClass"] != wanted["storageClass"]:
            changed = documents.changed_object(row.document, {}, now)
            changed |= {"storageClass": wanted["storageClass"]}
            changed |= {"timeStorageClassUpdated": documents.moment(now)}
            self.index.put(Row(row.name, row.generation, row.state, changed))
        return []


def _soft_delete(holder: Document) -> int:
    return int((holder.get("softDeletePolicy") or {}).get("retentionDurationSeconds") or 0)


def _number(generation: str) -> int:
    if not generation.isdecimal() or len(generation) > 18:
        text = f"Invalid value for generation: '{generation}'. Send a number."
        raise ComputeError(400, "invalid", text)
    return int(generation)


def no_access(permission: str, who: str = "The caller") -> ComputeError:
    """A permission is missing."""
    kind = "bucket" if permission.startswith("storage.buckets.") else "object"
    text = (
        f"{who} does not have {permission} access to the Google Cloud Storage {kind}. "
        f"Permission '{permission}' denied on resource (or it may not exist)."
    )
    return ComputeError(403, "forbidden", text, "PERMISSION_DENIED")


def too_often(bucket: str, name: str) -> ComputeError:
    """An object is written faster than Google allows: about once a second."""
    text = (
        f"The object {bucket}/{name} exceeded the rate limit for object mutation operations "
        "(create, update, and delete). Please reduce your request rate. See "
        "https://cloud.google.com/storage/docs/gcs429."
    )
    return ComputeError(429, "rateLimitExceeded", text, "RESOURCE_EXHAUSTED")
