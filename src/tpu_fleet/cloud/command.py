"""`tpu-fleet cloud …`: the local cloud from the command line."""

from __future__ import annotations

import functools
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from .lifecycle import DEFAULT_PORT, Cloud, CloudError, as_json, default_state_dir, exports
from .lifecycle import down as take_down
from .lifecycle import up as bring_up
from .machines import BACKENDS, MachineError
from .machines.host import explain_missing, install, missing_programs, read_facts, refusal

Command = TypeVar("Command", bound=Callable[..., Any])
# The exit code of click for wrong usage: the computer or the person has to change something first.
UNMET = 2


def _reported(function: Command) -> Command:
    """Turn what people can mend into a message without a traceback."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (CloudError, MachineError) as error:
            raise click.ClickException(str(error)) from error

    return wrapper  # type: ignore[return-value]


def _cloud() -> Cloud:
    return Cloud(default_state_dir())


@click.group()
def cloud() -> None:
    """Run a local cloud: the Cloud TPU API on this computer, with machines behind it.

    Its state is kept in the directory TPU_FLEET_CLOUD_DIR, so that several can be up side by side.
    """


@cloud.command()
@click.option(
    "--hosts",
    type=click.Choice(BACKENDS),
    default="container",
    show_default=True,
    help="What workers are: machines (system containers), or addresses only.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The API's port on 127.0.0.1.",
)
@click.option(
    "--image",
    default="auto",
    show_default=True,
    help="The machines' base: ubuntu, debian, or an image reference that podman knows; "
    "auto takes Ubuntu where it can be pulled, else Debian.",
)
@click.option(
    "--install", "may_install", is_flag=True, help="Install missing programs without asking."
)
@click.option(
    "--clock",
    type=click.Choice(["real", "immediate", "manual"]),
    default="real",
    show_default=True,
    help="How time passes for operations.",
)
@click.option(
    "--project",
    default="local-project",
    show_default=True,
    help="The project that exists in the cloud.",
)
@_reported
def up(hosts: str, port: int, image: str, may_install: bool, clock: str, project: str) -> None:
    """Bring the local cloud up; a second time changes nothing."""
    if hosts == "container":
        _require_programs(may_install)
    target = _cloud()
    config = {
        "host": "127.0.0.1",
        "port": port,
        "hosts": hosts,
        "state_dir": str(target.state_dir),
        "project": project,
        "project_number": "123456789012",
        "clock": clock,
        "image": image,
    }
    started = time.monotonic()
    changed = bring_up(target, config, image, _progress)
    if changed:
        _progress(f"The local cloud is up after {time.monotonic() - started:.0f} s")
    else:
        click.echo("The local cloud is up already.")
    click.echo(f"""
  API      {target.endpoint}
  project  {project}
  state    {target.state_dir}

Point a shell at it:   eval "$(tpu-fleet cloud env)"
Then for example:      gcloud compute tpus tpu-vm list --zone=-
See the machines:      tpu-fleet cloud status
Remove everything:     tpu-fleet cloud down""")


def _require_programs(may_install: bool) -> None:
    facts = read_facts()
    reason = refusal(facts)
    if reason:
        click.echo(reason, err=True)
        sys.exit(UNMET)
    missing = missing_programs(facts)
    if not missing:
        return
    explained = explain_missing(facts, missing)
    asked = not may_install and facts.family is not None and sys.stdin.isatty()
    if asked:
        click.echo(explained)
    if may_install or (asked and click.confirm("Shall I do that now?", default=True)):
        install(facts, missing, _progress)
        missing = missing_programs(facts)
        if missing:
            raise CloudError(f"still not there after installing: {', '.join(missing)}")
        return
    if not asked:
        click.echo(f"{explained}\nOr run the command with --install.", err=True)
    sys.exit(UNMET)


def _progress(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {text}")


@cloud.command()
@click.option("--keep-image", is_flag=True, help="Keep the machines' base image for the next time.")
@_reported
def down(keep_image: bool) -> None:
    """Remove the local cloud with everything it made."""
    target = _cloud()
    if take_down(target, keep_image, _progress):
        click.echo("The local cloud is gone.")
    else:
        click.echo(f"There is no local cloud in {target.state_dir}.")


@cloud.command()
@click.option("--json", "machine_readable", is_flag=True, help="Print JSON.")
@_reported
def status(machine_readable: bool) -> None:
    """Show the nodes and machines of the local cloud."""
    state = _cloud().control("GET", "state")
    click.echo(as_json(state) if machine_readable else "\n".join(table(state)))


def table(state: dict[str, Any]) -> list[str]:
    """Return the lines of the status table."""
    rows = [("NODE", "ZONE", "TYPE", "STATE", "WORKER", "MACHINE", "INTERNAL", "EXTERNAL")]
    for node in state["nodes"]:
        for worker in node["workers"]:
            rows.append((
                node["node"], node["zone"], node["accelerator_type"], node["state"],
                str(worker["worker"]), worker["machine"], worker["internal_ip"],
                worker["external_ip"] or "-",
            ))  # fmt: skip
    if len(rows) == 1:
        return ["No nodes yet."]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@cloud.command()
def env() -> None:
    """Print the exports that point our tools and Google's at the local cloud."""
    for name, value in exports(_cloud()).items():
        click.echo(f"export {name}={shlex.quote(value)}")


