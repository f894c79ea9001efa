"""Ports of this computer on which a program of its user can listen."""

from __future__ import annotations

import socket

import click


def free(port: int) -> int:
    """Return a port if no program has it, else 0. Of port 0 it is any that is free."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return 0
        return int(trial.getsockname()[1])


def free_port(wanted: int) -> int:
    """Return the wanted port, or any free one if it is in use."""
    port = free(wanted) or free(0)
    if not port:
        raise click.ClickException("This computer has no free port.")
    return port
