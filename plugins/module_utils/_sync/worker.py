# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a worker, install a version beside the present one, and switch to it.

All of it leaves what the roles code_checkout and training_run would have left.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._apply_agent import stamp
from .._apply_agent import version as apply_version
from .._apply_agent.place import Place
from .._host import snapshot
from .._host.as_user import account_of, as_user
from .._host.run_left import ORIGINS
from .._host.run_states import ENDED, RUNNING
from .._host.runs import RunFiles, read_json
from .._host.state import as_json, load, read_text, record, write_atomically
from .._roles.code_checkout import act
from .._roles.code_checkout.apply import Apply
from .._roles.code_checkout.plan import Look
from .._roles.training_run.definition_text import with_version
from . import agents
from .check import follows, problems, rebuilt, uses
from .order import Order, has_any, state_hash

INCOMING = "/var/lib/tpu-fleet/code/incoming"
STARTED = "multi-user.target.wants"
SECTION = "code_checkout"
_MOST_ORIGINS = 50


class RefusedError(Exception):
    """The version cannot be taken here; nothing was changed. The text has the remedy."""


class Worker:
    """One worker, for one order."""

    def __init__(
        self, order: Order, place: Place, files: RunFiles, incoming: str = INCOMING
    ) -> None:
        self.order = order
        self.tree = order.tree
        self.place = place
        self.files = files
        self.definitions = {run: files.definition(run) for run in files.declared()}
        self.apply = Apply(
            {
                "versions": {self.tree.name: order.digest},
                "incoming": incoming,
                "keep": order.keep,
                "trees": [order.entry],
                "slice": order.slice,
            },
            dry=False,
        )
        # The entry is one of several in the fleet file.
        self.apply.places = dict.fromkeys(self.apply.places, "tree")
        self.archive = b""
        self._brought = False
        self._record: dict[str, Any] = {}
        self._attempts: dict[str, int] = {}

    # Before anything is changed -----------------------------------------------------------------

    def check(self) -> None:
        """Raise RefusedError with all reasons against the order."""
        self._record = read_json(Path(self.tree.record))
        environments = {run: self._environment(run) for run in self.order.runs}
        enabled = [run for run in self.definitions if self._is_enabled(run)]
        found = problems(self.order, self.definitions, environments, self._record, enabled)
        found += [
            f"Run {run} is stopped: {self.files.stopped_by(run)} stopped it. First: "
            f"tpu-fleet start {run}"
            for run in self.order.runs
            if self.files.stopped_by(run)
        ]
        if not found:
            self.apply.look()
            found = self.apply.problems
        if not found and self.order.requirements:
            found = rebuilt(self.order, self._listing())
        if found:
            raise RefusedError(" ".join(found))

    def _environment(self, run: str) -> str:
        text = read_text(self.files.definitions / f"{run}.env.json") or ""
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def _is_enabled(self, run: str) -> bool:
        return (self.place.units / STARTED / f"tpu-fleet-run@{run}.service").is_symlink()

    def _listing(self) -> list[str]:
        kept = apply_version.snapshot_of(self.place, self.tree.name)
        if kept:
            return list(read_json(kept[1]).get("files", []))
        path = str(self._record["path"])
        lines: dict[str, str] = as_user(self.tree.owner, lambda: act.listing(path))
        return list(lines.values())

    @property
    def release(self) -> str:
        """Return the folder of the version."""
        return self.tree.release(self.order.digest)

    @property
    def look(self) -> Look:
        """Return the state of the tree before the switch."""
        return self.apply.looks[self.tree.name]

    def is_there(self) -> bool:
        """Return whether the worker has the version, and its runs have it in their definitions."""
        defined = all(
            self.definitions[run]["code"]["version"] == self.order.digest for run in self.order.runs
        )
        installed = self.look.there and self.look.target == self.release
        return installed and defined and self._record.get("version") == self.order.digest

    def contents(self) -> dict[str, bytes]:
        """Return the contents of the version that this worker has, by their hash."""
        kept = apply_version.snapshot_of(self.place, self.tree.name)
        if not kept:
            return {}
        # To read an archive of which nothing is used takes time.
        lines = read_json(kept[1]).get("files", [])
        if not has_any(self.order, lines):
            return {}
        wanted, found = self.order.sizes, {}
        with tarfile.open(kept[0], "r:gz") as packed:
            for member in packed:
                stream = packed.extractfile(member) if member.isreg() else None
                data = stream.read() if stream else b""
                identity = hashlib.sha256(data).hexdigest()
                if stream and identity in wanted:
                    found[identity] = data
        return found

    # The first phase ------------------------------------------------------------------------------

    def prepare(self, contents: Mapping[str, bytes]) -> None:
        """Install the version in its folder, where nothing uses it yet."""
        self.archive = snapshot.pack_of(
            lambda entry: contents[entry.identity], self.order.entries, self.order.digest
        )
        if self.look.there:
            return
        path = self.apply.archive(self.tree)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        path.touch(mode=0o600)
        path.write_bytes(self.archive)
        self._brought = True
        self.apply.bring(self.tree, self.order.digest)

    def undo(self) -> None:
        """Remove what the first phase installed."""
        account = account_of(self.tree.owner)
        if self._brought and account:
            with contextlib.suppress(FileNotFoundError):
                self.apply.archive(self.tree).unlink()
            as_user(account, lambda: act.drop(self.release), seconds=act.TREE_SECONDS)

    # The second phase -----------------------------------------------------------------------------

    def switch(self, origin: Mapping[str, Any]) -> None:
        """Switch to the version, and have the agents of the runs start their next attempt."""
        self._attempts = {run: _attempt(self.files.status(run)) for run in self.order.runs}
        # First: if this process ends here, the machine itself installs the rest.
        described = snapshot.description(self.tree.name, self.order.entries, self.order.digest)
        apply_version.take(self.place, self.tree.name, self.archive, described)
        self.apply.switch(self.tree, self.order.digest, replace(self.look, there=True))
        self._note_state()
        for run in self.order.runs:
            self._note_origin(run, origin)
        self._define()

    def _note_state(self) -> None:
        state_dir = self.place.noted.parent
        applied = (load(state_dir).get("applied") or {}).get(SECTION) or {}
        versions = (applied.get("notes") or {}).get("versions") or {}
        if applied.get("hash") != state_hash(self.order.trees, versions):
            # Other trees are declared than those that were applied: the role is yet to come.
            return
        new = {**versions, self.tree.name: self.order.digest}
        facts = {"hash": state_hash(self.order.trees, new), "notes": {"versions": new}}
        record(SECTION, facts, state_dir=state_dir)

    def _note_origin(self, run: str, origin: Mapping[str, Any]) -> None:
        account = account_of(str(self.definitions[run].get("user")))
        if not origin or account is None:
            return
        folder = self.files.states / run / ORIGINS
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        said = {"version": self.order.digest, "at": time.time(), "by": self.order.who}
        text = as_json({**said, "follows_attempt": self._attempts[run], **origin})
        path = folder / f"{self.order.digest[:16]}.json"
        # As readable as the run's own files: a change may be secret.
        write_atomically(path, text, mode=0o640, gid=account.pw_gid)
        for old in sorted(folder.glob("*.json"), key=_age)[:-_MOST_ORIGINS]:
            old.unlink()

    def _define(self) -> None:
        """Write the definitions of all runs of the tree; those with the old code keep it."""
        installed = {"path": self.release, "version": self.order.digest}
        touched = []
        for run, before in self.definitions.items():
            if not uses(before, self.tree.name):
                continue
            path = self.files.definitions / f"{run}.json"
            text = with_version(before, installed)
            if read_text(path) != text:
                write_atomically(path, text)
                touched.append(run)
        # What is kept stopped begins with the new version when it is started.
        able = [run for run in touched if self._is_enabled(run)]
        started = [run for run in able if not self.files.stopped_by(run)]
        restarted = [run for run in started if follows(self.definitions[run], self.tree.name)]
        agents.take_up(self.files, restarted, [run for run in started if run not in restarted])

    # Afterwards -----------------------------------------------------------------------------------

    def progress(self) -> tuple[list[dict[str, Any]], bool]:
        """Return what each run does, and whether all have begun their next attempt, or ended it.

        An attempt has begun when the agent has seen its program.
        """
        seen = {run: self.files.status(run) for run in self.order.runs}
        states = [self._state(run, status) for run, status in seen.items()]
        begun = all(one["next"] and one["state"] in (RUNNING, *ENDED) for one in states)
        pids = all(one.get("pid") or one.get("state") != RUNNING for one in seen.values())
        return states, begun and pids

    def _state(self, run: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a run does: its state, its attempt, and whether that is the next one."""
        attempt = _attempt(status)
        return {
            "run": run,
            "state": str(status.get("state", "")),
            "attempt": attempt,
            "next": attempt > self._attempts.get(run, attempt),
            "reason": str(status.get("reason", "")),
        }

    def tidy(self) -> None:
        """Remove old versions, and take what was changed here for declared."""
        self.apply.clear_old([self.tree])
        definitions = {str(self.files.definitions / f"{run}.json") for run in self.definitions}
        own = {self.tree.record, self.tree.dest, str(self.place.noted), *definitions}
        below = f"{self.tree.releases}/"
        apply_version.look_again(
            self.place,
            lambda path: path in own or f"{path}/".startswith(below),
            stamp.part_of(self.place.watch, own, [self.tree.releases], [self.tree.record]),
        )


def _attempt(status: Mapping[str, Any]) -> int:
    attempt = status.get("attempt")
    return attempt if isinstance(attempt, int) else 0


def _age(path: Path) -> float:
    return path.stat().st_mtime


def as_request(text: str) -> dict[str, Any]:
    """Return the object in a line of the controller."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise RefusedError("the controller sent no object")
    return found
