"""`tpu-fleet checkpoints`: what is kept of runs, also when no slice exists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import (
    UNFINISHED,
    Checkpoint,
    bucket_and_folder,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.in_zone import in_zone
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, visible
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.bucket_places import (
    OF_ZONES,
    zones_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.checkpoints import CheckpointFolder
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage_prices import usd_per_month
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.definition import (
    checkpoint_folder,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..page.words import iso, long
from ..show.console import say, wide_console
from ..show.cost import dollars
from ..show.figures import amount, size
from ..show.table import Column, Table, print_tables
from ..show.waiting import waiting_for
from ..workers.ask.checkpoint_folders import ask_for_folder
from ..workers.inventory.client import client_of
from ..workers.inventory.hosts import Known, in_order
from ..workers.inventory.lookup import known_fleet
from ..workers.inventory.names import NameOf, no_such
from ..workers.inventory.read import read_inventory
from .many import guarded

COLUMNS = (
    Column("RUN"),
    Column("STEP", right=True),
    Column("STATE"),
    Column("AGE", 1, right=True),
    Column("SIZE", 2, right=True),
    Column("A MONTH", 3, right=True),
    Column("NAME", 4),
)
LEFTOVER = "leftover"


@dataclass(frozen=True)
class Found:
    """The checkpoints of a run in one place."""

    run: str
    place: str
    worker: str = ""
    """The worker whose folder it is; empty for a bucket."""
    user: str = ""
    checkpoints: Sequence[Checkpoint] = ()
    leftovers: Sequence[Checkpoint] = ()
    usd_per_gb_month: float | None = None
    notes: Sequence[str] = ()
    problem: str = ""
    """Why it is not known what is there; or what could not be deleted."""
    deleted: Sequence[str] = ()

    @property
    def bytes(self) -> int:
        """The size of all."""
        return sum(one.size for one in self.checkpoints)

    @property
    def usd(self) -> float | None:
        """The price of a month; None if it is unknown, or there is none of its own."""
        return usd_per_month(self.bytes, self.usd_per_gb_month)

    def state_of(self, one: Checkpoint) -> str:
        """Return the state of a checkpoint in words."""
        return LEFTOVER if one in self.leftovers else one.state

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "run": self.run,
            "place": self.place,
            "worker": self.worker or None,
            "bytes": self.bytes,
            "usd_per_month": self.usd,
            "checkpoints": [self._told(one, now) for one in self.checkpoints],
            "deleted": list(self.deleted),
            "notes": list(self.notes),
            "problem": self.problem or None,
        }

    def _told(self, one: Checkpoint, now: float) -> dict[str, Any]:
        return {
            "name": one.name,
            "step": one.step,
            "state": one.state,
            "leftover": one in self.leftovers,
            "time": iso(one.at),
            "seconds": round(max(0.0, now - one.at), 1),
            "bytes": one.size,
            "objects": one.objects,
            "usd_per_month": usd_per_month(one.size, self.usd_per_gb_month),
        }


class Place(Protocol):
    """Where checkpoints of a run are."""

    def look(self) -> Found:
        """Return what is there."""

    def delete(self, found: Found) -> Found:
        """Delete the leftovers that a look found; return what is there then."""


@dataclass(frozen=True)
class InBucket:
    """A folder of a bucket."""

    run: str
    place: str
    folder: CheckpointFolder

    def look(self) -> Found:
        """List it."""
        nothing = Found(self.run, self.place)
        try:
            seen = self.folder.contents()
        except TpuError as error:
            return replace(nothing, problem=str(error))
        notes = []
        if seen.is_cut:
            notes.append("it has more objects than were listed, so nothing counts as a leftover")
        if seen.refused:
            notes.append(f"{amount(seen.refused, 'object')} with an odd name or size left out")
        return replace(
            nothing,
            checkpoints=seen.checkpoints,
            leftovers=seen.leftovers,
            usd_per_gb_month=seen.usd_per_gb_month,
            notes=notes,
        )

    def delete(self, found: Found) -> Found:
        """Delete one after the other; a failure leaves the others."""
        problems = []
        for one in found.leftovers:
            try:
                self.folder.delete(one)
            except TpuError as error:
                problems.append(str(error))
        after = self.look()
        return replace(after, problem=" ".join([*problems, after.problem]).strip())


@dataclass(frozen=True)
class OnWorker:
    """A folder of a worker, or of a share that it sees."""

    run: str
    place: str
    known: Known
    worker: str
    user: str

    def look(self) -> Found:
        """Ask the worker."""
        return self._asked({})

    def delete(self, found: Found) -> Found:
        """Have the worker delete."""
        return self._asked({one.name: one.at for one in found.leftovers})

    def _asked(self, delete: Mapping[str, float]) -> Found:
        seen = ask_for_folder(self.known, self.worker, self.user, self.place, delete)
        notes = ["it has more files than were listed"] if seen.is_cut else []
        return Found(
            self.run,
            self.place,
            self.worker,
            self.user,
            seen.checkpoints,
            seen.leftovers,
            notes=notes,
            problem=seen.problem,
        )


@dataclass(frozen=True)
class Nowhere:
    """A run whose checkpoints cannot be seen from here."""

    run: str
    place: str
    problem: str = ""
    note: str = ""

    def look(self) -> Found:
        """Return why."""
        notes = [self.note] if self.note else []
        return Found(self.run, self.place, notes=notes, problem=self.problem)

    def delete(self, found: Found) -> Found:
        """Delete nothing."""
        return found


@dataclass
class Places:
    """Finds where the runs of a fleet file keep their checkpoints."""

    inventory: Inventory
    apis: Callable[[], GoogleApis]
    known: Callable[[], Known]
    _known: list[Known] = field(default_factory=list)

    def of(self, run: Mapping[str, Any]) -> Iterator[Place]:
        """Yield the places of a run: one, or one on each slice that has its own folder."""
        name, address = str(run["name"]), str(checkpoint_folder(run) or "")
        if address.startswith("gs://"):
            for one in self._in_zones(run, address):
                yield self._in_bucket(name, one)
        elif address.startswith("/"):
            for one in map(str, run["slices"]):
                yield self._on_slice(run, address, one)
        else:
            yield Nowhere(name, address, note="it declares no folder for checkpoints")

    def _in_zones(self, run: Mapping[str, Any], address: str) -> list[str]:
        """Return an address for each place in which a slice of the run may be, each once."""
        data = {name: self.inventory.said(name, None) for name in OF_ZONES}
        zones = zones_of({name: value for name, value in data.items() if value is not None})
        own = [zone for one in run["slices"] for zone in zones.get(str(one), ())]
        return list(dict.fromkeys(in_zone(address, zone) for zone in own or [""]))

    def _in_bucket(self, name: str, address: str) -> Place:
        bucket = bucket_and_folder(address)
        if bucket is None:
            return Nowhere(name, address, "it is no address of a bucket: write gs://BUCKET/FOLDER")
        return InBucket(name, address, CheckpointFolder(self.apis(), *bucket))

    def _on_slice(self, run: Mapping[str, Any], folder: str, name: str) -> Place:
        known = self._fleet()
        members = known.fleet.groups.get(group_name("tpu_slice", name), ())
        there = [one for one in in_order(members) if one in known.fleet.targets]
        if not there:
            gone = f"slice {name} does not exist now, and the folder is seen only from there"
            return Nowhere(str(run["name"]), folder, gone)
        return OnWorker(str(run["name"]), folder, known, there[0], str(run["user"]))

    def _fleet(self) -> Known:
        if not self._known:
            self._known.append(self.known())
        return self._known[0]


def declared_runs(inventory: Inventory, wanted: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the runs of the fleet file, or those with these names; fail for an unknown one."""
    runs = list(inventory.said("fleet_runs", ()))
    names = [str(run["name"]) for run in runs]
    for name in wanted:
        if name not in names:
            raise click.ClickException(visible(no_such("run", name, names)))
    return [run for run in runs if not wanted or run["name"] in wanted]


