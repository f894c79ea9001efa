"""Drive the collection's playbooks through ansible-runner, from the folder the person is in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_runner.interface import run

from .fleet_hosts import inventory_sources

# A host that is in no group of the fleet. Ansible refuses to begin where localhost is the only one
# that a limit leaves, though there are others: that is so for a slice that has yet to be made.
NOBODY = "tpu-fleet-nobody"
Event = Mapping[str, Any]


class PlayError(RuntimeError):
    """Ansible did not get as far as the hosts; the message is its own."""


def _beside_us() -> str:
    """Return the folder of the Ansible that belongs to this Python."""
    return str(Path(sys.executable).parent)


def read_inventory() -> dict[str, Any]:
    """Return what `ansible-inventory --list` says here."""
    done = subprocess.run(
        [f"{_beside_us()}/ansible-inventory", "--list"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise PlayError(done.stderr.strip())
    inventory: dict[str, Any] = json.loads(done.stdout)
    return inventory


def play(
    playbook: str,
    on_event: Callable[[Event], None],
    limit: str | None = None,
    tags: str | None = None,
    variables: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    skip_tags: str | None = None,
    cancelled: Callable[[], bool] | None = None,
    timeout: float | None = None,
) -> int:
    """Run a playbook of the collection; every event goes to on_event. Returns the exit code.

    Whoever may end it says so by cancelled, and runs it in a thread: else a signal ends it. A limit
    that names NOBODY may name slices besides that are not there yet.
    """

    def handle(event: Event) -> bool:
        on_event(event)
        return False  # no file for each event

    with tempfile.TemporaryDirectory(prefix="tpu-fleet-") as private:
        # How often it looks whether it is to end, and when it ends at the latest. It takes these
        # from a file alone.
        env, variables = {**(env or {})}, {**(variables or {})}
        if limit and NOBODY in limit.split(","):
            sources = inventory_sources(os.environ, Path.cwd())
            file = Path(private) / "nobody.json"
            file.write_text(json.dumps({"ungrouped": {"hosts": {NOBODY: {}}}}), encoding="utf-8")
            env["ANSIBLE_INVENTORY"] = ",".join([*sources, str(file)])
            # What is written about this fleet names its own sources.
            variables["fleet_inventory_sources"] = list(sources)
        settings = {"pexpect_timeout": 1, **({"job_timeout": timeout} if timeout else {})}
        (Path(private) / "env").mkdir()
        (Path(private) / "env" / "settings").write_text(json.dumps(settings), encoding="utf-8")
        result = run(
            private_data_dir=private,
            project_dir=str(Path.cwd()),
            playbook=playbook,
            limit=limit,
            tags=tags,
            event_handler=handle,
            quiet=True,
            suppress_env_files=True,
            # It takes ansible-playbook from PATH: the one beside this Python is the right one.
            envvars={
                **env,
                "PATH": f"{_beside_us()}{os.pathsep}{os.environ.get('PATH', '')}",
            },
            extravars=variables,
            skip_tags=skip_tags,
            cancel_callback=cancelled,
        )
    return int(result.rc)
