"""Run a playbook for a command: its options, progress, failures and end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible

from ..contract.exits import Exit
from ..show.ended import failure_lines
from ..show.progress import Progress
from ..workers.play import NOBODY, Event, plain, play
from ..workers.report import Report
from .options import Command, gathered, option_limit, option_verbose


@dataclass(frozen=True)
class How:
    """How a playbook is run, as `playbook_options` read it."""

    check: bool = False
    diff: bool = False
    limit: str | None = None
    verbose: int = 0

    def limited_to(self, slices: Sequence[str]) -> How:
        """Return the same for these slices alone, which need not exist yet; all without any."""
        if not slices:
            return self
        # As the inventory names the groups of slices.
        from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name

        groups = [group_name("tpu_slice", name) for name in slices]
        return replace(self, limit=",".join(["localhost", NOBODY, *groups]))


@dataclass(frozen=True)
class Ended:
    """How a playbook ended."""

    code: int
    report: Report


def playbook_options(limit: bool = False) -> Callable[[Command], Command]:
    """Add the options that are passed on to the playbook; the command gets them as `how`."""
    return gathered(
        *("how", How),
        click.option("--check", is_flag=True, help="Change nothing; say what would change."),
        click.option("--diff", is_flag=True, help="Show what changes in files and settings."),
        *([option_limit()] if limit else []),
        option_verbose(),
    )


def words_of(
    name: str, how: How, variables: Mapping[str, Any] | None = None, tags: Sequence[str] = ()
) -> str:
    """Return the command line of Ansible that does the same, for pipelines."""
    words = ["ansible-playbook", f"tpu.fleet.{name}"]
    for key, value in (variables or {}).items():
        text = value if isinstance(value, str) else None
        words += ["-e", f"{key}={text}" if text is not None else json.dumps({key: value})]
    words += ["--tags", ",".join(tags)] if tags else []
    limit = [one for one in (how.limit or "").split(",") if one and one != NOBODY]
    words += ["--limit", ",".join(limit)] if limit else []
    words += [word for word, wanted in (("--check", how.check), ("--diff", how.diff)) if wanted]
    return shlex.join(words)


def run_playbook(
    name: str,
    how: How,
    variables: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    go_on: str = "",
    quiet: bool = False,
) -> Ended:
    """Run a playbook of the collection, and show how far it is; then what failed.

    `go_on` is the command that continues after an interruption. A quiet one shows nothing but its
    progress.
    """
    report = Report()
    line = words_of(name, how, variables, tags)
    if not quiet:
        click.echo(line, err=True)
    shown = Progress(report, f"tpu.fleet.{name}", how.verbose > 0 or how.diff, quiet)

    def on_event(event: Event) -> None:
        report.event(event)
        shown.begin()
        shown.printed(plain(event.get("stdout")))

    def on_progress(event: Event) -> None:
        for name in report.progress(event):
            shown.changed(name)

    options = ["--check"] * how.check + ["--diff"] * how.diff
    options += [f"-{'v' * (how.verbose - 1)}"] if how.verbose > 1 else []
    try:
        with shown:
            code = play(
                f"tpu.fleet.{name}",
                on_event,
                limit=how.limit,
                tags=",".join(tags) or None,
                variables=variables,
                options=options,
                on_progress=on_progress,
            )
    except KeyboardInterrupt:
        click.echo(
            f"\nInterrupted. What is done stays; `{go_on or line}` goes on from there.", err=True
        )
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None
    # Ansible has one code for whatever fails.
    ended = Ended(Exit.FAILED if report.refused else code, report)
    if not quiet:
        show_failures(ended)
    return ended


def show_failures(ended: Ended) -> None:
    """Print what failed; equal failures once."""
    report = ended.report
    for text in failure_lines(report.failures, len(report.machines)):
        click.secho(text, fg="red", err=True)
    if ended.code and not report.failures:
        why = report.reason() or f"The playbook ended with code {ended.code}; -v shows why."
        click.secho(visible(why), fg="red", err=True)