@cloud.group()
def fault() -> None:
    """Make the API fail in a chosen way."""


@fault.command("add")
@click.argument("kind")
@click.option(
    "--match",
    "matches",
    multiple=True,
    metavar="KEY=VALUE",
    help="Where it strikes, e.g. zone=us-central2-b or node=solo; again for more.",
)
@click.option("--count", type=click.IntRange(1), help="Strike so many times, then no more.")
@click.option("--probability", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the probability.")
@click.option("--seconds", type=click.FloatRange(0), help="Stay on for so long.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="What the kind has to know, e.g. retry_after=5.",
)
@_reported
def fault_add(
    kind: str,
    matches: tuple[str, ...],
    count: int | None,
    probability: float,
    seed: int,
    seconds: float | None,
    options: tuple[str, ...],
) -> None:
    """Switch the fault KIND on, and print its id."""
    body: dict[str, Any] = {
        "kind": kind,
        "match": _pairs(matches),
        "count": count,
        "probability": probability,
        "seed": seed,
        "seconds": seconds,
        "options": _pairs(options),
    }
    answer = _cloud().control("POST", "faults", {k: v for k, v in body.items() if v is not None})
    click.echo(answer["id"])


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{word!r} is not of the form KEY=VALUE")
        pairs[key] = value
    return pairs


@fault.command("list")
@_reported
def fault_list() -> None:
    """Print the faults that are on, as JSON."""
    click.echo(as_json(_cloud().control("GET", "faults")))


@fault.command("clear")
@click.argument("fault_id", required=False)
@_reported
def fault_clear(fault_id: str | None) -> None:
    """Switch one fault off, or all."""
    _cloud().control("DELETE", f"faults/{fault_id}" if fault_id else "faults")


@cloud.command()
@click.option("--mode", type=click.Choice(["real", "immediate", "manual"]), help="Change the mode.")
@click.option("--advance", type=click.FloatRange(0), metavar="SECONDS", help="Let time pass.")
@_reported
def clock(mode: str | None, advance: float | None) -> None:
    """Show or change how time passes for operations."""
    body = {k: v for k, v in {"mode": mode, "advance": advance}.items() if v is not None}
    click.echo(as_json(_cloud().control("POST" if body else "GET", "clock", body or None)))


def _on_node(node: str, zone: str | None, verb: str, body: dict[str, Any]) -> None:
    target = _cloud()
    found = [
        entry
        for entry in target.control("GET", "state")["nodes"]
        if entry["node"] == node and zone in (None, entry["zone"])
    ]
    if not found:
        raise CloudError(f"there is no node {node}" + (f" in {zone}" if zone else ""))
    if len(found) > 1:
        zones = ", ".join(entry["zone"] for entry in found)
        raise CloudError(f"there is a node {node} in each of {zones}: choose by --zone")
    entry = found[0]
    target.control("POST", f"nodes/{entry['project']}/{entry['zone']}/{node}:{verb}", body)


_zone = click.option("--zone", help="Only needed when two zones have a node of this name.")


@cloud.command()
@click.argument("node")
@_zone
@click.option("--worker", "workers", type=int, multiple=True, help="Again for more; else all.")
@click.option("--external-ip", help="The external address to come back with; else a new one.")
@_reported
def maintain(
    node: str, zone: str | None, workers: tuple[int, ...], external_ip: str | None
) -> None:
    """Let a maintenance event reboot workers of NODE, with another external address."""
    body: dict[str, Any] = {"new_external_ip": external_ip or True}
    if workers:
        body["worker_ids"] = [str(worker) for worker in workers]
    _on_node(node, zone, "maintain", body)


@cloud.command()
@click.argument("node")
@_zone
@_reported
def preempt(node: str, zone: str | None) -> None:
    """Take the machines of NODE away, at once."""
    _on_node(node, zone, "preempt", {})


@cloud.command()
@click.argument("node")
@_zone
@click.option("--worker", type=int, default=0, show_default=True)
@_reported
def reboot(node: str, zone: str | None, worker: int) -> None:
    """Reboot one worker of NODE, which keeps its addresses."""
    _on_node(node, zone, "reboot", {"worker": worker})
