"""Commands by which the owner controls queued resources and reservations."""

from __future__ import annotations

import functools
from typing import Any

import click

from .controls import on_one, reported, this_cloud
from .lifecycle import as_json
from .shown import Shown

_zone = click.option("--zone", metavar="ZONE", help="Needed if two zones have one of this name.")
_place = click.option("--zone", metavar="ZONE", required=True, help="Its zone.")
_on_queued = functools.partial(on_one, "queued_resource")


@click.command(cls=Shown, examples=("sweep", "sweep --by-user"))
@click.argument("queued_resource")
@_zone
@click.option("--by-user", is_flag=True, help="As if the user had done it, not the service.")
@reported
def suspend(queued_resource: str, zone: str | None, by_user: bool) -> None:
    """Suspend QUEUED_RESOURCE for good: remove its nodes."""
    initiator = "USER" if by_user else "SERVICE"
    _on_queued(queued_resource, zone, "suspend", {"initiator": initiator})


@click.group()
def queue() -> None:
    """Control queued resources."""


@queue.command(cls=Shown, examples=("sweep", "sweep --status QUOTA_EXCEEDED"))
@click.argument("queued_resource")
@_zone
@click.option(
    "--status",
    metavar="NAME",
    default="INTERNAL",
    show_default=True,
    help="The name of the error.",
)
@click.option("--message", metavar="TEXT", help="The error's message, instead of Google's.")
@reported
def fail(queued_resource: str, zone: str | None, status: str, message: str | None) -> None:
    """Make QUEUED_RESOURCE fail."""
    _on_queued(queued_resource, zone, "fail", {"status": status, "message": message or ""})


@queue.command(cls=Shown, examples=("sweep",))
@click.argument("queued_resource")
@_zone
@reported
def hold(queued_resource: str, zone: str | None) -> None:
    """Hold QUEUED_RESOURCE in the queue until `grant`."""
    _on_queued(queued_resource, zone, "hold", {})


@queue.command(cls=Shown, examples=("sweep",))
@click.argument("queued_resource")
@_zone
@reported
def grant(queued_resource: str, zone: str | None) -> None:
    """Give the waiting QUEUED_RESOURCE its nodes immediately."""
    _on_queued(queued_resource, zone, "grant", {})


@click.group()
def reservation() -> None:
    """Reserve capacity for queued resources."""


@reservation.command("add", cls=Shown, examples=("lab --zone us-central2-b --chips 8",))
@click.argument("name")
@_place
@click.option(
    "--chips", type=click.IntRange(1), metavar="N", required=True, help="How many it has."
)
@click.option(
    "--type",
    "accelerator_type",
    metavar="TYPE",
    default="",
    help="A type such as v4-8, or a generation such as v4. [default: any]",
)
@reported
def reservation_add(name: str, zone: str, chips: int, accelerator_type: str) -> None:
    """Add the reservation NAME, or change it."""
    body = {"zone": zone, "name": name, "chips": chips, "accelerator_type": accelerator_type}
    this_cloud().control("POST", "reservations", body)


@reservation.command("list", cls=Shown, examples=("",))
@reported
def reservation_list() -> None:
    """Print the reservations, as JSON."""
    click.echo(as_json(this_cloud().control("GET", "reservations")))


@reservation.command("remove", cls=Shown, examples=("lab --zone us-central2-b",))
@click.argument("name")
@_place
@reported
def reservation_remove(name: str, zone: str) -> None:
    """Remove the reservation NAME; nodes created from it stay."""
    this_cloud().control("DELETE", f"reservations/{zone}/{name}")


def queue_table(state: dict[str, Any]) -> list[str]:
    """Return a line for each queued resource."""
    return [
        f"Queued resource {each['queued_resource']} in {each['zone']}: {each['state']}, "
        f"{each['tier']}, for {', '.join(each['wanted'])}."
        for each in state["queued_resources"]
    ]


COMMANDS = (suspend, queue, reservation)
