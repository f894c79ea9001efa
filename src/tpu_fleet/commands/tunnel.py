"""`tpu-fleet tunnel`: open a notebook, a board or a dashboard of the fleet on this computer."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import (
    AnswerError,
    Words,
    parsed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, shown_text
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import services_in

from ..show.console import wide_console
from ..show.table import Column, Table, print_tables
from ..workers.ask.worker_program import port_command
from ..workers.inventory.names import no_such
from ..workers.inventory.read import PlayError
from ..workers.play import Event, fact_of, play, problem_of
from .many import limit_of
from .options import option_limit, option_slice
from .ports import free_port

LOOK_AGAIN_AFTER = 3
"""After this many failures in a row, addresses are read from the API again."""
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")
SSH_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ControlPersist=no",
    "ExitOnForwardFailure=yes",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=10",
)


@dataclass(frozen=True)
class Served:
    """One service of a host that a tunnel can lead to."""

    name: str
    host: str
    user: str
    port: int
    kind: str
    description: str
    url_path: str
    enabled: bool
    token_file: str
    ssh_config: str

    def url(self, port: int, token: str = "") -> str:
        """Return its address on this computer."""
        end = f"?token={token}" if token and self.kind == "notebook" else ""
        return f"http://127.0.0.1:{port}{self.url_path}{end}"


def services_of(event: Event) -> list[Served]:
    """Return the services of a host, if an ansible-runner event contains them."""
    told: dict[str, Any] | None = fact_of(event, "fleet_tunnels")
    if told is None:
        return []
    host = str(event["event_data"]["host"])
    return [
        Served(
            name=service.name,
            host=host,
            user=service.user,
            port=service.port,
            kind=service.kind,
            description=service.description,
            url_path=service.url_path,
            enabled=service.enabled,
            token_file=service.token_file,
            ssh_config=told["ssh_config"],
        )
        for service in services_in(Words(host, told))
        if service.address == "127.0.0.1"
    ]


def read_services(limit: str | None = None) -> list[Served]:
    """Ask the hosts of the fleet in this folder."""
    found: list[Served] = []

    def on_event(event: Event) -> None:
        found.extend(services_of(event))
        problem = problem_of(event)
        if problem:
            click.echo(": ".join(problem), err=True)

    code = play("tpu.fleet.services", on_event, limit=limit)
    if code and not found:
        raise PlayError("tpu.fleet.services did not finish; run it to see why.")
    return sorted(found, key=lambda service: (service.name, service.host))


def choose(services: Sequence[Served], name: str) -> Served:
    """Return the service NAME or NAME.HOST, or fail with a list of the existing ones."""
    fitting = [one for one in services if name in (one.name, f"{one.name}.{one.host}")]
    running = [one for one in fitting if one.enabled]
    if len(running) == 1:
        return running[0]
    if fitting and not running:
        raise click.ClickException(f"{name} is declared, but not enabled.")
    if running:
        names = ", ".join(f"{one.name}.{one.host}" for one in running)
        raise click.ClickException(f"There are several: choose one of {names}.")
    there = sorted({one.name for one in services})
    raise click.ClickException(no_such("notebook, board or dashboard", name, there))


def ssh(service: Served, *words: str, user: str | None = None, path: str = "none") -> list[str]:
    """Return an ssh command with the fleet's host keys, over the connection with a control path."""
    options = [word for one in (*SSH_OPTIONS, f"ControlPath={path}") for word in ("-o", one)]
    login = ["-l", user] if user else []
    return ["ssh", "-F", service.ssh_config, *options, *login, *words]


def token_command(service: Served, user: str | None) -> list[str]:
    """Return the command that reads the token, which only its owner and root can."""
    words = ["cat", service.token_file]
    if user != service.user:
        words = ["sudo", "-n", *words]
    return ssh(service, service.host, *words, user=user)


def read_token(service: Served, user: str | None) -> str:
    """Read the token through SSH."""
    done = subprocess.run(
        token_command(service, user),
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
    )
    if done.returncode:
        raise click.ClickException(f"The token cannot be read: {shown(done.stderr)}")
    token = done.stdout.strip()
    if not TOKEN.fullmatch(token):
        raise click.ClickException(f"{service.host} returned no token but {shown(token)!r}.")
    return token


def answers(port: int) -> bool:
    """Return whether a process listens on a local port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def pause_after(failures: int) -> float:
    """Return the seconds to wait before the next try."""
    return float(min(30.0, 2.0 ** (failures - 1)))


@contextmanager
def running(
    command: Sequence[str], said: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ssh with its messages in a file; always end it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=said,
        # Ctrl-C is handled here, not by ssh.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_lines(said: IO[bytes], most: int = 5) -> str:
    """Return the last line of ssh's messages."""
    said.seek(max(0, said.seek(0, 2) - 4096))
    return shown_text(said.read().decode("utf-8", "replace").strip(), most)


class StrangerError(click.ClickException):
    """Another process than the service listens on its port; the command ends."""


class NotYetError(RuntimeError):
    """The tunnel cannot be opened now; why."""


