# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of a controller: receive the wish, have it applied, report the result.

A separate process does the work and continues if the connection is lost. The next call returns its
result, or follows the work while it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from .again import WHO, keep, kept
from .glance import run_words
from .locks import attempt
from .place import Place, boot_id, read, write
from .stamp import keep_glance
from .store import Store, StoreError
from .talk import Line, line_of
from .wish import SHARED, Todo, Wish
from .work import Engine, NoEngineError, UnheardError, Work, WorkError, stamp_of

# A controller that receives nothing for long cannot know whether the connection is dead.
SIGN_OF_LIFE = 10.0
# Seconds between two looks: more, the longer nothing happens.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5


@dataclass(frozen=True)
class Session:
    """The host's side of a call."""

    place: Place
    line: Line
    engine: Engine
    # Seconds to wait for the work of another process.
    patience: float = 3600.0

    def be(self, request: Dict[str, Any]) -> int:
        """Answer one request; return the exit code."""
        try:
            wish = Wish.read(request["wish"])
            store = Store(self.place.store)
            is_new = bool(store.missing([wish.code]))
            self.line.fetch(store, wish.files)
            if request.get("serve"):
                # A worker that had the files before serves none. Only calls that serve pay for the
                # import, which takes longer than the rest of a short call.
                from . import share

                port = (
                    share.offer([store.path(wish.code)], request["serve"], request["peers"])
                    if is_new
                    else 0
                )
                self.line.say("serves", port=port)
            work = Work(self.place, wish)
            result = self._done(work, str(request.get("who", "")), bool(request.get("follow")))
            if wish.whole:
                keep(self.place, wish)
            found = result.pop("shared", {})
            if request.get("lead"):
                result["shared"] = {**work.shared(), **found}
            if request.get("git_keys"):
                result["git_access"] = read(self.place.git_keys)
            # What was applied just now may still start or stop runs.
            settled = not result.get("work") and self._add_idle_runs(work, result)
            if settled and wish.whole and "asks" in request and not is_new:
                self._keep_glance(work, request["asks"], result)
        except (StoreError, WorkError) as error:
            result = {"status": "failed", "problem": str(error)}
        self.line.say("result", **result)
        return 0 if result["status"] == "ok" else 1

    def _add_idle_runs(self, work: Work, result: Dict[str, Any]) -> bool:
        """Add the declared runs that do not run; return false if one is between two states."""
        runs = self.place.runs
        # First, so that a change between the two looks is one for the next glance.
        files = [str(path) for path in runs.status_files()]
        work.record.seen.runs = {path: run_words(path) for path in files}
        idle = runs.idle(time.time())
        if idle is not None:
            result["idle_runs"] = idle
        return idle is not None

    def _keep_glance(self, work: Work, asks: str, result: Dict[str, Any]) -> None:
        """Keep the answer to a request that found nothing to do, for the next time."""
        own = self.place.own(work.wish.files)
        answer = line_of("result", **result)
        # Without it, the next request only takes longer.
        with contextlib.suppress(OSError):
            keep_glance(work.record.seen, self.place.glance, own, sys.argv[0], asks, answer)

    def again(self) -> int:
        """Apply all kept wishes again; return the exit code."""
        codes = [self.be({"wish": asdict(wish), "who": WHO}) for wish in kept(self.place)]
        return max(codes, default=0)

    def _done(self, work: Work, who: str, follow: bool) -> Dict[str, Any]:
        """Return the result of the work; with `follow`, get shared values from the controller."""
        deadline = time.monotonic() + self.patience
        while True:
            with attempt(self.place.lock) as free:
                if free:
                    before = self._missed(work)
                    if before:
                        return before
                    todo = work.todo()
                    if not todo.roles:
                        found = work.findings()
                        return {"status": "ok", "counts": {}, "reasons": [], "findings": found}
                    # Only these roles use what the first worker finds out.
                    follow = follow and bool(set(todo.roles) & set(SHARED))
                    self._begin(work, todo, follow, who)
                    self.line.say("begin", reasons=list(todo.reasons), roles=list(todo.roles))
            running = read(self.place.running) or {}
            if running.get("work") == work.name:
                if follow:
                    threading.Thread(target=self._pass_on_peers, args=(work,), daemon=True).start()
                return self._follow(work, follow)
            self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        """Wait some time for the process that applies roles, and send the controller its name."""
        running = read(self.place.running) or {}
        self.line.say("waiting", holder=running)
        if time.monotonic() > deadline:
            raise WorkError(
                f"{running.get('who') or 'another process'} has been applying roles here since "
                f"{time.ctime(running.get('since', 0))}, as process {running.get('pid')}. Wait "
                "for it, or end it on the host: nothing is lost"
            )
        self._wait_for_lock(min(SIGN_OF_LIFE, self.patience))

    def _missed(self, work: Work) -> Optional[Dict[str, Any]]:
        """Return the result of the same work if a lost connection kept it from being sent."""
        running = read(self.place.running) or {}
        result: Optional[Dict[str, Any]] = read(self.place.result(work.name))
        if running.get("work") != work.name or running.get("told") or result is None:
            return None
        self._tell(work)
        return {**result, "missed": True}

    def _tell(self, work: Work) -> None:
        running = read(self.place.running) or {}
        if not self.line.lost:
            write(self.place.running, json.dumps({**running, "work": work.name, "told": True}))

    def _pass_on_peers(self, work: Work) -> None:
        """Ask the controller for the shared values, for the process that waits for them."""
        if not self.place.peers(work.name).exists():
            # If the connection is lost, the next call asks.
            with contextlib.suppress(StoreError):
                write(self.place.peers(work.name), json.dumps(self.line.peers()))

    def _begin(self, work: Work, todo: Todo, follow: bool, who: str) -> None:
        """Start a separate process for the work, which inherits the lock."""
        place = self.place
        for path in (place.events(work.name), place.result(work.name), place.peers(work.name)):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        about = {"work": work.name, "who": who, "since": time.time(), "boot_id": boot_id()}
        write(self.place.running, json.dumps(about))
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        # The grandchild keeps no stream of the connection open: the controller has to see its end.
        os.setsid()
        if os.fork():
            os._exit(0)
        _let_go()
        code = 1
        try:
            write(self.place.running, json.dumps({**about, "pid": os.getpid()}))
            result = work.run(todo, self.engine, follow)
            code = 0 if result["status"] == "ok" else 1
        except UnheardError:
            pass
        except BaseException as error:  # every failure is reported, because the session waits
            known = isinstance(error, (WorkError, StoreError, OSError))
            why = str(error) if known else traceback.format_exc()
            result = {"work": work.name, "status": "failed", "problem": why}
            if isinstance(error, NoEngineError):
                result["no_engine"] = True
            with contextlib.suppress(OSError):
                write(self.place.result(work.name), json.dumps(result))
        finally:
            os._exit(code)

    def _follow(self, work: Work, passes_on: bool) -> Dict[str, Any]:
        """Send the events of the work until it has ended; return the result."""
        events, read_so_far, said = self.place.events(work.name), 0, time.monotonic()
        pauses = _pauses()
        while True:
            if passes_on:
                self._note_that_it_is_followed(work)
            over = _is_free(self.place.lock)
            text = _from(events, read_so_far)
            whole = text.rpartition(b"\n")[0]
            if whole:
                read_so_far += len(whole) + 1
                for line in whole.splitlines():
                    self.line.say("event", **json.loads(line))
                said, pauses = time.monotonic(), _pauses()
            elif over:
                result: Optional[Dict[str, Any]] = read(self.place.result(work.name))
                if result is None:
                    raise WorkError(
                        "the work was ended early, by a signal or because memory ran out. Look "
                        f"into {self.place.logs} on the host, and try again"
                    )
                self._tell(work)
                return result
            else:
                if time.monotonic() - said > SIGN_OF_LIFE:
                    self.line.say("alive")
                    said = time.monotonic()
                time.sleep(next(pauses))

    def _note_that_it_is_followed(self, work: Work) -> None:
        """Show the work every second that there is a controller to pass on what it waits for."""
        path = self.place.followed(work.name)
        if not self.line.lost and abs(time.time() - (stamp_of(path) or 0.0)) > 1.0:
            with contextlib.suppress(OSError):
                path.touch()

    def _wait_for_lock(self, limit: float) -> None:
        end, pauses = time.monotonic() + limit, _pauses()
        while time.monotonic() < end and not _is_free(self.place.lock):
            time.sleep(next(pauses))


def _pauses() -> Iterator[float]:
    pause = _SHORTEST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.2, _LONGEST_PAUSE)


def _is_free(path: Path) -> bool:
    with attempt(path) as free:
        return free


def _from(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read()
    except FileNotFoundError:
        return b""


def _let_go() -> None:
    """Close the streams of the connection."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
