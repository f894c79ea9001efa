"""What is seen on this machine: the runs, the chips, the status of the run that was taken."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_agent.act import devices, store
from run_agent.act.definitions import load

from ..decide.settings import Places
from ..shared._host.run_states import ENDED, NOT_BACK, NOT_STARTED
from ..shared._host.runs import RunFiles


class Machine:
    """Looks at files that root alone writes, and at open devices."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._files = RunFiles(places.root)
        self._known: tuple[Any, str] = (None, "")

    def id(self) -> str:
        """Return the id of this machine's installation, which another machine has not."""
        try:
            return (self._places.root / "etc/machine-id").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def declared(self) -> list[dict[str, Any]]:
        """Return the declared runs of this machine, each with its state since the boot."""
        found = []
        for run in self._files.declared():
            if (self._places.runs / f"{run}.submitted").exists():
                continue
            needs = self._files.definition(run).get("needs_tpu", "auto")
            state = self._files.state_now(run)
            if state in (NOT_STARTED, NOT_BACK) and not self._is_enabled(run):
                continue
            found.append({"run": run, "state": state, "needs_tpu": needs})
        return found

    def _is_enabled(self, run: str) -> bool:
        """Return whether a declared run starts at a boot; one that does not wants nothing."""
        wants = self._places.units / "multi-user.target.wants"
        return os.path.lexists(wants / f"tpu-fleet-run@{run}.service")

    def holding(self) -> list[str]:
        """Return the runs that have their turn on the chips."""
        tickets = [store.read(path) or {} for path in self._places.tickets.glob("*.json")]
        return [str(one.get("run")) for one in tickets if one.get("holds") is True]

    def chips_held(self) -> str:
        """Return which processes have the chips open; empty if none has."""
        return devices.obstacle(self._places.root)

    def status(self, run: str, claim: int) -> Mapping[str, Any]:
        """Return the status of a run's agent, if it is about this claim; else nothing."""
        status = self._files.status(run)
        definition = self._definition(run, claim)
        return status if definition and status.get("definition") == definition else {}

    def has_ended(self, run: str, claim: int) -> bool:
        """Return whether the program of this claim has ended, and starts no more by itself."""
        return self.status(run, claim).get("state") in ENDED

    def _definition(self, run: str, claim: int) -> str:
        """Return what the status of this claim has as its definition; empty if it is not here.

        What is secret goes into it by a hash that takes long.
        """
        place = self._places.runs / run
        paths = [place.with_name(f"{run}.{end}") for end in ("json", "env.json", "key")]
        about = (run, claim, [_stamp(path) for path in paths])
        if self._known[0] != about:
            self._known = about, self._read(run, claim)
        return self._known[1]

    def _read(self, run: str, claim: int) -> str:
        about = self._files.definition(run).get("submitted") or {}
        if about.get("claim") != claim:
            return ""
        try:
            return load(self._places.runs / f"{run}.json").definition
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def stopped_by(self, run: str) -> str:
        """Return who stopped a run on this machine; empty if none did."""
        return self._files.stopped_by(run)

    def has_venv(self, name: str) -> bool:
        """Return whether an environment is built, by root's record; its folder may be a user's."""
        return (self._places.venvs / f"{name}.json").exists()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
