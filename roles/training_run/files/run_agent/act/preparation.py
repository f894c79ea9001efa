"""What has to be in order on this worker before an attempt starts here."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from ..decide import fence
from ..decide.config import Config
from ..decide.gang_state import Gang
from . import chip_holders, store, terminal
from .folder_facts import BUCKET
from .folder_look import FolderLook
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
    """Looks at the disks and at the checkpoint folder, and remembers for a moment what it saw."""

    def __init__(self, config: Config, hand: Hand) -> None:
        self._config = config
        self._hand = hand
        path = fence.path_of(config.checkpoint_dir, config.fence)
        self._look = FolderLook(config, path) if path else None
        self._folder = path.parent if path else None
        self._found: dict[str, Any] | None = None
        self._looked = 0.0
        self._patience = fence.Patience(config.timing.fence)
        self._named = ""
        # On what the checkpoints are; empty until it was looked at, or where there are none.
        self.place = BUCKET if config.checkpoint_dir.startswith("gs://") else ""
        self.floor = 0
        self.run_id = ""
        self.elsewhere = ""
        self.low = ""

    def forget(self) -> None:
        """Look again before the next start."""
        self._found = None
        self.elsewhere = self.low = ""

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
        if self.low or self._look is None or self._folder is None:
            return self.low
        now = time.monotonic()
        # An heir looks several times while it waits: another may have come meanwhile.
        if self._found is None or now - self._looked > 2 * self._config.timing.fence:
            mine = gang.owner if gang is not None and not self._claimed(gang) else ""
            self._look.begin(mine, socket.gethostname())
            answer = self._look.answer(min(1.0, self._config.timing.tick))
            if answer is None:
                return f"the checkpoint folder {self._folder} does not answer"
            self._found, self._looked = answer, now
            self.place = answer.get("place") or self.place
        if self._found.get("error"):
            text, self._found = str(self._found["error"]), None
            return text
        self.low = low(self._folder, self._found.get("free"), wanted)
        return self.low or (self._judge(gang) if gang is not None else "")

    def _claimed(self, gang: Gang) -> bool:
        # Of several heirs the last one goes on: who was there already does not come again.
        return gang.claimed or self._named == gang.owner

    def _judge(self, gang: Gang) -> str:
        mark = fence.Mark.from_json((self._found or {}).get("mark") or {})
        self.elsewhere = ""
        if mark is None:
            return ""
        self.floor, self.run_id = fence.floor(mark), mark.run_id
        if mark.owner == gang.owner:
            self._named = gang.owner
        if fence.judge(mark, gang.owner, self._claimed(gang)) == fence.ELSEWHERE:
            self.elsewhere = (
                f"fenced: {fence.shuts_out(mark, gang.owner, 0)}; to go on here all the same, end "
                f"it there, then run `tpu-fleet retry {self._config.run}`"
            )
            return self.elsewhere
        left = self._patience.left(mark, time.monotonic())
        if left <= 0 or (self._found or {}).get("alone"):
            return ""
        return f"attempt {self.floor} may still run elsewhere: it is given time to end"
