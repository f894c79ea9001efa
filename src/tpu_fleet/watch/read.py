"""Read the fleet file and the workers, in a process that ends.

Ansible remembers for its whole life which files of variables exist, and what ansible.cfg says. In a
process of its own it sees what has changed, and its memory is free afterwards. The answer, which
can contain secrets, comes over a pipe.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from typing import Any

from ..workers.inventory.read import PlayError, read_inventory, reason_of
from ..workers.play import Event, play
from .ground import Settings

SECONDS = 300.0
SETTINGS, WORKERS = "settings", "workers"


def read_settings(ended: Callable[[], bool] = bool) -> Settings:
    """Return what the fleet file says. Raises PlayError, also if it is to end before."""
    return Settings.from_dict(_asked(SETTINGS, ended))


def read_workers(ended: Callable[[], bool] = bool) -> None:
    """Read the workers from the API, and keep them on this computer. Raises PlayError."""
    _asked(WORKERS, ended)


def _asked(what: str, ended: Callable[[], bool]) -> Any:
    """Have a process read something; return its answer."""
    deadline = time.monotonic() + SECONDS
    with subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, what],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A signal for the watcher must not reach it.
        start_new_session=True,
    ) as process:
        out = err = None
        while out is None:
            try:
                out, err = process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                if ended() or time.monotonic() > deadline:
                    process.kill()
    try:
        told = json.loads(out)
    except ValueError:
        lines = (err or "").strip().splitlines()
        why = f"Reading the {what} ended with {process.returncode}."
        raise PlayError("\n".join([why, *lines[-5:]])) from None
    if "problem" in told:
        raise PlayError(told["problem"])
    return told["answer"]


def _settings() -> dict[str, Any]:
    inventory = read_inventory(fresh=True)
    if not inventory.key_file().exists():
        _prepare()
        inventory = read_inventory()
    return inventory.watched()


def _prepare() -> None:
    """Create the key and the folders of a fleet for which no playbook has run."""
    said: list[str] = []

    def on_event(event: Event) -> None:
        if event.get("event") in ("runner_on_failed", "runner_on_unreachable"):
            said.append(str(event.get("event_data", {}).get("res", {}).get("msg", "")))
        elif event.get("stdout") and event.get("event") in ("error", "verbose"):
            said.append(str(event["stdout"]))

    if play("tpu.fleet.watch", on_event, timeout=SECONDS):
        why = reason_of("\n".join(said)) or "\n".join(said[-5:]).strip()
        raise PlayError(why or "tpu.fleet.watch failed; run it.")


def _workers() -> None:
    from ..workers.inventory.lookup import ask

    ask()


def _day(value: date) -> str:
    # YAML makes dates of texts such as the last day of an allocation.
    return value.isoformat()


def main(what: str) -> None:
    """Print the answer, or the problem."""
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError

    readers: dict[str, Callable[[], Any]] = {SETTINGS: _settings, WORKERS: _workers}
    try:
        # Ansible's own messages are not the answer.
        with contextlib.redirect_stdout(sys.stderr):
            told = {"answer": readers[what]()}
    except (PlayError, InventoryError) as error:
        told = {"problem": str(error)}
    print(json.dumps(told, default=_day))


if __name__ == "__main__":
    main(sys.argv[1])
