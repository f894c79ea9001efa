"""Commands by which the owner controls a running cloud."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..machines import MachineError
from ..model.shared.clock import FASTEST, SLOWEST
from .lifecycle import Cloud, CloudError, as_json, default_state_dir
from .shown import Shown

Command = TypeVar("Command", bound=Callable[..., Any])


def reported(function: Command) -> Command:
    """Turn errors that people can repair into a message without a traceback."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (CloudError, MachineError) as error:
            raise click.ClickException(str(error)) from error

    return wrapper  # type: ignore[return-value]


def this_cloud() -> Cloud:
    """Return the cloud that the environment names."""
    return Cloud(default_state_dir())


@click.group()
def fault() -> None:
    """Make the API fail in chosen ways."""


@fault.command(
    "add",
    cls=Shown,
    examples=(
        "stock_out --match zone=us-central2-b",
        "rate_limit --count 3 --option retry_after=5",
    ),
)
@click.argument("kind")
@click.option(
    "--match",
    "matches",
    multiple=True,
    metavar="KEY=VALUE",
    help="Where it applies, e.g. zone=us-central2-b or node=solo; may be repeated.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Apply so many times at most.")
@click.option(
    "--probability",
    type=click.FloatRange(0, 1),
    metavar="P",
    default=1.0,
    show_default=True,
    help="Apply to this share of the requests.",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of the probability.",
)
@click.option("--after", type=click.FloatRange(0), metavar="SECONDS", help="Begin after so long.")
@click.option("--seconds", type=click.FloatRange(0), metavar="SECONDS", help="End after so long.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the kind, e.g. retry_after=5.",
)
@reported
def fault_add(
    matches: tuple[str, ...], seconds: float | None, options: tuple[str, ...], **given: Any
) -> None:
    """Switch the fault KIND on, and print its id.

    Of a KIND, a key or an option that does not exist, the error names those that do.
    """
    body = {**given, "match": _pairs(matches), "lasts": seconds, "options": _pairs(options)}
    known = {key: value for key, value in body.items() if value is not None}
    click.echo(this_cloud().control("POST", "faults", known)["faults"][-1]["id"])


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{word!r} is not of the form KEY=VALUE")
        pairs[key] = value
    return pairs


@fault.command("list", cls=Shown, examples=("",))
@reported
def fault_list() -> None:
    """Print the faults that are on, as JSON."""
    click.echo(as_json(this_cloud().control("GET", "faults")))


@fault.command("clear", cls=Shown, examples=("", "1f2e3d4c"))
@click.argument("fault_id", required=False)
@reported
def fault_clear(fault_id: str | None) -> None:
    """Switch one fault off, or all."""
    target = this_cloud()
    there = [each["id"] for each in target.control("GET", "faults")["faults"]]
    if fault_id and fault_id not in there:
        known = ", ".join(there) or "none at all"
        raise CloudError(f"there is no fault {fault_id}; there is {known}")
    target.control("DELETE", f"faults/{fault_id}" if fault_id else "faults")


@click.command(cls=Shown, examples=("", "--speed 60", "--advance 3600"))
@click.option("--mode", type=click.Choice(["real", "immediate", "manual"]), help="Change the mode.")
@click.option(
    "--speed",
    type=click.FloatRange(SLOWEST, FASTEST),
    metavar="FACTOR",
    help="Seconds of the cloud's time per real second, in mode real.",
)
@click.option("--advance", type=click.FloatRange(0), metavar="SECONDS", help="Advance the time.")
@reported
def clock(mode: str | None, speed: float | None, advance: float | None) -> None:
    """Show or change how the cloud's time passes.

    Operations, time stamps and the Date header follow it.
    """
    asked = {"mode": mode, "speed": speed, "advance": advance}
    body = {k: v for k, v in asked.items() if v is not None}
    click.echo(as_json(this_cloud().control("POST" if body else "GET", "clock", body or None)))


@click.command(cls=Shown, examples=("", "create=2 maintain:v4-16=0.5"))
@click.argument("changes", nargs=-1, metavar="[NAME=SECONDS]...")
@reported
def delays(changes: tuple[str, ...]) -> None:
    """Show or change how long operations take, as JSON.

    Durations are of the cloud's time.

    A name is a verb such as create or maintain, for all nodes, or for a type or generation as in
    maintain:v4-2048 or create:v5e. all=0.5 shortens everything that is not also named.
    """
    body = _pairs(changes)
    click.echo(as_json(this_cloud().control("POST" if body else "GET", "delays", body or None)))


def _names(each: dict[str, Any], what: str) -> list[str]:
    """Return what a node or queued resource is called; of a group, also its instances."""
    return [each[what], *(worker.get("instance", "") for worker in each.get("workers", []))]


def on_one(what: str, name: str, zone: str | None, verb: str, body: dict[str, Any]) -> Any:
    """Call a verb of the node or queued resource of this name."""
    target, words = this_cloud(), what.replace("_", " ")
    state = target.control("GET", "state")
    those = (each for each in state[f"{what}s"] if name in _names(each, what))
    zones = [each["zone"] for each in those if zone in (None, each["zone"])]
    if not zones:
        there = ", ".join(each[what] for each in state[f"{what}s"]) or "none at all"
        where = f" in {zone}" if zone else ""
        raise CloudError(f"there is no {words} {name}{where}; there is {there}")
    if len(zones) > 1:
        where = ", ".join(zones)
        raise CloudError(f"there is a {words} {name} in each of {where}: choose by --zone")
    collection = {"node": "nodes", "queued_resource": "queuedResources"}[what]
    return target.control("POST", f"{collection}/{state['project']}/{zones[0]}/{name}:{verb}", body)


