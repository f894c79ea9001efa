# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places in buckets that slices of a fleet file read or write, and how far they are. No I/O.

A slice may be in any of its zones, so each of its places has to be near all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.checkpoints import bucket_and_folder
from .._core.in_zone import addresses_in, in_zone, region_of, varies
from .._google import bucket_regions
from .._google.bucket_regions import FAR, NEAR, Transfer, transfer
from .._schema.keys import Problem, entries, text_of, texts_of
from .._schema.values import BUCKET_NAME
from .declared import Slice
from .grant import allocation_problems, parse_allocations

Data = Mapping[str, Any]
Buckets = Mapping[str, Mapping[str, Any] | None]
User = tuple[str, str]
"""A slice, and a zone in which it may be."""
ALLOW = "allow"
# The variables that zones_of reads, and all of them.
OF_ZONES = ("fleet_slices", "fleet_zone", "fleet_allocations")
PLACED = (
    "fleet_runs",
    "fleet_buckets",
    "fleet_boards",
    "fleet_datasets",
    "fleet_self_setup",
    "fleet_queue",
    *OF_ZONES,
)
# Keys of a run with an address, or with a text that may have some.
_OF_RUN = ("checkpoint_dir", "archive", "command", "checkpoint_command")


@dataclass(frozen=True)
class BucketPlace:
    """A place in a bucket, as the fleet file names it."""

    field: str
    address: str
    """With `gs://` and its folder; {region} and {zone} may stand in it."""
    slices: tuple[str, ...] = ()
    """The slices that use it; none stands for all."""
    allows: bool = False
    """Whether the fleet file accepts the price of another region."""

    def bucket_in(self, zone: str) -> str:
        """Return the name of the bucket for a machine in a zone."""
        return in_zone(_name_in(self.address), zone)

    def checkpoints_in(self, zone: str) -> str | None:
        """Return what the names of checkpoints there begin with; None if it is not for them."""
        found = bucket_and_folder(in_zone(self.address, zone))
        return found[1] if found and self.field.endswith(".checkpoint_dir") else None


def bucket_places(data: Data) -> list[BucketPlace]:
    """Return the places of a fleet file, those of runs first. What is no bucket's name is left out.

    A key with an address of its own is one line in here.
    """
    found = [*_of_runs(data), *_of_mounts(data), *_of_boards(data), *_of_self_setup(data)]
    found += [*_of_datasets(data), *_of_queue(data)]
    return [one for one in found if BUCKET_NAME.fullmatch(one.bucket_in("us-central1-a"))]


def _of_runs(data: Data) -> Iterator[BucketPlace]:
    for where, run in entries(data, "fleet_runs"):
        env = run.get("env") if isinstance(run.get("env"), Mapping) else {}
        texts = {key: run.get(key) for key in _OF_RUN}
        texts |= {f"env.{key}": value for key, value in (env or {}).items()}
        for key, text in texts.items():
            for address in dict.fromkeys(addresses_in(text)):
                yield _place(f"{where}.{key}", address, run)


def _of_mounts(data: Data) -> Iterator[BucketPlace]:
    for where, entry in entries(data, "fleet_buckets"):
        name = text_of(entry, "bucket")
        if name:
            yield _place(f"{where}.bucket", f"gs://{name}", entry)


def _of_datasets(data: Data) -> Iterator[BucketPlace]:
    for where, entry in entries(data, "fleet_datasets"):
        for address in addresses_in(entry.get("from")):
            yield _place(f"{where}.from", address, entry)


def _of_boards(data: Data) -> Iterator[BucketPlace]:
    for where, board in entries(data, "fleet_boards"):
        logs = board.get("logs") if isinstance(board.get("logs"), Mapping) else {}
        for key, text in (logs or {}).items():
            for address in addresses_in(text):
                yield _place(f"{where}.logs.{key}", address, board)


def _of_self_setup(data: Data) -> Iterator[BucketPlace]:
    place = data.get("fleet_self_setup")
    bucket = text_of(place, "bucket") if isinstance(place, Mapping) else None
    slices = tuple(
        str(entry.get("name"))
        for _where, entry in entries(data, "fleet_slices")
        if entry.get("self_setup") is True
    )
    if bucket and slices and isinstance(place, Mapping):
        address = f"gs://{bucket.removeprefix('gs://')}"
        allows = place.get("cross_region") == ALLOW
        yield BucketPlace("fleet_self_setup.bucket", address, slices, allows)


def _of_queue(data: Data) -> Iterator[BucketPlace]:
    declared = data.get("fleet_queue")
    queue: Data = declared if isinstance(declared, Mapping) else {}
    for address in addresses_in(queue.get("bucket")):
        yield _place("fleet_queue.bucket", address, queue)


def _place(where: str, address: str, entry: Data) -> BucketPlace:
    slices = tuple(name for _index, name in texts_of(entry, "slices"))
    return BucketPlace(where, address, slices, entry.get("cross_region") == ALLOW)


def _name_in(address: str) -> str:
    return address.removeprefix("gs://").partition("/")[0]


def zones_of(data: Data) -> dict[str, tuple[str, ...]]:
    """Return all zones in which each slice may be."""
    raw = data.get("fleet_allocations")
    grant = None if raw is None or allocation_problems(raw) else parse_allocations(raw)
    default = text_of(data, "fleet_zone")
    found = (Slice.read(entry, default, grant=grant) for _w, entry in entries(data, "fleet_slices"))
    return {one.name: one.zones for one in found if one.name}


