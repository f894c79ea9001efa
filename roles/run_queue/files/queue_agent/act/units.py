"""The units of systemd by which run agents run, and environments are built."""

from __future__ import annotations

import contextlib
import time

from run_agent.act import as_user

_SECONDS = 30.0
_GOOD_FOR = 3.0
_ACTIVE = ("active", "activating", "reloading", "deactivating")
_FOR_GOOD = ("poweroff.target", "halt.target")


class CannotDo(Exception):
    """systemd refused; the text has the reason."""


class StillDoing(CannotDo):
    """systemctl did not answer in time; systemd may go on."""


class Units:
    """Asks one program, systemctl."""

    def __init__(self, systemctl: str) -> None:
        self._program = systemctl
        self._seen: dict[str, tuple[float, bool]] = {}

    def is_active(self, run: str, afresh: bool = False) -> bool:
        """Return whether a run's unit is active, or on its way to or from that."""
        return self._is_active(_unit(run), afresh)

    def is_building(self, venv: str) -> bool:
        """Return whether an environment is being built for a run."""
        return self._is_active(_building(venv), False)

    def _is_active(self, unit: str, afresh: bool) -> bool:
        at, known = self._seen.get(unit, (float("-inf"), False))
        now = time.monotonic()
        if not afresh and now - at < _GOOD_FOR:
            return known
        state = self._ask("show", "--property=ActiveState", "--value", unit).strip()
        self._seen[unit] = now, state in _ACTIVE
        return state in _ACTIVE

    def start(self, run: str, is_new: bool = False) -> None:
        """Start a run's agent. It is not enabled: at a boot its run may be another slice's.

        systemd reads the file of a run that `is_new` on this machine by itself. To read all files
        takes long, so it is asked to only where it knows an older file of this name, or, before
        version 246, none.
        """
        self._seen.pop(_unit(run), None)
        if not is_new and "yes" in self._ask("show", "--property=NeedDaemonReload", _unit(run)):
            self._ask("daemon-reload")
        try:
            self._ask("start", "--no-block", _unit(run))
        except CannotDo:
            self._ask("daemon-reload")
            self._ask("start", "--no-block", _unit(run))
        self._seen[_unit(run)] = time.monotonic(), True

    def build(self, venv: str) -> None:
        """Have the machine build an environment; this does not wait for it."""
        self._seen.pop(_building(venv), None)
        self._ask("start", "--no-block", _building(venv))

    def stop(self, run: str) -> None:
        """Let a run's agent end the program, and end; this does not wait for it."""
        self._seen.pop(_unit(run), None)
        self._ask("stop", "--no-block", _unit(run))

    def has_stopped(self, run: str) -> bool:
        """Let a run's agent end the program, and end; return whether that is done by now."""
        self._seen.pop(_unit(run), None)
        with contextlib.suppress(StillDoing):
            self._ask("stop", _unit(run))
            return True
        return False

    def main_pid(self, unit: str) -> int:
        """Return the process of a unit; 0 if it has none."""
        text = self._ask("show", "--property=MainPID", "--value", unit).strip()
        return int(text) if text.isdigit() else 0

    def goes_for_good(self) -> bool:
        """Return whether the machine is about to be switched off, and not to boot again."""
        try:
            jobs = self._ask("list-jobs", "--no-legend", "--plain").split()
        except CannotDo:
            return False
        return any(word in _FOR_GOOD for word in jobs)

    def _ask(self, *words: str) -> str:
        try:
            done = as_user.run([self._program, *words], seconds=_SECONDS)
        except as_user.TimeLimitError:
            raise StillDoing(f"systemctl {words[0]}: not within {_SECONDS:.0f} s") from None
        except (OSError, as_user.UserError) as error:
            raise CannotDo(f"systemctl {words[0]}: {error}") from None
        if done.code:
            said = done.err.decode("utf-8", "replace").strip().splitlines()
            raise CannotDo(f"systemctl {words[0]}: {said[-1] if said else done.code}")
        return done.out.decode("utf-8", "replace")


def _unit(run: str) -> str:
    return f"tpu-fleet-run@{run}.service"


def _building(venv: str) -> str:
    """Return the unit of the apply agent by which the machine builds for the queue."""
    return f"tpu-fleet-venv@{venv}.service"
