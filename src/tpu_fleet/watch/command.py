"""`tpu-fleet watch`: repair the fleet in this folder automatically, and notify people."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError

from ..commands.options import gathered, option_interval, unwritable
from ..contract.printing import option_json, print_json
from ..show.console import wide_console
from ..workers.inventory.read import NoFleetError, PlayError, require_fleet
from . import service
from .ground import Ground
from .options import Options

LOG_BYTES = 2 << 20
LOG_FILES = 5


watcher_options = gathered(
    *("options", Options),
    option_interval(10.0, click.FloatRange(min=1.0), "Time between two looks."),
    option_interval(
        *(300.0, click.FloatRange(min=10.0)),
        "Time between two looks at the workers, each over one connection.",
        "--hosts-interval",
    ),
    click.option(
        "--playbooks",
        type=click.IntRange(1, 32),
        default=4,
        show_default=True,
        metavar="N",
        help="Playbooks that run at the same time, never two for one slice.",
    ),
    click.option(
        "--lease",
        type=click.FloatRange(min=5.0),
        default=900.0,
        show_default=True,
        metavar="SECONDS",
        help="Time after which another computer's watcher replaces one that died.",
    ),
    click.option(
        "--page",
        metavar="PLACE",
        default="",
        help="Publish the fleet's page there: a folder, or gs://BUCKET/FOLDER.",
    ),
    click.option(
        "--no-logs", is_flag=True, help="With --page: leave out everything that programs printed."
    ),
)
"""The options of a watcher; the command gets them as `options`."""


@click.group()
def watch() -> None:
    """Recreate lost slices, set them up, notify people.

    The watcher is one process, on any computer that is on. `install` makes it a service of your
    user, which starts at every boot; `run` runs it in the foreground. Of several watchers of one
    fleet, on any computers, one works and the others stand by.
    """


@watch.command("run")
@watcher_options
@click.option(
    "--once", is_flag=True, help="Do what is needed now, and exit with the code of the playbook."
)
def run_command(options: Options, once: bool) -> None:
    """Watch the fleet in the foreground, until Ctrl-C.

    It may be killed at any time: what it needs to go on is in the fleet file and at Google.

    \b
      tpu-fleet watch run
      tpu-fleet watch run --page gs://lab/fleet
      tpu-fleet watch run --once    for cron
    """
    ground = Ground.here(os.environ, Path.cwd())
    require_fleet()
    run(ground, options, once)


@watch.command()
@watcher_options
def install(options: Options) -> None:
    """Install the watcher as a systemd service of your user.

    Call it again with other options, or after an upgrade of tpu-fleet: it writes the unit again and
    restarts the service.

    \b
      tpu-fleet watch install
      tpu-fleet watch install --page gs://lab/fleet
    """
    ground = fleet_here()
    check_place(options.page)
    install_service(ground, unit_of(ground), options.words())


@watch.command()
def uninstall() -> None:
    """Stop the service of the watcher, and remove it.

    \b
      tpu-fleet watch uninstall
    """
    name = unit_of(fleet_here())
    there = service.uninstall(name, os.environ)
    click.echo(f"Removed {name}." if there else f"There is no {name}.")


@watch.command("status")
@option_json()
def status_command(machine_readable: bool) -> None:
    """Show the state of the watcher on this computer.

    \b
      tpu-fleet watch status
      tpu-fleet watch status --json | jq .alive
    """
    show_status(fleet_here(), machine_readable)


def fleet_here() -> Ground:
    """Return the surroundings of the watcher of the fleet in this folder.

    Where there is no fleet, the error names the folders of the fleets that have a service.
    """
    try:
        require_fleet()
    except NoFleetError as error:
        others = [_elsewhere(name, folder) for name, folder in service.installed(os.environ)]
        lines = [error.message, *others]
        raise NoFleetError("\n".join(lines)) from error
    return Ground.here(os.environ, Path.cwd())


def _elsewhere(name: str, folder: Path) -> str:
    if folder.is_dir():
        return f"A watcher is installed for the fleet in {folder}."
    place = service.units_folder(os.environ) / name
    return (
        f"A watcher is installed for {folder}, which is gone. To remove it: systemctl --user "
        f"disable --now {name} && rm {place}"
    )


def check_place(place: str) -> None:
    """Refuse a folder of this computer in which no page can be written.

    Only at the installation: a watcher that runs reports it, and repairs the fleet all the same.
    """
    # Imported here, because it brings what draws the page.
    from ..page.publish import BUCKET, folder_of

    if not place or place.startswith(BUCKET):
        return
    try:
        why_not = unwritable(folder_of(place)[0])
    except TpuError as error:
        raise click.ClickException(f"--page {place}: {error}") from error
    if why_not:
        raise click.ClickException(f"--page {place}: {why_not}. Name another place.")


def unit_of(ground: Ground) -> str:
    """Return the name of the service of a fleet's watcher."""
    return service.unit_name(ground.folder.name)


