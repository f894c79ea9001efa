"""The sets of secrets that a run names: fetched before each start, kept in memory only."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from ..decide.config import Config

# A start follows soon; while others are waited for, Google is not asked again and again.
_GOOD_SECONDS = 300.0
_RETRY_SECONDS = 30.0
_TIMEOUT = 60.0


class CannotGet(Exception):
    """Secrets that are not available, and why."""


def gather(config: Config) -> dict[str, str]:
    """Return the variables of all sets of a run."""
    if not config.secrets:
        return {}
    program = config.paths.secrets_program
    if not program.exists():
        raise CannotGet(
            f"the sets of secrets {', '.join(config.secrets)} are not on this host; "
            "declare them in fleet_secrets and configure the host"
        )
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(program), "json", "--user", config.user, *config.secrets],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotGet(f"the secrets: {type(error).__name__}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["the secrets cannot be read"]
        raise CannotGet(lines[-1])
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise CannotGet("the secrets are not readable") from None
    return {str(name): str(value) for name, value in found.items()}


class Keeper:
    """Remembers them from the look before a start to the start."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._values: dict[str, str] | None = None
        self._error = ""
        self._asked = 0.0
        self._stamps = _stamps(config)

    def obstacle(self) -> str:
        """Return why they are not available; empty when they are."""
        age = time.monotonic() - self._asked
        if self._values is not None and age < _GOOD_SECONDS:
            return ""
        if self._error and age < _RETRY_SECONDS:
            return self._error
        try:
            self._values, self._error = gather(self._config), ""
        except CannotGet as error:
            self._values, self._error = None, str(error)
        self._asked = time.monotonic()
        return self._error

    def take(self) -> dict[str, str]:
        """Return them for one start; the next one looks again."""
        values = gather(self._config) if self._values is None else self._values
        self._values = None
        return values

    def changed(self) -> bool:
        """Return whether a set was written again, and the run wants to know."""
        return self._config.restart_on_secret_change and _stamps(self._config) != self._stamps


def _stamps(config: Config) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for name in config.secrets if config.restart_on_secret_change else ():
        try:
            status = (config.paths.secrets / f"{name}.env").stat()
            found.append((status.st_mtime_ns, status.st_ino))
        except OSError:
            found.append(None)
    return found
