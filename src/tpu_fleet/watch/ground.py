"""The watcher's surroundings: its folder, and its settings from the fleet file."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import json
import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import (
    REST_FILE,
    RestBook,
    book_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._host.state import write_atomically
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import (
    IMPERSONATE_ENV,
    TOKEN_ENV,
    AuthOptions,
    Client,
)
from ansible_collections.tpu.fleet.plugins.module_utils._wire.transport import RetryPolicy

from ..history.record import HISTORY
from ..workers.inventory.ansible_config import inventory_sources, stamp_of, state_of

RETRY = RetryPolicy(tries=2, backoff=Backoff(first=0.5))
"""The next poll repeats a failed request; a poll does not wait."""


class AnotherWatcherError(click.ClickException):
    """Another watcher of this fleet runs on this computer."""


@dataclass(frozen=True)
class Ground:
    """The folders of the watcher of one fleet, which an inventory identifies."""

    sources: tuple[str, ...]
    folder: Path

    @classmethod
    def here(cls, environment: Mapping[str, str], folder: Path) -> Ground:
        """Return the folders for the fleet in this folder."""
        sources = inventory_sources(environment, folder)
        return cls(sources, state_of(environment, sources))

    @property
    def holder(self) -> str:
        """The name of this watcher in the lease; it includes the folder."""
        digest = hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:6]
        name = f"{getpass.getuser()}_at_{socket.gethostname()}".lower()
        return f"{re.sub('[^a-z0-9_-]+', '-', name)[:56]}-{digest}"

    @property
    def memory(self) -> Path:
        """The file with the watcher's memory."""
        return self.folder / "memory.json"

    @property
    def status(self) -> Path:
        """The file with the status, for people and programs."""
        return self.folder / "status.json"

    @property
    def history(self) -> Path:
        """The file with the history of the fleet."""
        return self.folder / HISTORY

    @property
    def log(self) -> Path:
        """The log."""
        return self.folder / "watch.log"

    @property
    def playbooks(self) -> Path:
        """The folder with the output of playbooks."""
        return self.folder / "playbooks"

    def make(self) -> None:
        """Create the folders, readable only by this user."""
        self.playbooks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def write(self, path: Path, data: Mapping[str, Any]) -> None:
        """Replace a file atomically."""
        # Without indentation: each poll may write a thousand slices.
        text = json.dumps(data) + "\n"
        write_atomically(path, text, mode=0o600, uid=os.getuid(), gid=os.getgid())

    @contextlib.contextmanager
    def only_one(self) -> Iterator[None]:
        """Lock out a second watcher of this folder until this process ends."""
        with open(self.folder / "lock", "a", encoding="ascii") as stream:
            if not _lock(stream):
                raise AnotherWatcherError(
                    f"A watcher of this fleet runs on this computer; its folder is {self.folder}. "
                    "tpu-fleet watch status shows it."
                )
            yield

    def is_watched(self) -> bool:
        """Return whether a watcher of this folder runs."""
        try:
            with open(self.folder / "lock", encoding="ascii") as stream:
                return not _lock(stream)
        except OSError:
            return False

    def stamp(self) -> str:
        """Return a stamp of all inventory files; they are read again when it changes."""
        return hashlib.sha256(repr(stamp_of(self.sources)).encode()).hexdigest()


def _lock(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Settings:
    """The watcher's settings from the fleet file."""

    project: str
    endpoint: str
    params: Mapping[str, Any]
    state_dir: Path
    notify: Sequence[dict[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    shares: Sequence[Mapping[str, Any]] = ()
    prices: Sequence[Mapping[str, Any]] = ()
    queue: Mapping[str, Any] = field(default_factory=dict)
    """What the fleet file says of the queue of submitted runs."""
    venvs: Sequence[Mapping[str, Any]] = ()
    unregistered: Sequence[str] = ()
    """Keys to register at GitHub, for which there is no token."""

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Settings:
        """Parse the result of the function watch_settings."""
        return cls(
            project=str(said["project"]),
            endpoint=str(said["api_endpoint"]),
            # The playbook that the watcher runs deletes ended entries with `delete`.
            params={**said["fleet"], "expire": True},
            state_dir=Path(str(said["state_dir"])),
            notify=list(said["notify"]),
            runs=list(said["runs"]),
            shares=list(said.get("shares", ())),
            prices=list(said.get("prices", ())),
            queue=dict(said.get("queue") or {}),
            venvs=list(said.get("venvs", ())),
            unregistered=list(said.get("unregistered", ())),
        )

    @property
    def owner(self) -> str:
        """Return the owner of the fleet."""
        return str(self.params["owner"])

    @property
    def name(self) -> str:
        """Return the fleet's name for people."""
        return self.project if self.owner == "managed" else f"{self.project}/{self.owner}"

    def fleet(self) -> Fleet:
        """Return the declared fleet for the planner."""
        return Fleet.from_params(self.params, self.client().project)

    def client(self) -> Client:
        """Return a new client, which reads the credentials again."""
        return Client(self.project, endpoint=self.endpoint or None, auth=auth_here(), retry=RETRY)

    def rest_book(self, client: Client) -> RestBook:
        """Return the record of the slices that rest."""
        return book_of(client, self.owner, self.state_dir / REST_FILE)

    def together(self) -> dict[str, set[str]]:
        """Return for each slice the others that train with it and need its addresses."""
        found: dict[str, set[str]] = {}
        for run in self.runs:
            names = {str(name) for name in run.get("slices", ())}
            if run.get("multislice") and run.get("enabled", True):
                for name in names:
                    found.setdefault(name, set()).update(names - {name})
        return found

    def servers_of(self, slice_names: Collection[str]) -> set[str]:
        """Return the slices that share a folder with these; they admit clients by address."""
        return {
            str(share["slice"])
            for share in self.shares
            if share.get("slice")
            and (not share.get("slices") or not set(slice_names).isdisjoint(share["slices"]))
        } - set(slice_names)

    def runs_on(self, slice_name: str) -> list[str]:
        """Return the names of the declared runs of a slice."""
        return [
            str(run["name"])
            for run in self.runs
            if slice_name in run.get("slices", ()) and run.get("enabled", True)
        ]


def auth_here() -> AuthOptions:
    """Return the credentials of this environment, found as the playbooks find them."""
    return AuthOptions(
        access_token=os.environ.get(TOKEN_ENV) or None,
        impersonate_service_account=os.environ.get(IMPERSONATE_ENV) or None,
    )