def table_of(found: Sequence[Found], now: float) -> Table:
    """Draw the checkpoints, the oldest of each run first."""
    table = Table(COLUMNS)
    for one in found:
        for checkpoint in one.checkpoints:
            state = one.state_of(checkpoint)
            table.add(
                one.run,
                "-" if checkpoint.step is None else f"{checkpoint.step:,}",
                state,
                long(max(0.0, now - checkpoint.at)),
                size(checkpoint.size),
                price(usd_per_month(checkpoint.size, one.usd_per_gb_month)),
                shown(checkpoint.name, 120),
                style="red" if state == LEFTOVER else "yellow" if state == UNFINISHED else "",
            )
    return table


def price(usd: float | None) -> str:
    """Format a price; what is less than a cent is not free."""
    if usd is None:
        return "-"
    return "< $0.01" if 0 < usd < 0.01 else dollars(usd)


def summary(one: Found) -> str:
    """Describe a place in one sentence."""
    where = f"{one.place} on {one.worker}" if one.worker else one.place
    if not one.checkpoints and (one.problem or not one.place):
        return visible(": ".join(filter(None, (one.run, where, one.problem, *one.notes))))
    parts = [amount(len(one.checkpoints), "checkpoint"), size(one.bytes)]
    if one.usd is not None:
        parts.append(f"{price(one.usd)} a month")
    elif not one.worker:
        parts.append("price unknown")
    if one.leftovers:
        parts.append(f"{amount(len(one.leftovers), 'leftover')} of {size_of(one.leftovers)}")
    parts += [*one.notes, *([one.problem] if one.problem else [])]
    return visible(f"{one.run}: {where}: {', '.join(parts)}")


