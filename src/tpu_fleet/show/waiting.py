"""Report on standard error what a command waits for, and since when."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import REMINDERS


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Write a line every so often while the block runs longer than five seconds."""
    over = threading.Event()
    begun = time.monotonic()

    def tell() -> None:
        pauses = REMINDERS.delays()
        while not over.wait(next(pauses)):
            click.echo(f"{what}: {time.monotonic() - begun:.0f} s so far", err=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
