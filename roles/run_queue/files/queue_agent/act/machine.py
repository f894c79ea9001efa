"""What is seen on this machine: the runs, the chips, the status of the run that was taken."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from run_agent.act import devices, store
from run_agent.act.definitions import load

from ..decide.settings import Places
from ..shared._host.run_states import NOT_BACK, NOT_STARTED
from ..shared._host.runs import RunFiles


class Machine:
    """Looks at files that root alone writes, and at open devices."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._files = RunFiles(places.root)

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
        about = self._files.definition(run).get("submitted") or {}
        if about.get("claim") != claim:
            return {}
        try:
            definition = load(self._places.runs / f"{run}.json").definition
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        status = self._files.status(run)
        return status if status.get("definition") == definition else {}

    def stopped_by(self, run: str) -> str:
        """Return who stopped a run on this machine; empty if none did."""
        return self._files.stopped_by(run)

    def has_venv(self, path: str) -> bool:
        """Return whether an environment is built."""
        return (self._places.root / path.lstrip("/") / "bin/python").exists()
