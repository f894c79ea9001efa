"""Show the summary of a profile: the workers, and the operations that took most time. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown

from ..workers.profile.bring import Profile
from ..workers.profile.figures import Shares, Total
from .figures import digits_in, size
from .table import Column, Table

WORKERS = (
    Column("WORKER"),
    Column("STEPS", 1),
    Column("IDLE", right=True),
    Column("INPUT", right=True),
    Column("COLLECTIVES", right=True),
    Column("DEVICES", 2, right=True),
    Column("SECONDS", 3, right=True),
    Column("SIZE", 4, right=True),
)
UNKNOWN = "-"
LONGEST = 36
"""Characters of the name of an operation: beside it all columns fit in 80."""


def percent(share: float) -> str:
    """Format a share."""
    return f"{100 * share:.0f} %"


def steps(first: int | None, last: int | None) -> str:
    """Format the steps that a profile covers."""
    if first is None or last is None:
        return UNKNOWN
    return f"{first:,} to {last:,}"


def workers_table(found: Sequence[tuple[Profile, Shares | None]]) -> Table:
    """Draw how each process spent its profile."""
    table = Table(WORKERS)
    for profile, shares in found:
        table.add(
            profile.path.name.removesuffix(".xplane.pb"),
            steps(profile.first_step, profile.last_step),
            *figures_of(shares),
            str(shares.devices) if shares else "0",
            UNKNOWN if profile.seconds is None else f"{profile.seconds:.1f}",
            size(profile.bytes),
        )
    return table


def figures_of(shares: Shares | None) -> tuple[str, str, str]:
    """Format the shares of a process; it may have had no operation of a device."""
    if shares is None:
        return (UNKNOWN,) * 3
    return percent(shares.idle), percent(shares.input), percent(shares.collectives)


def operations_table(totals: Sequence[Total]) -> Table:
    """Draw the operations that took most time, on all devices together."""
    return Table.of(
        totals,
        (Column("OPERATION"), lambda one: shown(one.name, LONGEST)),
        (Column("SHARE", right=True), lambda one: percent(one.share)),
        (Column("SECONDS", 1, right=True), lambda one: digits_in(one.seconds, 7)),
        (Column("CALLS", 2, right=True), lambda one: f"{one.calls:,}"),
        (Column("KIND", 1), lambda one: one.kind or UNKNOWN),
    )


def idle_table(totals: Sequence[Total]) -> Table:
    """Draw what the training loops did while no operation ran."""
    return Table.of(
        totals,
        (Column("WHILE IDLE, IN"), lambda one: shown(one.name, LONGEST)),
        (Column("SHARE", right=True), lambda one: percent(one.share)),
        (Column("CALLS", 1, right=True), lambda one: f"{one.calls:,}"),
    )
