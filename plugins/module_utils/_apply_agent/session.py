# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of a controller: take what is asked for, see it done, say how it ended.

The work is done by a process of its own, which goes on when the connection is lost. The next call
finds its result, or follows it while it is at work.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from .again import WHO, keep, kept
from .place import Place, boot_id, read, write
from .store import Store, StoreError
from .talk import Line
from .wish import SHARED, Todo, Wish
from .work import Engine, NoEngineError, Work, WorkError

# A controller that hears nothing for long does not know whether the line is dead.
SIGN_OF_LIFE = 10.0
_PAUSE = 0.1


@dataclass(frozen=True)
class Session:
    """A host's side of a call."""

    place: Place
    line: Line
    engine: Engine
    # Seconds to wait for somebody else's work.
    patience: float = 3600.0

    def be(self, request: Dict[str, Any]) -> int:
        """Answer one request; return the exit code."""
        try:
            wish = Wish.read(request["wish"])
            store = Store(self.place.store)
            is_new = bool(store.missing(wish.common))
            self.line.fetch(store, wish.files)
            if request.get("serve"):
                # Who had it already is no sooner asked than the controller. Nobody else has to read
                # how to serve and to fetch, which takes longer than all that they are asked.
                from . import share

                paths = [store.path(name) for name in wish.common]
                port = share.offer(paths, request["serve"], request["peers"]) if is_new else 0
                self.line.say("serves", port=port)
            work = Work(self.place, wish)
            result = self._done(work, str(request.get("who", "")), bool(request.get("follow")))
            if wish.whole:
                keep(self.place, wish)
            if request.get("lead"):
                result["shared"] = work.shared()
            if request.get("git_keys"):
                result["git_access"] = read(self.place.git_keys)
        except (StoreError, WorkError) as error:
            result = {"status": "failed", "problem": str(error)}
        self.line.say("result", **result)
        return 0 if result["status"] == "ok" else 1

    def again(self) -> int:
        """Be once more all that was asked for; return the exit code."""
        codes = [self.be({"wish": asdict(wish), "who": WHO}) for wish in kept(self.place)]
        return max(codes, default=0)

    def _done(self, work: Work, who: str, follow: bool) -> Dict[str, Any]:
        """See the work done; one that follows asks what the first of its slice found out."""
        deadline = time.monotonic() + self.patience
        while True:
            with _locked(self.place.lock) as free:
                if free:
                    before = self._missed(work)
                    if before:
                        return before
                    todo = work.todo()
                    if not todo.roles:
                        found = work.findings()
                        return {"status": "ok", "counts": {}, "reasons": [], "findings": found}
                    # What they find out is of no use to other roles.
                    follow = follow and bool(set(todo.roles) & set(SHARED))
                    self._begin(work, todo, follow, who)
                    self.line.say("begin", reasons=list(todo.reasons), roles=list(todo.roles))
            running = read(self.place.running) or {}
            if running.get("work") == work.name:
                if follow:
                    threading.Thread(target=self._pass_on_peers, args=(work,), daemon=True).start()
                return self._follow(work)
            self._wait(deadline)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until nobody else applies anything, and let nobody begin."""
        deadline = time.monotonic() + self.patience
        while True:
            with _locked(self.place.lock) as free:
                if free:
                    yield
                    return
            self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        """Wait a while for whoever applies something, and say for whom."""
        running = read(self.place.running) or {}
        self.line.say("waiting", holder=running)
        if time.monotonic() > deadline:
            raise WorkError(
                f"{running.get('who') or 'somebody'} has been applying something here since "
                f"{time.ctime(running.get('since', 0))}, as process {running.get('pid')}. Wait "
                "for it, or end it on the host: nothing gets lost"
            )
        self._wait_for_lock(min(SIGN_OF_LIFE, self.patience))

    def _missed(self, work: Work) -> Optional[Dict[str, Any]]:
        """Return how the same work ended when the connection was lost, if nobody was told."""
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
        """Ask what the first of the slice found out, for the process that waits for it."""
        if not self.place.peers(work.name).exists():
            # When the connection is lost, the next call asks.
            with contextlib.suppress(StoreError):
                write(self.place.peers(work.name), json.dumps(self.line.peers()))

    def _begin(self, work: Work, todo: Todo, follow: bool, who: str) -> None:
        """Let a process of its own do it; the lock goes over to it."""
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
        # Nothing of the connection is left to the grandchild, so that its end can be seen.
        os.setsid()
        if os.fork():
            os._exit(0)
        _let_go()
        code = 1
        try:
            write(self.place.running, json.dumps({**about, "pid": os.getpid()}))
            result = work.run(todo, self.engine, follow)
            code = 0 if result["status"] == "ok" else 1
        except BaseException as error:  # whatever it is, somebody waits for it
            known = isinstance(error, (WorkError, StoreError, OSError))
            why = str(error) if known else traceback.format_exc()
            result = {"work": work.name, "status": "failed", "problem": why}
            if isinstance(error, NoEngineError):
                result["no_engine"] = True
            with contextlib.suppress(OSError):
                write(self.place.result(work.name), json.dumps(result))
        finally:
            os._exit(code)

    def _follow(self, work: Work) -> Dict[str, Any]:
        """Pass on what is done until it has ended."""
        events, read_so_far, said = self.place.events(work.name), 0, time.monotonic()
        while True:
            over = _is_free(self.place.lock)
            text = _from(events, read_so_far)
            whole = text.rpartition(b"\n")[0]
            if whole:
                read_so_far += len(whole) + 1
                for line in whole.splitlines():
                    self.line.say("event", **json.loads(line))
                said = time.monotonic()
            elif over:
                result: Optional[Dict[str, Any]] = read(self.place.result(work.name))
                if result is None:
                    raise WorkError(
                        "the work was ended before its time, by a signal or a lack of memory. Look "
                        f"into {self.place.logs} on the host, and try again"
                    )
                self._tell(work)
                return result
            else:
                if time.monotonic() - said > SIGN_OF_LIFE:
                    self.line.say("alive")
                    said = time.monotonic()
                time.sleep(_PAUSE)

    def _wait_for_lock(self, limit: float) -> None:
        end = time.monotonic() + limit
        while time.monotonic() < end and not _is_free(self.place.lock):
            time.sleep(_PAUSE)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock, if nobody else does; children go on holding it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _is_free(path: Path) -> bool:
    with _locked(path) as free:
        return free


def _from(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read()
    except FileNotFoundError:
        return b""


def _let_go() -> None:
    """Keep nothing of the connection open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