# -- where they are ------------------------------------------------------------------------------


@dataclass
class Verdict:
    """The problems and warnings of the places."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """The places whose price is accepted, each with it."""


@dataclass(frozen=True)
class Places:
    """Places in buckets, with the zones in which each slice may be."""

    places: Sequence[BucketPlace]
    zones: Mapping[str, Sequence[str]]

    @classmethod
    def declared(cls, data: Data) -> Places:
        """Return those of a fleet file."""
        return cls(bucket_places(data), zones_of(data))

    def buckets(self) -> list[str]:
        """Return the names of all buckets that slices may use, each once."""
        return sorted({place.bucket_in(zone) for place, _slice, zone in self._users()})

    def asked(self) -> list[dict[str, Any]]:
        """Return for each bucket what the doctor asks for: name, zones, and folders of runs."""
        found: dict[str, dict[str, Any]] = {}
        for place, _slice, zone in self._users():
            name = place.bucket_in(zone)
            one = found.setdefault(name, {"name": name, "zones": [], "folders": []})
            if not place.allows and zone not in one["zones"]:
                one["zones"].append(zone)
            folder = place.checkpoints_in(zone)
            if folder is not None and folder not in one["folders"]:
                one["folders"].append(folder)
        return [found[name] for name in sorted(found)]

    def judged(self, found: Buckets) -> Verdict:
        """Judge the places by their buckets, as Cloud Storage shows them; None is unknown."""
        verdict = Verdict()
        for (place, name, between), users in self._apart(found).items():
            line = _line(name, between, users)
            if place.allows:
                verdict.allowed.append(f"{place.field}: {line}")
            elif between.kind == NEAR:
                verdict.warnings.append(f"{place.field}: {line}. {_remedy(place, users)}.")
            else:
                problem = Problem(place.field, _shown(place), line, _remedy(place, users))
                verdict.problems.append(problem)
        return verdict

    def missing(self, name: str) -> str:
        """Return the warning that a bucket does not exist."""
        fields, region = self._about(name)
        return (
            f"{fields}: there is no bucket {name}. Make it: "
            f"gcloud storage buckets create gs://{name} --location={region}"
        )

    def hidden(self, name: str, why: str) -> str:
        """Return the warning that it cannot be seen where a bucket is."""
        fields, _region = self._about(name)
        return (
            f"{fields}: it is not known where bucket {name} is, and what its traffic costs "
            f"({why.rstrip('.')}). Give the account that runs this the right storage.buckets.get: "
            f"gcloud storage buckets add-iam-policy-binding gs://{name} --member=MEMBER "
            "--role=roles/storage.bucketViewer"
        )

    def _users(self) -> Iterator[tuple[BucketPlace, str, str]]:
        """Yield each place with each slice that uses it, in each of its zones."""
        for place in self.places:
            for name in place.slices or self.zones:
                for zone in self.zones.get(name, ()):
                    yield place, name, zone

    def _apart(self, found: Buckets) -> dict[tuple[BucketPlace, str, Transfer], list[User]]:
        """Return from where places cost: slices and zones, by bucket and what lies between."""
        apart: dict[tuple[BucketPlace, str, Transfer], list[User]] = {}
        for place, name, zone in self._users():
            own = place.bucket_in(zone)
            bucket = found.get(own)
            between = transfer(bucket, region_of(zone)) if bucket else None
            if between is not None and between.kind in (NEAR, FAR):
                apart.setdefault((place, own, between), []).append((name, zone))
        return apart

    def _about(self, name: str) -> tuple[str, str]:
        """Return the fields that name a bucket, and its region if its slices have one."""
        users = [(p.field, zone) for p, _slice, zone in self._users() if p.bucket_in(zone) == name]
        regions = {region_of(zone) for _field, zone in users}
        return _each(own for own, _zone in users), regions.pop() if len(regions) == 1 else "REGION"


def _line(name: str, between: Transfer, users: Sequence[User]) -> str:
    slices = list(dict.fromkeys(slice_name for slice_name, _zone in users))
    word = "slice" if len(slices) == 1 else "slices"
    costs = "reads cost" if between.kind == NEAR else "what goes between them costs"
    return (
        f"bucket {name} is in {between.place}, and {word} {_each(slices)} may be in "
        f"{_each(zone for _name, zone in users)}: {costs} {between.price} (list price of "
        f"{bucket_regions.DATE})"
    )


def _remedy(place: BucketPlace, users: Sequence[User]) -> str:
    regions = list(dict.fromkeys(region_of(zone) for _name, zone in users))
    accept = f"accept the price with cross_region: allow in {place.field.partition('.')[0]}"
    if place.field.startswith("fleet_queue."):
        near = "Let only slices of the bucket's region serve the queue, by fleet_queue.slices"
        return f"{near}, or {accept}"
    if varies(place.address) or len(regions) > 1:
        return f"Name a bucket for each region, as gs://NAME-{{region}}, or {accept}"
    return (
        f"Use a bucket in {regions[0]}, name one for each region, as gs://NAME-{{region}}, or "
        f"{accept}"
    )


def _shown(place: BucketPlace) -> str | None:
    """Return the address where it is the whole value; elsewhere secrets may stand beside it."""
    key = place.field.rpartition(".")[2]
    return place.address if key in ("checkpoint_dir", "bucket", "from") else None


def _each(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))
