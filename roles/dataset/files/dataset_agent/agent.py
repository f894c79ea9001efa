"""Stage all data sets of one worker, one after the other, and pass them on."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .act import web
from .act.download import CannotStore, Open
from .act.origins import origin_of
from .act.shelf import FAILED, READY, Shelf
from .decide.config import Config, Dataset
from .decide.listing import Item, Unfit, chosen, fitting, total
from .decide.source import BadSource
from .talk.file_server import FileServer
from .talk.passing import Neighbour, Offer

# Files that come at a time: a server gives one of them more slowly than a disk takes it.
_AT_ONCE = 8
_FROM_NEIGHBOUR = 3  # it answers four questions of one worker at a time
_POLL = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
# For the rest of the machine, a private data set is not there.
_UMASK, _PRIVATE_UMASK = 0o022, 0o027

CannotStage = (web.CannotGet, CannotStore, Unfit, BadSource)


class Later(Exception):
    """The first worker has no more of it now; the text says why."""


class Agent:
    """Runs until all is in its place; the first worker of a slice answers the others for good."""

    def __init__(
        self, config: Config, status: Path, pause: float = _FIRST_PAUSE, poll: float = _POLL
    ) -> None:
        self.config = config
        self.shelves = [Shelf(dataset, status) for dataset in config.datasets]
        self._pause, self._poll = pause, poll
        self._server: FileServer | None = None
        # What cannot begin at all, such as without a secret: why, by the name of the data set.
        self.blocked: dict[str, str] = {}

    def run(self) -> int:
        """Return the exit code: 0, or 75 where another start may help."""
        self._load()
        if self._server is not None:
            self._server.begin()
        self._stage_all()
        while self._server is not None and not self.blocked:
            time.sleep(_LONGEST_PAUSE)
        return os.EX_TEMPFAIL if self.blocked else os.EX_OK

    def listen(self) -> None:
        """Take the port at which the others ask, which only root can; raise OSError."""
        if self.config.is_first and self.config.passes_on:
            self._server = Offer(self.config.key, self.shelves).server(self.config)

    def close(self) -> None:
        """Answer no longer."""
        if self._server is not None:
            self._server.end()

    def _load(self) -> None:
        for shelf in self.shelves:
            shelf.load()
            if shelf.is_ready:
                shelf.tell(READY, f"{len(shelf.whole)} files")
            elif shelf.dataset.name in self.blocked:
                shelf.tell(FAILED, self.blocked[shelf.dataset.name])

    def _stage_all(self) -> None:
        """Try all that is not there in turn, until each is."""
        pause = self._pause
        while left := [one for one in self.shelves if self._is_due(one)]:
            done = [self._stage(shelf) for shelf in left]
            if not all(done):
                pause = self._pause if any(done) else min(_LONGEST_PAUSE, 2 * pause)
                time.sleep(pause if self._downloads else self._pause)

    @property
    def _downloads(self) -> bool:
        return self.config.is_first or not self.config.passes_on

    def _is_due(self, shelf: Shelf) -> bool:
        return not shelf.is_ready and shelf.dataset.name not in self.blocked

    def _stage(self, shelf: Shelf) -> bool:
        """Stage one data set; return whether it is there."""
        os.umask(_PRIVATE_UMASK if shelf.dataset.user else _UMASK)
        try:
            if self._downloads:
                self._from_origin(shelf)
            else:
                self._from_neighbour(shelf)
        except Later as error:
            shelf.tell(shelf.state, f"worker 0: {error}")
            return False
        except CannotStage as error:
            shelf.tell(FAILED, str(error))
            return False
        return True

    def _from_origin(self, shelf: Shelf) -> None:
        origin = origin_of(self.config, shelf.dataset)
        shelf.progress(0)
        items = chosen(origin.items(), shelf.dataset.include)
        items = fitting(items, shelf.dataset.size)
        shelf.begin(len(items), total(items))
        self._bring(shelf, items, origin.open, _AT_ONCE)
        shelf.finish({item.path for item in items})

    def _from_neighbour(self, shelf: Shelf) -> None:
        neighbour, wanted, start = Neighbour(self.config, shelf.dataset), set[str](), 0
        while True:
            told = neighbour.ask(start)
            if start == 0 and told.files_of:
                _refuse_larger(shelf.dataset, told.bytes_of)
                shelf.begin(told.files_of, told.bytes_of)
            items = neighbour.items(told, start)
            self._bring(shelf, items, neighbour.open, _FROM_NEIGHBOUR)
            wanted |= {item.path for item in items}
            start += len(items)
            if told.done:
                if not wanted:
                    raise Later("it lost the list of its files: remove the data set, and apply")
                shelf.finish(wanted)
                return
            if told.state == FAILED:
                raise Later(told.says)
            if not items:
                shelf.progress()
                time.sleep(self._poll)

    def _bring(self, shelf: Shelf, items: Sequence[Item], give: Open, at_once: int) -> None:
        """Bring the files that are lacking, some at a time; raise the first error."""
        lacking = [item for item in items if shelf.lacks(item)]
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            coming = [pool.submit(shelf.bring, item, give) for item in lacking]
            try:
                _wait(coming, shelf.progress)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _wait(coming: Iterable[concurrent.futures.Future[None]], say: Callable[[], None]) -> None:
    """Wait for all of them; raise the first error."""
    left = set(coming)
    while left:
        done, left = concurrent.futures.wait(
            left, timeout=1.0, return_when=concurrent.futures.FIRST_EXCEPTION
        )
        for one in done:
            one.result()
        say()


def _refuse_larger(dataset: Dataset, count: int) -> None:
    if count > dataset.size:
        raise Unfit(f"worker 0 has {count} bytes of it, more than size. Apply to all workers")
