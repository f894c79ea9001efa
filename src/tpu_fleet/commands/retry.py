"""`tpu-fleet retry`: try runs that have ended once more."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..contract.printing import option_json
from ..workers.ask.run_view import Run, RunView
from ..workers.inventory.names import NameOf
from .many import Many
from .verbs import Gang, Verb, options_of_verb, run_verb_of_all


def has_begun(gang: Gang, runs: Sequence[Run]) -> bool:
    """Return whether another attempt has begun, or waits for another run to leave the TPU."""
    later = any(run.status.attempt > gang.attempt for run in runs)
    return later or any(run.waits_for for run in runs)


def line(view: RunView) -> str:
    """Return the line for a run whose next attempt has begun, or waits."""
    if view.waits_for:
        return f"{view.word}: {view.why}"
    return f"attempt {view.attempt} has begun{{workers}}"


VERB = Verb(
    "retry",
    done=has_begun,
    line=line,
    seconds=120.0,
    until="the next attempt has begun",
    remains="{run} is not tried again, as worker 0 decides for its slice. When it answers: "
    "tpu-fleet retry {run}",
    wanted=lambda gang: gang.has_ended,
    nothing="not tried again",
    refusal="Only a run that has succeeded or failed is tried again; to start a stopped one: "
    "tpu-fleet start {run}",
    leader_only=True,
)


@click.command()
@options_of_verb(VERB)
@option_json()
@click.argument("wanted", type=NameOf("runs submitted"), nargs=-1, required=True, metavar="RUN...")
@click.pass_context
def retry(
    context: click.Context, many: Many, machine_readable: bool, wanted: tuple[str, ...]
) -> None:
    """Try RUNs that have ended once more, from their checkpoints.

    A run that has not succeeded or failed is refused, with its state. Of a run on several slices,
    those are tried again on which it has ended.

    A submitted run that has failed or was stopped waits in the queue again.

    \b
      tpu-fleet retry digits
      tpu-fleet retry digits --slice pair

    The login needs sudo on the workers.
    """
    interrupted = "Interrupted. What was asked for goes on."
    context.exit(run_verb_of_all(VERB, many, wanted, machine_readable, interrupted))