@dataclass(frozen=True)
class Link:
    """One SSH connection to the host of a service, over which first a question is asked.

    Only if the service itself listens, its port is forwarded, over the same connection: the machine
    cannot have rebooted between.
    """

    service: Served
    user: str | None
    path: str

    def command(self) -> list[str]:
        """Return the command that keeps the connection."""
        return self._ssh("-M", "-N", self.service.host)

    def _ssh(self, *words: str) -> list[str]:
        return ssh(self.service, *words, user=self.user, path=self.path)

    def is_up(self) -> bool:
        """Return whether the connection is there."""
        return not _asked(self._ssh("-O", "check", self.service.host)).returncode

    def forward(self, port: int) -> None:
        """Forward a port of this computer to the service; refuse if a stranger listens there."""
        service = self.service
        self.check()
        ways = f"127.0.0.1:{port}:127.0.0.1:{service.port}"
        done = _asked(self._ssh("-O", "forward", "-L", ways, service.host))
        if done.returncode:
            raise NotYetError(shown(done.stderr))

    def check(self) -> None:
        """Have the worker say who listens on the port of the service."""
        service = self.service
        asked = port_command(service.name, service.port, service.user)
        done = _asked(self._ssh(service.host, asked))
        if done.returncode:
            raise NotYetError(shown(done.stderr) or f"{service.host} does not say who listens")
        words = Words(service.host, parsed(service.host, done.stdout))
        stranger = words.text("stranger")
        if stranger:
            raise StrangerError(
                f"Port {service.port} of {service.host} is held by {stranger}, and not by "
                f"{service.name}. Nothing was sent there. End that process and apply the fleet "
                "file: a token that other people may have is replaced then."
            )
        if not words.flag("listens"):
            raise NotYetError(f"{service.name} does not listen yet")


def _asked(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace",
            timeout=60, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 255, "", "no answer within a minute")


def hold(service: Served, port: int, user: str | None, greeting: Sequence[str]) -> None:
    """Keep the tunnel open until Ctrl-C."""
    failures, greeted = 0, False
    while True:
        # A file, not a pipe: ssh, and so the tunnel, blocks if nothing reads its message about each
        # connection that the service refuses.
        with TemporaryFile() as said, TemporaryDirectory(prefix="tpu-fleet-") as folder:
            link, why = Link(service, user, f"{folder}/ssh"), ""
            with running(link.command(), said) as process:
                try:
                    while process.poll() is None and not link.is_up():
                        time.sleep(0.2)
                    if process.poll() is None:
                        link.forward(port)
                        click.echo("\n".join(greeting) if not greeted else "The tunnel is back.")
                        failures, greeted = 0, True
                    while process.poll() is None:
                        time.sleep(0.5)
                except (NotYetError, AnswerError) as error:
                    why = str(error)
            why = why or last_lines(said)
        failures += 1
        what = "broke" if greeted else "is not open"
        click.echo(f"The tunnel {what}{': ' + why if why else ''}. Trying again.", err=True)
        time.sleep(pause_after(failures))
        if failures % LOOK_AGAIN_AFTER == 0:
            # After a reboot or maintenance a host may have another address.
            service = refreshed(service)


def refreshed(service: Served) -> Served:
    """Read a service's address again; keep the known one if there is no answer."""
    try:
        return choose(read_services(), f"{service.name}.{service.host}")
    except click.ClickException as error:
        click.echo(str(error), err=True)
        return service


def greeting_of(service: Served, port: int, token: str) -> list[str]:
    """Return the address to open, and how to get the token."""
    lines = [
        f"{service.description} ({service.user} on {service.host}): {service.url(port, token)}"
    ]
    if token and service.kind == "ray":
        lines.append(f"Token: {token}")
    elif service.token_file and not token:
        login = f"ssh -F {service.ssh_config} -l {service.user} {service.host}"
        lines.append(f"It asks for a token: {login} cat {service.token_file}")
        lines.append("or, with sudo there: tpu-fleet tunnel --token " + service.name)
    elif service.kind == "notebook" and not token:
        lines.append("It asks for a token: JUPYTER_TOKEN in its set of secrets.")
    lines.append("Ctrl-C closes the tunnel.")
    return lines


def table_of(services: Sequence[Served]) -> Table:
    """Draw the services."""
    return Table.of(
        services,
        (Column("NAME"), lambda one: one.name),
        (Column("WHAT", 3), lambda one: one.description),
        (Column("WORKER"), lambda one: one.host),
        (Column("USER", 2), lambda one: one.user),
        (Column("PORT", 4, right=True), lambda one: str(one.port)),
        (Column("STATE", 1), lambda one: "enabled" if one.enabled else "off"),
    )


@click.command()
@click.argument("name", required=False)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port of this computer.")
@click.option("--user", metavar="LOGIN", help="Log in as this user instead of Ansible's.")
@click.option("--token", "with_token", is_flag=True, help="Read the token, and print it.")
@option_slice()
@option_limit()
def tunnel(
    name: str | None,
    port: int | None,
    user: str | None,
    with_token: bool,
    slices: tuple[str, ...],
    limit: str | None,
) -> None:
    """Open a notebook, a board or a dashboard.

    Without NAME the command lists them.

    It is an SSH tunnel that verifies the fleet's host keys and reconnects when it breaks.

    \b
      tpu-fleet tunnel
      tpu-fleet tunnel alice --port 8888
    """
    services = read_services(limit_of(slices, limit))
    if name is None:
        if services:
            print_tables(wide_console(), table_of(services))
        else:
            click.echo("No host serves anything. Declare fleet_notebooks or fleet_boards for that.")
        return
    service = choose(services, name)
    token = ""
    if with_token and service.token_file:
        token = read_token(service, user)
    local = port or free_port(service.port)
    if port and answers(port):
        raise click.ClickException(f"Port {port} of this computer is in use.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        hold(service, local, user, greeting_of(service, local, token))
    except KeyboardInterrupt:
        click.echo("\nThe tunnel is closed.")