def run(ground: Ground, options: Options, once: bool) -> None:
    """Run the watcher in the foreground."""
    # Imported here, because the other commands need neither ansible-runner nor asyncssh.
    from .loop import Watcher

    ground.make()
    # Playbooks store the results of runs there; a service has no PWD.
    os.environ["PWD"] = str(Path.cwd())
    with ground.only_one():
        _log_to(ground.log)
        watcher = Watcher(ground, options)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: watcher.stop())
        code = watcher.run(once)
        if once and code:
            # The code is the playbook's, or 1 if the fleet could not be read.
            click.echo(f"Error: Not everything is done; {ground.log} says why.", err=True)
            raise click.exceptions.Exit(code)


def _log_to(path: Path) -> None:
    """Log to a rotating file, and to the terminal or the journal."""
    logger = logging.getLogger("tpu-fleet-watch")
    logger.setLevel(logging.INFO)
    form = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    form.converter = time.gmtime
    file = logging.handlers.RotatingFileHandler(
        path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8"
    )
    path.chmod(0o600)
    for handler in (file, logging.StreamHandler()):
        handler.setFormatter(form)
        logger.addHandler(handler)


def what_waits(secret: Sequence[str]) -> str:
    """Return what the service could not do for lack of a token; read without these variables."""
    from .look import no_token
    from .read import read_settings

    there = {name: os.environ.pop(name) for name in secret}
    try:
        keys = read_settings().unregistered
    except (PlayError, OSError, ValueError, KeyError) as error:
        return f"The fleet file cannot be read{' without them' if secret else ''}: {error}"
    finally:
        os.environ.update(there)
    return f"{no_token(keys)}." if keys else ""


def install_service(ground: Ground, name: str, options: list[str]) -> None:
    """Install the service, and print the steps that remain for a person."""
    environment, secret = service.kept(os.environ)
    waits = what_waits(secret)
    before = service.service_of(name, os.environ)
    by_hand = ground.is_watched() and not (before and before.pid)
    text = service.unit(service.command_words(options), Path.cwd(), environment)
    path = service.install(name, text, os.environ)
    click.echo(f"Installed and started {path}.")
    click.echo(f"Its log: journalctl --user -u {name}")
    click.echo("Its state: tpu-fleet watch status")
    if by_hand:
        click.echo(
            "A watcher of this fleet runs here already. The service begins when that ends.",
            err=True,
        )
    if secret:
        click.echo(
            f"Left out of the unit, because they are or hold secrets: {', '.join(secret)}. Use "
            "credentials that last: gcloud auth application-default login, a file, or a vault.",
            err=True,
        )
    if waits:
        click.echo(waits, err=True)
    if service.lingers() is not True:
        click.echo(service.ENDS, err=True)


def show_status(ground: Ground, machine_readable: bool) -> None:
    """Print the watcher's last status, and whether it still runs."""
    from .status_view import JUST_STARTED, show, without_one

    there = service.service_of(unit_of(ground), os.environ)
    runs = ground.is_watched()
    try:
        status = json.loads(ground.status.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        says = f"No watcher of this fleet has run here: {ground.status} does not exist or is broken"
        then = without_one(there) if there else "Start it: tpu-fleet watch install"
        raise click.ClickException(JUST_STARTED if runs else f"{says}. {then}") from error
    if machine_readable:
        told = asdict(there) if there else None
        print_json("watch status", {**status, "alive": runs, "service": told})
        return
    is_new = runs and not _is_alive(status["pid"])
    lingers = service.lingers() if there else None
    show(wide_console(), status, runs, there, is_new=is_new, lingers=lingers)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        # Another user's process is one too.
        return not isinstance(error, ProcessLookupError)
    return True
