"""`tpu-fleet start`: start runs that were stopped."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..contract.printing import option_json
from ..on_worker.run_states import ENDED, FAILED, RUNNING, STOPPED
from ..workers.ask.run_view import Run, RunView
from ..workers.inventory.names import NameOf
from .many import Many
from .verbs import Gang, Verb, options_of_verb, run_verb

AT_WORK = (RUNNING, *ENDED)


def has_started(_gang: Gang, runs: Sequence[Run]) -> bool:
    """Return whether a gang runs, has ended, or waits for another run to leave the TPU."""
    if all(run.state in AT_WORK for run in runs):
        return True
    return any(run.waits_for for run in runs) and not any(run.state == STOPPED for run in runs)


def line(view: RunView) -> str:
    """Return the line for a run that has started."""
    if view.state == RUNNING:
        return f"running{{workers}}, attempt {view.attempt}"
    again = f"; to try it again: tpu-fleet retry {view.run}" if view.state == FAILED else ""
    return f"{view.word}{f': {view.why}' if view.why else ''}{again}"


VERB = Verb(
    "start",
    done=has_started,
    line=line,
    seconds=120.0,
    until="a run runs",
    remains="{run} is not started there, and no attempt begins without all workers of its slice. "
    "When they answer: tpu-fleet start {run}",
    wanted=lambda _gang: True,
    nothing="",
)


@click.command()
@options_of_verb(VERB)
@option_json()
@click.argument("wanted", type=NameOf("runs"), nargs=-1, required=True, metavar="RUN...")
@click.pass_context
def start(
    context: click.Context, many: Many, machine_readable: bool, wanted: tuple[str, ...]
) -> None:
    """Start RUNs that were stopped, from their last checkpoints.

    It starts what `tpu-fleet stop` or systemctl has stopped, and leaves a run alone that runs. A
    run with `enabled: false` in the fleet file is refused.

    \b
      tpu-fleet start digits
      tpu-fleet start digits --slice pair

    The login needs sudo on the workers.
    """
    context.exit(run_verb(VERB, many, wanted, machine_readable))
