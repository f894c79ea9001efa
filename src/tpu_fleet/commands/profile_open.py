"""Open a profile in XProf: on this computer if it is installed here, otherwise in a board."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click

from ..show import serve_profiles
from ..show.output import Complaints, problems
from ..workers.ask.on_all import Job, on_all
from ..workers.copy.tar import UNPACK, pieces_of
from ..workers.inventory.lookup import known_fleet
from ..workers.inventory.read import read_inventory
from .cp import sending
from .ports import free_port
from .tunnel import Served, answers, greeting_of, last_lines, read_services, running
from .tunnel import hold as hold_tunnel

PORT = 8791
"""XProf's own."""
STARTS = 60.0
"""Seconds in which XProf must listen."""
NOWHERE = (
    "There is no XProf to open it with. Install it here (pip install 'tpu-fleet[xprof]'), or "
    "declare a board that shows one folder of a worker (fleet_boards, with "
    "fleet_tensorboard_profile: true), or leave --open out."
)


@dataclass(frozen=True)
class Here:
    """XProf on this computer."""

    def hold(self, folder: Path) -> None:
        """Serve a folder on the loopback address until Ctrl-C."""
        port = free_port(PORT)
        program = [sys.executable, "-P", serve_profiles.__file__, str(folder), str(port)]
        with TemporaryFile() as said, running(program, said) as process:
            end = time.monotonic() + STARTS
            while process.poll() is None and not answers(port):
                if time.monotonic() > end:
                    raise click.ClickException(f"XProf does not listen after {STARTS:.0f} s.")
                time.sleep(0.2)
            if process.poll() is None:
                click.echo(f"XProf: http://127.0.0.1:{port}/\nCtrl-C closes it.")
                process.wait()
            raise click.ClickException(f"XProf has ended: {last_lines(said)}")


@dataclass(frozen=True)
class InBoard:
    """A board of the fleet, which shows one folder of its worker."""

    name: str
    folder: str

    def hold(self, folder: Path) -> None:
        """Copy a profile to the board's folder as its user, and open a tunnel until Ctrl-C."""
        service = self._service()
        words = ["/bin/sh", "-c", UNPACK, "tpu-fleet", self.folder, folder.name]
        command = f"exec {shlex.join(['sudo', '-n', '-u', service.user, *words])}"
        job = Job(command, sending(pieces_of([folder])))
        done = on_all(known_fleet(False), [service.host], job, Complaints(), retry=False)
        if not all(result.ok for result in done):
            raise click.ClickException("\n".join(problems(done)) or f"{service.host}: not copied")
        click.echo(f"It is in {self.folder}/{folder.name} of {service.host}.")
        port = free_port(service.port)
        hold_tunnel(service, port, None, greeting_of(service, port, ""))

    def _service(self) -> Served:
        found = [one for one in read_services() if one.name == self.name and one.enabled]
        if not found:
            raise click.ClickException(f"{self.name} is declared, but no worker serves it now.")
        return found[0]


def way() -> Here | InBoard:
    """Return how a profile can be opened; fail if it cannot be."""
    if find_spec("xprof"):
        return Here()
    inventory = read_inventory()
    with_profiler = inventory.said("fleet_tensorboard_profile", True)
    boards = inventory.said("fleet_boards", ()) if with_profiler else ()
    found = in_boards(boards)
    if not found:
        raise click.ClickException(NOWHERE)
    return found[0]


def in_boards(boards: Sequence[Mapping[str, Any]]) -> list[InBoard]:
    """Return the boards that can show a profile.

    One with several folders gives them labels, below which the profiler finds nothing. One with an
    own venv may lack the profiler.
    """
    return [
        InBoard(f"tensorboard-{board['name']}", folders[0])
        for board in boards
        if len(folders := list(map(str, board["logs"].values()))) == 1
        if folders[0].startswith("/") and not board.get("venv") and board.get("enabled", True)
    ]


def hold(found: Here | InBoard, folder: Path) -> None:
    """Keep a profile open until Ctrl-C."""
    try:
        found.hold(folder)
    except KeyboardInterrupt:
        click.echo("\nIt is closed.")