@dataclass(frozen=True)
class Report:
    """What the command prints: tables and lines, or JSON at the end."""

    as_json: bool

    def show(self, found: Sequence[Found]) -> None:
        """Print tables and lines; programs get one object at the end."""
        if self.as_json:
            return
        table, console = table_of(found, time.time()), wide_console()
        if table.rows:
            print_tables(console, table)
        for one in found:
            say(console, summary(one))

    def end(self, found: Sequence[Found], deletes: bool) -> int:
        """Print what is there, and was deleted; return the exit code."""
        now = time.time()
        if self.as_json:
            print_json("checkpoints", {"runs": [one.to_dict(now) for one in found]})
        elif deletes:
            click.echo(f"Deleted {amount(sum(len(one.deleted) for one in found), 'leftover')}.")
            for problem in (one.problem for one in found if one.problem):
                click.echo(visible(problem), err=True)
        else:
            self.show(found)
        return Exit.FAILED if any(one.problem for one in found) else Exit.DONE


def size_of(checkpoints: Iterable[Checkpoint]) -> str:
    """Return the size of several."""
    return size(sum(one.size for one in checkpoints))


def delete_leftovers(
    places: Sequence[Place], found: Sequence[Found], agreed: Callable[[str], bool]
) -> list[Found]:
    """Delete what is left over, if the user agrees; return what is there then."""
    those = [left for one in found for left in one.leftovers]
    if not those:
        return list(found)
    if not agreed(f"Delete {amount(len(those), 'leftover')} of {size_of(those)} for ever?"):
        return list(found)
    return [
        without(one, place.delete(one)) if one.leftovers else one
        for place, one in zip(places, found, strict=True)
    ]


def without(before: Found, after: Found) -> Found:
    """Return what is there after a deletion, with the names of what was deleted."""
    there = {one.name for one in after.checkpoints}
    gone = [] if after.problem and not there else before.leftovers
    return replace(after, deleted=[one.name for one in gone if one.name not in there])


@click.command()
@click.option(
    "--delete-leftovers",
    "deletes",
    is_flag=True,
    help="Delete unfinished checkpoints that a later, whole one replaces, after a question.",
)
@click.option("--yes", is_flag=True, help="Do not ask for agreement to --delete-leftovers.")
@option_json()
@click.argument("wanted", type=NameOf("runs"), nargs=-1, metavar="[RUN]...")
@click.pass_context
def checkpoints(
    context: click.Context,
    deletes: bool,
    yes: bool,
    machine_readable: bool,
    wanted: tuple[str, ...],
) -> None:
    """Show the checkpoints of runs: step, state, age, size, price.

    Those in a bucket are seen with this computer's credentials, also when no slice exists; those in
    a folder through a worker. A MONTH is the list price of the bucket's region, without what soft
    delete keeps. A whole checkpoint has the mark of its writer (Orbax, MaxText, Levanter), or is
    one file. A leftover is an unfinished one to which nothing was written since a later one beside
    it became whole.

    --delete-leftovers shows these, asks, and deletes them and nothing else.

    \b
      tpu-fleet checkpoints digits
      tpu-fleet checkpoints --delete-leftovers
    """
    if yes and not deletes:
        raise click.UsageError("--yes goes with --delete-leftovers.")
    if deletes and machine_readable and not yes:
        raise click.UsageError("--delete-leftovers with --json needs --yes, as it cannot ask.")

    report = Report(machine_readable)

    def work() -> int:
        places = places_of(wanted)
        with waiting_for(f"Looking at the checkpoints in {amount(len(places), 'place')}"):
            found = [place.look() for place in places]
        if deletes:
            report.show(found)
            found = delete_leftovers(places, found, lambda text: yes or click.confirm(text))
        return report.end(found, deletes)

    context.exit(guarded(work, "Interrupted. What was deleted is gone; the rest is there."))


def places_of(wanted: Sequence[str]) -> list[Place]:
    """Return where the runs keep their checkpoints."""
    inventory = read_inventory()
    apis: list[GoogleApis] = []

    def connected() -> GoogleApis:
        if not apis:
            apis.append(GoogleApis(client_of(inventory)))
        return apis[0]

    places = Places(inventory, connected, lambda: known_fleet(False))
    return [place for run in declared_runs(inventory, wanted) for place in places.of(run)]
