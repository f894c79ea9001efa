"""Tell who waits what for, and since when, on standard error."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import click

PAUSES = (5.0, 10.0, 20.0, 30.0)
"""Seconds until the next line; the last one repeats."""


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Write a line every so often while the block runs longer than five seconds."""
    over = threading.Event()
    begun = time.monotonic()

    def tell() -> None:
        pauses = iter(PAUSES)
        pause = next(pauses)
        while not over.wait(pause):
            click.echo(f"{what}: {time.monotonic() - begun:.0f} s so far", err=True)
            pause = next(pauses, pause)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
