"""An environment that a run needs, built on this machine by the role that builds all others."""

from __future__ import annotations

import contextlib
import time

from run_agent.act import store
from run_agent.decide.values import one_line

from ..decide.messages import BUILDING, BUILT, NOT_ASKED, NOT_BUILT
from ..decide.settings import Places, Settings
from .machine import Machine
from .units import CannotDo, Units

_BEGINS = 10.0
"""Seconds in which a unit that was started is seen."""


class Venvs:
    """Has the machine build one environment at a time, and sees how that goes."""

    def __init__(self, settings: Settings, places: Places, units: Units) -> None:
        self.name = ""
        self._settings, self._places, self._units = settings, places, units
        self._machine = Machine(places)
        self._begun: float | None = None
        self._trouble = ""

    def follow(self, name: str) -> tuple[str, str]:
        """Return the state of what worker 0 wants built, and why it is not; begin if it is new.

        A build that failed begins again when worker 0 has wanted nothing, or another, in between.
        """
        if name != self.name:
            self.name, self._begun, self._trouble = name, None, ""
        if not name:
            return NOT_ASKED, ""
        if name not in self._settings.venvs_on_need:
            return NOT_BUILT, "it is not declared here as one that is built on need"
        if self._machine.has_venv(name):
            return BUILT, ""
        self._trouble = self._trouble or self._trouble_now(name)
        return (NOT_BUILT, self._trouble) if self._trouble else (BUILDING, "")

    def _trouble_now(self, name: str) -> str:
        """Begin, or look; return why it is not built."""
        try:
            if self._units.is_building(name):
                self._begun = self._begun or time.monotonic()
                return ""
            if self._begun is None:
                self._begin(name)
                return ""
        except CannotDo as error:
            return one_line(f"this machine does not apply roles to itself: {error}")
        return self._how_it_ended(name, time.monotonic() - self._begun)

    def _begin(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._places.failed_builds / f"{name}.json").unlink()
        self._units.build(name)
        self._begun = time.monotonic()

    def _how_it_ended(self, name: str, seconds: float) -> str:
        found = store.read(self._places.failed_builds / f"{name}.json")
        if self._machine.has_venv(name):
            return ""
        if found:
            return one_line(str(found.get("why")))
        if seconds < _BEGINS:
            return ""
        return f"it ended early: journalctl -u tpu-fleet-venv@{name}"
