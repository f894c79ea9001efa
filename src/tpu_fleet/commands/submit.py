"""`tpu-fleet submit`: put runs into the queue in a bucket, from which slices take them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..queue.fleet import QueueError
from ..queue.sign import SignError
from ..queue.submit import Submission, Submitting
from ..queue.sweep import SubmitError, read_sweep
from ..queue.wanted import NONE, Wanted, wanted_of
from ..show.console import say, wide_console
from ..show.figures import amount
from ..show.waiting import waiting_for
from ..workers.inventory.ansible_config import inventory_sources
from ..workers.inventory.names import NameOf, remember
from ..workers.inventory.read import PlayError
from .many import guarded

T = TypeVar("T")
FROM = "tpu_fleet.from"
"""In the context: the folder in which the command was called, before --fleet."""
MOST_LINES = 20
"""Runs of a sweep that get a line each."""


def explained(work: Callable[[], T]) -> T:
    """Do something with the queue; what can go wrong with it is an error of the command."""
    try:
        return work()
    except SubmitError as error:
        raise click.ClickException(f"{error}.\nNothing was submitted.") from error
    except NoAnswer as error:
        raise click.ClickException(f"The queue does not answer: {error}") from error
    except (SignError, QueueError, PlayError, InventoryError, TpuError) as error:
        raise click.ClickException(str(error)) from error


def names_in(texts: Sequence[str]) -> list[str]:
    """Return the names in texts with commas between them."""
    return list(dict.fromkeys(one for text in texts for one in text.split(",") if one))


def wanted_in(path: Path, defaults: Wanted) -> list[Wanted]:
    """Return what a file asks for: one run, or a list of them; raises SubmitError."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SubmitError(
            f"--file {path}: it cannot be read: {why}. Name a file with a run, or a list of runs"
        ) from error
    entries = found if isinstance(found, list) else [found]
    places = [
        f"{path.name}[{n}]" if isinstance(found, list) else path.name for n in range(len(entries))
    ]
    return [wanted_of(entry, place, defaults) for entry, place in zip(entries, places, strict=True)]


@click.command(context_settings={"ignore_unknown_options": False})
@click.option(
    "--name", default="", metavar="NAME", help="Name of the run. [default: the program's]"
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="KEY=V,V",
    help="A run for each value, or 1..3, which takes the place of {KEY}. Several combine.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1),
    metavar="N",
    help="Runs of the sweep at a time. [default: all]",
)
@click.option(
    "--on",
    multiple=True,
    metavar="TYPE|SLICE",
    type=NameOf("slices"),
    help="Only on these accelerator types or slices. [default: all that serve the queue]",
)
@click.option(
    "--after",
    multiple=True,
    metavar="RUN",
    help="Not before RUN is done.",
    type=NameOf("submitted"),
)
@click.option(
    "--priority",
    type=click.IntRange(0, 9),
    default=0,
    show_default=True,
    metavar="0-9",
    help="9 goes first.",
)
@click.option("--venv", metavar="VENV", help=f"Its environment, or {NONE}.")
@click.option("--as", "user", default="", metavar="USER", help="User that the program runs as.")
@click.option(
    "--checkpoint-dir",
    default="",
    metavar="DIR",
    help=f"Its checkpoints, or {NONE}; {{name}} becomes its name. [default: a folder for each run]",
)
@click.option(
    "--retries", type=click.IntRange(0), metavar="N", help="How often the program may fail."
)
@click.option("--secrets", multiple=True, metavar="SET", help="Sets of fleet_secrets that it gets.")
@click.option(
    "--max-hours", type=click.IntRange(1), metavar="N", help="Hours of an attempt at most."
)
@click.option("--code", metavar="DIR", help=f"Folder of its code, or {NONE}. [default: this one]")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Runs with their keys, as YAML.",
)
@click.option(
    "--ssh-key", "key", metavar="FILE", help="SSH key that signs. [default: yours, as it is here]"
)
@click.option("--again", is_flag=True, help="Take the place of a run of this name that has ended.")
@click.option("--dry-run", is_flag=True, help="Say what would be submitted, and submit nothing.")
@option_json()
@click.argument("command", nargs=-1, metavar="[--] COMMAND...", type=click.UNPROCESSED)
@click.pass_context
def submit(
    context: click.Context,
    /,
    file: Path | None,
    key: str | None,
    again: bool,
    dry_run: bool,
    machine_readable: bool,
    **words: Any,
) -> None:
    """Put runs into the queue; idle slices take them.

    The code of this folder is frozen as it is now, without what git ignores, and uploaded once.
    Only the bucket is needed: it works with no slice up, and this computer may be off afterwards.
    Runs wait by priority; then the first of each person comes before the second of any. Each is
    signed with your SSH key, by which the machines know you.

    \b
      tpu-fleet submit -- python train.py
      tpu-fleet submit --sweep lr=1,2 --sweep n=1..3 -- train.py {lr} {n}
      tpu-fleet submit --on v4-8 --after prepare --dry-run --file runs.yml

    A file has the keys of the options, as checkpoint_dir, and more keys of a run, as hang_after.
    """

    if not words["command"] and file is None:
        raise click.UsageError(
            "command: it is missing. Write it after --, as -- python train.py, or name a --file."
        )

    def work() -> int:
        wanted = explained(lambda: wanted_from(file, words))
        with waiting_for("Reading the fleet file and the queue"):
            job = explained(
                lambda: Submitting.here(key, context.meta.get(FROM) or Path.cwd(), again)
            )
            queue = job.fleet.opened()
            submission = explained(lambda: job.prepared(wanted, queue))
        if not machine_readable:
            for line in about(submission, job):
                say(wide_console(), line)
        if not dry_run:
            explained(lambda: job.send(submission, queue))
            keep_names(job, submission)
        if machine_readable:
            print_json("submit", submission.to_dict())
        else:
            for line in outcome(submission, dry_run):
                say(wide_console(), line)
        for name, why in submission.failed.items():
            click.echo(visible(f"{name} was not submitted: {why}"), err=True)
        return Exit.FAILED if submission.failed else Exit.DONE

    context.exit(guarded(work, "Interrupted. See tpu-fleet runs --queue for what is submitted."))


