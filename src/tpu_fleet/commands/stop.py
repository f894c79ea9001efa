"""`tpu-fleet stop`: stop runs until `tpu-fleet start`."""

from __future__ import annotations

import click

from ..contract.printing import option_json
from ..on_worker.run_states import ENDED_OR_STOPPED
from ..workers.ask.run_view import RunView
from ..workers.inventory.names import NameOf
from .many import Many
from .verbs import Verb, options_of_verb, run_verb_of_all


def line(view: RunView) -> str:
    """Return the line for a run that has stopped."""
    step = "" if view.step is None else f", at about step {view.step}"
    return f"{view.state_word}{{workers}}{step}"


VERB = Verb(
    "stop",
    done=lambda _gang, runs: all(run.state in ENDED_OR_STOPPED for run in runs),
    line=line,
    seconds=600.0,
    until="a run has stopped; then it goes on to stop",
    remains="{run} is not stopped there. On the other workers of its slice it is, so that no "
    "attempt begins. When they answer: tpu-fleet stop {run}",
    wanted=lambda gang: not gang.has_ended,
    nothing="nothing to stop",
)


@click.command()
@options_of_verb(VERB)
@option_json()
@click.argument("wanted", type=NameOf("runs submitted"), nargs=-1, required=True, metavar="RUN...")
@click.pass_context
def stop(
    context: click.Context, many: Many, machine_readable: bool, wanted: tuple[str, ...]
) -> None:
    """Stop RUNs on all their workers, until `tpu-fleet start`.

    The program gets its stop signal and its grace seconds to save. A stopped run stays stopped when
    a machine reboots, at every `tpu-fleet apply`, and when its slice is created again by this
    computer, or by a watcher that has seen it stopped. Elsewhere `enabled: false` in the fleet file
    keeps it stopped.

    A submitted run is stopped in the queue, wherever it waits or runs; tpu-fleet retry lets it wait
    again.

    \b
      tpu-fleet stop digits
      tpu-fleet stop digits words --slice pair

    The login needs sudo on the workers.
    """
    interrupted = "Interrupted. What was asked to stop goes on to stop."
    context.exit(run_verb_of_all(VERB, many, wanted, machine_readable, interrupted))
