"""A submitted run on this machine: verified, installed, started and removed.

What worker 0 orders is a name and the hash of a definition. Each worker reads that from the bucket
and verifies it itself, before the first byte of it is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from pathlib import Path
from typing import Any

from run_agent.act import as_user, shared_places, store
from run_agent.decide.values import is_whole

from ..decide import submitted, verdict
from ..decide.member import Here
from ..decide.messages import Order
from ..decide.settings import Places, Settings
from ..shared._host.runs import SUBMITTED, RunFiles
from ..shared._queue.objects import Definition, Refused, definition_of
from ..shared._queue.store import Queue
from ..shared._roles.training_run.definition import CHECKPOINTS
from . import code, signature
from .code import CannotInstall
from .units import CannotDo, Units


class Verified:
    """Reads definitions, and verifies them; the last one is not verified twice."""

    def __init__(self, settings: Settings, places: Places) -> None:
        self._settings, self._places = settings, places
        self._last: tuple[tuple[str, str], Definition] | None = None

    def get(self, queue: Queue, run: str, sha: str) -> Definition:
        """Return a definition that a person may have run here; raise CannotInstall, or NoAnswer."""
        last = self._last
        if last is None or last[0] != (run, sha):
            last = (run, sha), _verified(queue, self._settings, self._places, run, sha)
            self._last = last
        return last[1]


def _verified(queue: Queue, settings: Settings, places: Places, run: str, sha: str) -> Definition:
    try:
        signed = queue.definition(sha)
        definition = definition_of(signed.signed)
    except Refused as error:
        raise CannotInstall(f"definition: {error}", True) from None
    wrong = verdict.refusals(definition, settings, run)
    signers = places.settings / "allowed_signers"
    said = "" if wrong else signature.trouble(signed, definition.person, signers)
    if said:
        wrong.append(f"signature: it is not one of {definition.person}: {said}")
    if wrong:
        raise CannotInstall("; ".join(wrong), True)
    return definition


class Installed:
    """The submitted run that is on this machine."""

    def __init__(
        self, settings: Settings, places: Places, units: Units, verified: Verified
    ) -> None:
        self.going = ""
        """A run that has ended, and is being removed beside all else."""
        self._settings, self._places, self._units = settings, places, units
        self._verified = verified
        self._files = RunFiles(places.root)

    def here(self, wanted: str, afresh: bool = False) -> Here:
        """Return which run is here: one that is not wanted, if there is one.

        One that is `going` is not here, unless it is wanted again.
        """
        found = sorted(self._places.runs.glob(f"*.{submitted.MARK}"))
        marks = [path for path in found if path.stem == wanted or path.stem != self.going]
        if not marks:
            return Here()
        mark = next((path for path in marks if path.stem != wanted), marks[0])
        claim = (store.read(mark) or {}).get("claim")
        number = claim if is_whole(claim) else 0
        return Here(
            mark.stem,
            number,
            self._is_whole(mark.stem, number),
            self._units.is_active(mark.stem, afresh),
        )

    def _is_whole(self, run: str, claim: int) -> bool:
        about = self._files.definition(run).get("submitted") or {}
        unit = self._places.units / f"tpu-fleet-run@{run}.service"
        return about.get("claim") == claim and unit.exists()

    def install(self, order: Order, queue: Queue) -> None:
        """Write the files of a run, and start it; raise CannotInstall, or NoAnswer."""
        definition = self._verified.get(queue, order.run, order.definition)
        account = as_user.account_of(definition.user)
        if account is None:
            raise CannotInstall(f"there is no user {definition.user} on this machine", False)
        try:
            self._take_places(definition, account)
            workdir = self._code(definition, account, queue)
            is_new = not (self._files.states / order.run).exists()
            self._write(definition, order, workdir)
            self._units.start(order.run, is_new)
        except submitted.Unfit as error:
            raise CannotInstall(str(error), True) from None
        except (OSError, CannotDo) as error:
            raise CannotInstall(f"cannot install it: {error}", False) from None

    def _take_places(self, definition: Definition, account: pwd.struct_passwd) -> None:
        """See to it that no folder of this name is still that of another user.

        Its log is put where only root finds it. Its checkpoints are nothing that this run may read.
        """
        run, uid = definition.name, account.pw_uid
        log, checkpoints = self._files.logs / run, f"{CHECKPOINTS}{run}"
        if os.path.lexists(log) and not shared_places.is_folder_of(log, uid):
            shared_places.move_away(log)
        if definition.checkpoint_dir not in ("", checkpoints):
            return
        found = self._places.root / checkpoints.lstrip("/")
        if os.path.lexists(found) and not shared_places.is_folder_of(found, uid):
            why = f"{checkpoints} is another user's: remove it, or submit under another name"
            raise CannotInstall(f"checkpoint_dir: {why}", False)

    def _code(self, definition: Definition, account: pwd.struct_passwd, queue: Queue) -> str:
        if definition.code is None:
            return ""
        place, name = self._places.code, definition.name
        found = code.install(place, name, definition.code, account, queue)
        code.prune(place, name)
        return str(found)

    def _write(self, definition: Definition, order: Order, workdir: str) -> None:
        files = submitted.files_of(definition, order, self._settings, workdir)
        run, root = definition.name, self._places.root
        with contextlib.suppress(FileNotFoundError):
            self._files.mark(run).unlink()  # of an earlier round
        about = {"person": definition.person, "definition": order.definition}
        store.write(self._files.states / run / SUBMITTED, about)
        for file in files:
            path = root / str(file["path"]).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            text = self._rooted(file)
            as_user.write_plain(str(path), text.encode(), int(file.get("mode", "0644"), 8))

    def _rooted(self, file: dict[str, Any]) -> str:
        """Return the content of a file; under another root, a definition names the paths there."""
        text, root = str(file["content"]), self._places.root
        if root == Path("/") or not file["path"].endswith(".json") or ".env." in file["path"]:
            return text
        found, files = json.loads(text), self._files
        paths = {
            "state": files.states / found["run"],
            "runtime": files.spare / found["run"],
            "log": files.logs / found["run"] / "run.log",
            "queue": self._places.tickets,
            "records": root / "var/lib/tpu-fleet",
            "root": root,
        }
        return json.dumps({**found, "paths": {key: str(it) for key, it in paths.items()}})

    def folder(self, run: str) -> str:
        """Return where a run's agent writes its status."""
        return str(self._files.states / run)

    def start(self, run: str) -> None:
        """Start a run's agent; raise CannotDo."""
        self._units.start(run)

    def stop(self, run: str) -> None:
        """Let a run's agent end its program, and end; raise CannotDo."""
        self._units.stop(run)

    def remove(self, run: str) -> bool:
        """Remove a run, once its agent has ended; return whether that is done. Logs stay."""
        if not self._units.has_stopped(run):
            return False
        for path in submitted.gone_paths(run):
            with contextlib.suppress(FileNotFoundError):
                (self._places.root / path.lstrip("/")).unlink()
        return True
