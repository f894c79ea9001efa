"""Asking workers for their runs: what is shown meanwhile, and the errors for runs that none has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from contextlib import AbstractContextManager

import click
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from ..contract.exits import Exit
from ..show.figures import amount
from ..show.output import exit_code
from ..show.waiting import waiting_for
from ..workers.inventory.names import no_such


class NotReached(click.ClickException):
    """The reached workers do not have the run, and other workers were not reached."""

    exit_code = Exit.UNKNOWN


def asking(workers: Sized) -> AbstractContextManager[None]:
    """Say, while it takes long, that workers are asked for their runs."""
    return waiting_for(f"Asking {amount(len(workers), 'worker')} for their runs")


def no_such_runs(
    runs: Iterable[str], there: Sequence[str], results: Iterable[Result], where: str = ""
) -> click.ClickException:
    """Return the error for runs that no worker has; one that did not answer may have them.

    `where` is the part of the fleet that was asked; see `part_of`.
    """
    says = " ".join(no_such("run", name, there, where) for name in runs)
    return NotReached(says) if exit_code(results) == Exit.UNKNOWN else click.ClickException(says)
