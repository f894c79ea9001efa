"""The picture of `tpu-fleet top`: a fleet in which something of everything happens."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import cast

from . import ROOT

sys.path.insert(0, str(ROOT / "tests/support"))

from fleet_seen import lab

from tpu_fleet.top.app import Top
from tpu_fleet.top.closer import Closer, Key
from tpu_fleet.top.source import Source

SIZE = (120, 24)
LOSS = [round(0.1 + 2.4 / (1 + at / 9) + 0.03 * (at % 4), 4) for at in range(120)]
LOG = [f"step {1130 + 10 * at} loss {LOSS[-8 + at]}" for at in range(8)]
# Fonts from elsewhere: an open picture would ask another server for them.
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Told:
    """A source that knows the fleet of the picture."""

    def __init__(self) -> None:
        self.follower = self.looker = self
        self.seen = lab()
        self.now = self.seen.now

    def start(self) -> None:
        """Ask no worker."""

    def stop(self) -> None:
        """End nothing."""

    def look_at(self, names: set[str]) -> None:
        """Take no note of what is on the screen."""

    def want(self, key: Key | None) -> None:
        """Know the selected run."""
        if key is not None:
            speed = tuple(2.5 - (at % 5) / 20 for at in range(90))
            self.seen.closer = Closer(key, tuple(LOSS), speed, tuple(LOG))


def page() -> str:
    """Draw the screen as SVG."""
    return asyncio.run(picture())


async def picture() -> str:
    """Draw the screen after a few keys."""
    app = Top(cast(Source, Told()), 3600)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("G")
        app.take()
        await pilot.pause()
        drawn = app.export_screenshot(title="tpu-fleet top")
    return "".join(f"{line.rstrip()}\n" for line in FONT.sub("", drawn).splitlines())