_on_node = functools.partial(on_one, "node")
_zone = click.option("--zone", metavar="ZONE", help="Needed if two zones have a node of this name.")
_worker = click.option(
    "--worker",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    show_default=True,
    help="On worker N.",
)
_notice = click.option(
    "--notice",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="Announce it for so long before: in the machines' metadata, and by their power buttons. "
    "They are removed when they are off, or this time is over.",
)


@click.command(cls=Shown, examples=("pair --worker 0 --wait",))
@click.argument("node")
@_zone
@_worker
@click.option(
    "--external-ip",
    metavar="ADDRESS",
    help="The external address after the reboot. [default: a new one]",
)
@click.option("--wait", is_flag=True, help="Wait until the machine is back.")
@reported
def maintain(node: str, zone: str | None, worker: int, external_ip: str | None, wait: bool) -> None:
    """Reboot a worker of NODE with another external IP.

    It simulates a maintenance event.
    """
    body = {"worker_ids": [str(worker)], "new_external_ip": external_ip or True}
    operation = _on_node(node, zone, "maintain", body)
    if wait:
        this_cloud().wait_for(operation["name"])


@click.command(cls=Shown, examples=("pair", "pair --notice 30"))
@click.argument("node")
@_zone
@_notice
@reported
def preempt(node: str, zone: str | None, notice: float) -> None:
    """Preempt NODE: remove its machines.

    The node is PREEMPTED until it is deleted.
    """
    _on_node(node, zone, "preempt", {"notice": notice})


@click.command(cls=Shown, examples=("pair",))
@click.argument("node")
@_zone
@reported
def lose(node: str, zone: str | None) -> None:
    """Forget NODE, whose machines run on.

    So it looks when machines outlive their node: they keep their addresses and tokens until the
    cloud is reset or removed.
    """
    _on_node(node, zone, "lose", {})


@click.command(cls=Shown, examples=("pair --notice 30",))
@click.argument("node")
@_zone
@_notice
@reported
def terminate(node: str, zone: str | None, notice: float) -> None:
    """Terminate NODE: remove its machines.

    The node is TERMINATED until it is deleted.
    """
    _on_node(node, zone, "terminate", {"notice": notice})


@click.command(cls=Shown, examples=('pair --description "chip 2"', "pair --health HEALTHY"))
@click.argument("node")
@_zone
@click.option(
    "--health",
    metavar="HEALTH",
    default="UNHEALTHY_MAINTENANCE",
    show_default=True,
    help="The health in the API; HEALTHY heals the node.",
)
@click.option("--description", metavar="TEXT", default="", help="The description in the API.")
@reported
def unhealthy(node: str, zone: str | None, health: str, description: str) -> None:
    """Set the health of NODE; --health HEALTHY heals it."""
    _on_node(node, zone, "unhealthy", {"health": health, "description": description})


@click.command(
    "schedule-maintenance",
    cls=Shown,
    examples=("pair --in 3600", "pair --in 60 --unscheduled --fixed"),
)
@click.argument("node")
@_zone
@click.option(
    "--in",
    "seconds",
    type=click.FloatRange(0),
    required=True,
    metavar="SECONDS",
    help="When it begins, from now on.",
)
@click.option(
    "--window",
    type=click.FloatRange(0),
    default=14400.0,
    metavar="SECONDS",
    show_default=True,
    help="Length of the window in which it begins.",
)
@click.option("--unscheduled", is_flag=True, help="Announce it as unscheduled (at short notice).")
@click.option("--fixed", is_flag=True, help="The user of the node cannot begin it earlier.")
@reported
def schedule_maintenance(
    node: str, zone: str | None, seconds: float, window: float, unscheduled: bool, fixed: bool
) -> None:
    """Announce a maintenance of NODE.

    It begins by itself.
    """
    body = {
        "in": seconds,
        "window": window,
        "type": "UNSCHEDULED" if unscheduled else "SCHEDULED",
        "can_reschedule": not fixed,
    }
    click.echo(as_json(_on_node(node, zone, "schedule-maintenance", body)))


@click.command(cls=Shown, examples=("", "--skip 100"))
@click.option(
    "--skip",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    help="Leave out so many of the oldest events.",
)
@reported
def history(skip: int) -> None:
    """Print what happened to nodes and requests, as JSON."""
    click.echo(as_json(this_cloud().control("GET", f"history/{skip}")))


@click.command(cls=Shown, examples=("", "80"))
@click.argument("milliseconds", type=click.FloatRange(0, 10_000), required=False)
@reported
def latency(milliseconds: float | None) -> None:
    """Show or change small machines' latency, as JSON."""
    body = None if milliseconds is None else {"round_trip_ms": milliseconds}
    click.echo(as_json(this_cloud().control("POST" if body else "GET", "latency", body)))


@click.command(cls=Shown, examples=("", "--reset"))
@click.option("--reset", is_flag=True, help="Reset the counts.")
@reported
def requests(reset: bool) -> None:
    """Print how often each API method was called, as JSON."""
    click.echo(as_json(this_cloud().control("DELETE" if reset else "GET", "requests")))


@click.command(cls=Shown, examples=("pair --worker 1",))
@click.argument("node")
@_zone
@_worker
@reported
def reboot(node: str, zone: str | None, worker: int) -> None:
    """Reboot a worker of NODE, which keeps its addresses.

    The command waits until the worker is back.
    """
    _on_node(node, zone, "reboot", {"worker": worker})


COMMANDS = (
    clock,
    delays,
    fault,
    history,
    latency,
    lose,
    maintain,
    preempt,
    reboot,
    requests,
    schedule_maintenance,
    terminate,
    unhealthy,
)
