"""Drive the collection's playbooks through ansible-runner, from the folder the person is in."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_runner.interface import get_inventory, run

Event = Mapping[str, Any]


class PlayError(RuntimeError):
    """Ansible did not get as far as the hosts; the message is its own."""


def _environment() -> dict[str, str]:
    # ansible-runner takes ansible-playbook from PATH: the one beside this Python is the right one.
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def read_inventory() -> dict[str, Any]:
    """Return what `ansible-inventory --list` says here."""
    out, err = get_inventory(
        action="list",
        inventories=[],
        response_format="json",
        quiet=True,
        process_isolation=False,
        envvars=_environment(),
        host_cwd=str(Path.cwd()),
    )
    if not isinstance(out, dict):
        raise PlayError(str(err or out).strip())
    return out


def play(playbook: str, on_event: Callable[[Event], None], limit: str | None = None) -> int:
    """Run a playbook of the collection; every event goes to on_event. Returns the exit code."""

    def handle(event: Event) -> bool:
        on_event(event)
        return False  # no file for each event

    with tempfile.TemporaryDirectory(prefix="tpu-fleet-") as private:
        result = run(
            private_data_dir=private,
            project_dir=str(Path.cwd()),
            playbook=playbook,
            limit=limit,
            event_handler=handle,
            quiet=True,
            suppress_env_files=True,
            envvars=_environment(),
        )
    return int(result.rc)