def wanted_from(file: Path | None, words: dict[str, Any]) -> list[Wanted]:
    """Return what the command line asks for, with the runs of a file; raises SubmitError."""
    lists: dict[str, Any] = {name: names_in(words.pop(name)) for name in ("on", "after", "secrets")}
    sweep = read_sweep(words.pop("sweep"))
    command = list(words.pop("command"))
    asked = Wanted(command=command, sweep=sweep, **lists, **words)
    return wanted_in(file, asked) if file else [asked]


def about(submission: Submission, job: Submitting) -> Iterator[str]:
    """Yield what is frozen, and where it will run."""
    for code in submission.codes:
        yield code.summary()
        yield from (f"  {line}" for line in code.change_lines())
        yield from code.warnings
    for place in dict.fromkeys(place_of(one, job) for one in submission.definitions):
        runs = [one for one in submission.definitions if place_of(one, job) == place]
        yield f"{amount(len(runs), 'run')} of {job.signer.person}, {place}"


def place_of(one: Any, job: Submitting) -> str:
    """Return as whom, with what, and where a run may run, in words."""
    slices = [
        name
        for name, declared in job.fleet.slices.items()
        if (not one.slices or name in one.slices)
        and (not one.types or set(one.types) & set(declared.types))
    ]
    folder = str(one.checkpoint_dir or "").replace(one.name, "NAME", 1)
    parts = [
        f"as user {one.user}",
        f"venv {one.venv}" if one.venv else "no venv",
        f"on {', '.join(slices)}",
        f"checkpoints in {folder}" if folder else "no checkpoints",
        *([f"after {', '.join(one.after)}"] if one.after else []),
        *([f"at most {one.at_once} at once"] if one.at_once else []),
    ]
    return ", ".join(parts)


def outcome(submission: Submission, dry_run: bool) -> Iterator[str]:
    """Yield a line for each run with why it waits, and what to type next."""
    shown = submission.definitions if dry_run else submission.runs
    for one in shown[:MOST_LINES]:
        place = submission.places.get(one.name)
        yield f"{one.name}: {place.reason}" if place else one.name
    if len(shown) > MOST_LINES:
        yield f"and {len(shown) - MOST_LINES:,} more: tpu-fleet runs --queue"
    if dry_run:
        yield "Nothing was submitted, because of --dry-run."
    elif shown:
        yield (
            f"{amount(len(shown), 'run')} submitted. Next: tpu-fleet runs --queue, tpu-fleet logs "
            f"-f {shown[0].name}"
        )


def keep_names(job: Submitting, submission: Submission) -> None:
    """Keep the names of submitted runs for TAB."""
    names = sorted({*submission.names, *job.known})
    remember(inventory_sources(os.environ, Path.cwd()), submitted=names)
