"""`tpu-local-cloud …`: the local cloud from the command line; `tpu-fleet cloud …` is the same."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import time
from typing import Any

import click

from ..machines import BACKENDS
from ..machines.container import prepare_image, undo_preparation
from ..machines.host import (
    HostFacts,
    explain_missing,
    install,
    missing_programs,
    read_facts,
    refusal,
)
from ..model.shared.clock import FASTEST, SLOWEST
from .called import PROGRAM, called
from .controls import COMMANDS as control_commands
from .controls import reported, this_cloud
from .lifecycle import DEFAULT_PORT, CloudError, as_json, exports, owners
from .lifecycle import down as take_down
from .lifecycle import up as bring_up
from .queue import COMMANDS as queue_commands
from .queue import queue_table
from .shown import Shown

# click's exit code for wrong usage: the computer or the command line must be corrected first.
UNMET = 2


_image = click.option(
    "--image",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="The machines' base: ubuntu, debian, or an image reference for podman; "
    "auto uses Ubuntu if it can be pulled, otherwise Debian.",
)
_install = click.option(
    "--install", "may_install", is_flag=True, help="Install missing programs without asking."
)


@click.group()
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM)
def cloud() -> None:
    """Run a local cloud: Google's APIs, machines on this computer.

    Its state is in the directory TPU_FLEET_CLOUD_DIR, so several clouds can run side by side.
    """


@cloud.command(
    cls=Shown, examples=("", "--install --image debian", "--hosts none --clock immediate")
)
@click.option(
    "--hosts",
    type=click.Choice(BACKENDS),
    default="container",
    show_default=True,
    help="What workers are: machines (system containers) or only addresses.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    default=DEFAULT_PORT,
    show_default=True,
    help="The API's port on 127.0.0.1.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Serve the API over gRPC as well, on this port; needs the extra grpc of tpu-local-cloud.",
)
@click.option(
    "--tls-port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Serve Cloud Storage over TLS as well, on this port, by the name storage.googleapis.com; "
    "`env` names the certificate to trust.",
)
@_image
@_install
@click.option(
    "--clock",
    type=click.Choice(["real", "immediate", "manual"]),
    default="real",
    show_default=True,
    help="How time passes for operations.",
)
@click.option(
    "--speed",
    type=click.FloatRange(SLOWEST, FASTEST),
    metavar="FACTOR",
    default=1.0,
    show_default=True,
    help="Seconds of the cloud's time per real second.",
)
@click.option(
    "--project",
    metavar="ID",
    default="local-project",
    show_default=True,
    help="The id of the cloud's project.",
)
@reported
def up(
    hosts: str,
    port: int,
    grpc_port: int | None,
    tls_port: int | None,
    image: str,
    may_install: bool,
    clock: str,
    speed: float,
    project: str,
) -> None:
    """Start the local cloud; does nothing if it is up.

    A restarted cloud keeps its clock mode; `cloud clock` changes it.
    """
    _require_different(port=port, grpc_port=grpc_port, tls_port=tls_port)
    if grpc_port is not None:
        _require_grpc()
    facts = _accepted(machines=hosts == "container")
    if hosts == "container":
        _require_programs(facts, may_install)
    target = this_cloud()
    config = {
        "host": "127.0.0.1",
        "port": port,
        "grpc_port": grpc_port,
        "tls_port": tls_port,
        "hosts": hosts,
        "state_dir": str(target.state_dir),
        "project": project,
        "project_number": "123456789012",
        "clock": clock,
        "speed": speed,
        "image": image,
        "owners": owners(os.environ),
    }
    started = time.monotonic()
    changed = bring_up(target, config, image, _progress)
    if changed:
        _progress(f"The local cloud is up after {time.monotonic() - started:.0f} s")
    else:
        click.echo("The local cloud is up already.")
    others = f"\n  gRPC     {target.grpc_endpoint}" if target.grpc_endpoint else ""
    others += f"\n  TLS      127.0.0.1:{tls_port}" if tls_port else ""
    click.echo(f"""
  API      {target.endpoint}{others}
  project  {project}
  state    {target.state_dir}

Point a shell at it:   eval "$({called()} env)"
Then for example:      gcloud compute tpus tpu-vm list --zone=-
See the machines:      {called()} status
Remove everything:     {called()} down""")


def _require_different(**ports: int | None) -> None:
    known: dict[int, str] = {}
    for name, port in ports.items():
        option = f"--{name.replace('_', '-')}"
        if port in known:
            raise CloudError(f"{known[port]} and {option} are both {port}: choose another {option}")
        if port is not None:
            known[port] = option


def _require_grpc() -> None:
    try:
        importlib.import_module("tpu_local_cloud.serve.grpc")
    except ImportError as error:
        raise CloudError(
            f"--grpc-port needs Google's library, and {error.name} is not installed: "
            "pip install 'tpu-local-cloud[grpc]'"
        ) from error


def _accepted(*, machines: bool) -> HostFacts:
    """Return what this computer is, or end with the reason why it cannot have the cloud."""
    facts = read_facts()
    reason = refusal(facts, machines=machines)
    if reason:
        click.echo(reason, err=True)
        sys.exit(UNMET)
    return facts


def _require_programs(facts: HostFacts, may_install: bool) -> None:
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


@cloud.command(cls=Shown, examples=("", "--keep-image"))
@click.option("--keep-image", is_flag=True, help="Keep the machines' base image for the next `up`.")
@reported
def down(keep_image: bool) -> None:
    """Remove the local cloud with everything it created."""
    target = this_cloud()
    if take_down(target, keep_image, _progress):
        click.echo("The local cloud was removed.")
    else:
        click.echo(f"There is no local cloud in {target.state_dir}.")


@cloud.command(cls=Shown, examples=("", "--json"))
@click.option("--json", "machine_readable", is_flag=True, help="Print JSON.")
@reported
def status(machine_readable: bool) -> None:
    """Show the nodes and machines of the local cloud."""
    state = this_cloud().control("GET", "state")
    lines = [time_of(state), *table(state), *queue_table(state)]
    click.echo(as_json(state) if machine_readable else "\n".join(lines))


def time_of(state: dict[str, Any]) -> str:
    """Return a line about the cloud's time."""
    clock = state["clock"]
    passing = {
        "real": "as real time does" if clock["speed"] == 1 else f"{clock['speed']:g} times faster",
        "immediate": "with every operation over at once",
        "manual": f"only by `{called()} clock --advance`",
    }[clock["mode"]]
    return f"It is {clock['time'][:19]}Z in the cloud; time passes {passing}."


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


@cloud.command(cls=Shown, examples=('eval "$({})"',))
def env() -> None:
    """Print the variables that select the local cloud."""
    for name, value in exports(this_cloud()).items():
        click.echo(f"export {name}={shlex.quote(value)}")


@cloud.command(cls=Shown, examples=("", "--own-kernel", "--undo"))
@_image
@_install
@click.option("--own-kernel", is_flag=True, help="Also prepare machines with their own kernel.")
@click.option("--undo", is_flag=True, help="Remove the image again, unless a cloud uses it.")
@reported
def prepare(image: str, may_install: bool, own_kernel: bool, undo: bool) -> None:
    """Install what machines need; make their base image.

    Without this the first `up` does both, and the last `down` removes the image.
    """
    _require_programs(_accepted(machines=True), may_install)
    if undo:
        undo_preparation()
    else:
        prepare_image(image, _progress, own_kernel)


for command in (*control_commands, *queue_commands):
    cloud.add_command(command)
