"""What has to be in order on this worker before an attempt starts here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ..decide import fence
from ..decide.config import Config
from ..decide.gang_state import GATHERING, Gang
from . import chip_holders, store, terminal
from .fence_look import BucketLook, FolderLook
from .folder_facts import BUCKET
from .hand import Hand


def size(count: float) -> str:
    """Write a number of bytes as people do."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def low(folder: Path, free: int | None, wanted: int) -> str:
    """Say that a disk has less room than a start wants; empty when it has enough."""
    if free is None or free >= wanted:
        return ""
    return f"{folder} has {size(free)} free, a start needs {size(wanted)} (min_free)"


def needs_tpu(config: Config) -> bool:
    """Say whether the run uses the chips of its hosts."""
    if config.needs_tpu == "auto":
        return bool(chip_holders.devices(config.paths.root))
    return config.needs_tpu == "true"


def builds(config: Config, workdir: str) -> dict[str, str]:
    """Return which code and which environment a start would take, by names equal on all workers."""
    found = {}
    if config.code:
        found["code"] = Path(workdir).name
    if config.venv:
        for path in (config.paths.records / "venvs").glob("*.json"):
            record = store.read(path) or {}
            if record.get("path") == config.venv:
                found["environment"] = str(record.get("freeze", ""))
    return found


class Preparation:
    """Looks at the disks and at the fence, and remembers for a moment what it saw."""

    def __init__(self, config: Config, hand: Hand) -> None:
        self._config = config
        self._hand = hand
        # On what the checkpoints are; empty until it was looked at, or where there are none.
        self.place = BUCKET if config.checkpoint_dir.startswith("gs://") else ""
        path = fence.path_of(config.checkpoint_dir, config.fence)
        self._object = terminal.fence_object(config)
        self._folder = path.parent if path else None
        self._shown = f"the checkpoint folder {config.checkpoint_dir}"
        self._look: BucketLook | FolderLook | None = None
        if self._object:
            self._look = BucketLook(config, self._shown)
        elif path:
            self._look = FolderLook(hand, self._shown)
        self._asked = {"path": str(path)} if path else {
            "place": self._object, "folders": config.attempt_folders,
        }  # fmt: skip
        self._found: dict[str, Any] | None = None
        self._looked = 0.0
        # An heir looks several times while it waits: another may have come meanwhile.
        timing = config.timing
        self._again = timing.fence_in_bucket if self._object else 2 * timing.fence
        self._patience = fence.Patience(terminal.fence_seconds(config))
        self._is_sure = False
        self.floor = 0
        self.run_id = ""
        self.elsewhere = ""
        self.named = ""
        self.low = ""

    def close(self) -> None:
        """End a look that is being done."""
        if self._look is not None:
            self._look.close()

    def forget(self) -> None:
        """Look again before the next start."""
        self._found, self._is_sure = None, False
        if self._look is not None:
            self._look.forget()
        self.elsewhere = self.low = ""

    @property
    def releases(self) -> bool:
        """Return whether the fence is an object, which says that an attempt has ended."""
        return bool(self._object)

    def release(self, gang: Gang, seconds: float) -> None:
        """Have the object of the fence say that the gang's attempt has ended, so none waits for it.

        Waits so many seconds for a look that is being done, and for the answer.
        """
        if self._look is None or not self.releases:
            return
        until = time.monotonic() + seconds
        self._look.forget()
        self._look.answer(seconds)
        self._look.begin(
            {**self._asked, "claim": None, "ended": {"owner": gang.owner, "attempt": gang.attempt}}
        )
        self._look.answer(max(0.0, until - time.monotonic()))

    def builds(self) -> dict[str, str]:
        """Return what a start would take."""
        try:
            return builds(self._config, terminal.workdir(self._config, self._hand))
        except terminal.CannotStart:
            return {}

    def obstacle(self, gang: Gang | None) -> str:
        """Say what is in the way; the gang is given where this worker leads it."""
        wanted, folder = self._config.min_free_bytes, self._config.paths.log.parent
        self.low = low(folder, self._hand.free_bytes(folder), wanted)
        if self.low or self._look is None:
            return self.low
        if gang is not None and gang.phase != GATHERING:
            return ""  # meanwhile it has begun: to claim the next attempt would shut this one out
        now = time.monotonic()
        if self._found is None or now - self._looked > self._again:
            self.elsewhere = ""  # of a look before, which counts no more after `retry`
            self._look.begin({**self._asked, "claim": self._claim(gang)})
            answer = self._look.answer(min(1.0, self._config.timing.tick))
            if answer is None:
                return f"{self._shown} does not answer"
            self._found, self._looked = answer, now
            self.place = answer.get("place") or self.place
        if self._found.get("error"):
            text = str(self._found["error"])
            # A bucket that refuses is asked at its pace: each request has its price.
            self._found = self._found if self._object else None
            return text
        if self._folder is not None:
            self.low = low(self._folder, self._found.get("free"), wanted)
        return self.low or (self._judge(gang) if gang is not None else "")

    def _claim(self, gang: Gang | None) -> dict[str, Any] | None:
        """Return what this worker wants of the fence; None where it only looks."""
        if gang is None:
            return None
        mark = terminal.mark_of(self._config, gang.run_id, gang.attempt + 1, gang.owner)
        is_new = not self._claimed(gang)
        return {"mark": mark._asdict(), "is_new": is_new, "is_sure": self._is_sure}

    def _claimed(self, gang: Gang) -> bool:
        # Of several heirs the last one goes on: who was there already does not come again.
        return gang.claimed or self.named == gang.owner

    def _judge(self, gang: Gang) -> str:
        mark = fence.Mark.from_json((self._found or {}).get("mark") or {})
        self.elsewhere = ""
        if mark is None:
            return self._look_again() if self._object else ""
        self.floor, self.run_id = fence.floor(mark), mark.run_id
        if mark.owner == gang.owner:
            self.named = gang.owner
        else:
            self._is_sure = False  # whatever was waited for, another has come since
        if fence.judge(mark, gang.owner, self._claimed(gang)) == fence.ELSEWHERE:
            self.elsewhere = (
                f"{fence.shuts_out(mark, gang.owner, 0)}; to go on here all the same, end "
                f"it there, then run `tpu-fleet retry {self._config.run}`"
            )
            return self.elsewhere
        left = self._patience.left(mark, time.monotonic())
        if left > 0 and not (self._found or {}).get("alone"):
            before = fence.floor(mark)
            return f"attempt {before} may still run elsewhere: it is given time to end"
        return self._judge_object(mark, gang) if self._object else ""

    def _judge_object(self, mark: fence.Mark, gang: Gang) -> str:
        """Say what a start waits for until the object names it."""
        if mark.owner != gang.owner or mark.attempt <= gang.attempt:
            return self._look_again()  # of two at the same time, the other was first
        if mark.reserved:
            self._is_sure = True
            return self._look_again()
        self.floor = mark.attempt - 1  # it has this name already, and did not begin
        return ""

    def _look_again(self) -> str:
        self._found = None
        return f"the fence of {self._config.checkpoint_dir} does not name the next attempt yet"
