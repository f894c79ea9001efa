"""When each stage that CI leaves out passed last, and whether the files it tests changed since.

The record is tests/stages.json, which is committed: `{"siege": {"commit": "1234abcd", "day":
"2026-11-28", "contents": "0123456789abcdef"}}`. The contents are a hash of the tested files: an
entry stays true when commits are rebased.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

Record = dict[str, dict[str, str]]


class StageRecord:
    """The record of one checkout: which files each stage tests, and when it passed with them."""

    def __init__(self, root: Path, tested: Mapping[str, tuple[str, ...]]) -> None:
        self.root = root
        self.tested = tested
        self.file = root / "tests" / "stages.json"

    def committed(self, stage: str) -> str:
        """Return the hash of the files that a stage tests; nothing if some are not committed."""
        if stage not in self.tested or self._git(
            "status", "--porcelain", "--", *self._paths(stage)
        ):
            return ""
        return self._contents(stage)

    def passed(self, stage: str, began_with: str) -> None:
        """Note that a stage passed, if the committed files are still those that it began with."""
        if not began_with or self.committed(stage) != began_with:
            return
        record = self._read()
        record[stage] = {
            "commit": self._git("rev-parse", "--short=8", "HEAD"),
            "day": time.strftime("%Y-%m-%d", time.gmtime()),
            "contents": began_with,
        }
        self.file.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")

    def stale(self) -> list[str]:
        """Return a line for each stage that has not passed with the present files."""
        record = self._read()
        return [
            f"{stage}: {self._since(stage, record[stage]) if stage in record else 'no record'}"
            for stage in self.tested
            if record.get(stage, {}).get("contents") != self._contents(stage)
        ]

    def _since(self, stage: str, passed: Mapping[str, str]) -> str:
        found = f"passed last on {passed['day']} at {passed['commit']}"
        commits = self._git(
            "rev-list", "--count", f"{passed['commit']}..HEAD", "--", *self._paths(stage), ok=False
        )
        return f"{found}; commits since to what it tests: {commits}" if commits else found

    def _paths(self, stage: str) -> tuple[str, ...]:
        return self.tested[stage]

    def _contents(self, stage: str) -> str:
        listed = self._git("ls-tree", "-r", "HEAD", "--", *self._paths(stage))
        return hashlib.sha256(listed.encode()).hexdigest()[:16]

    def _read(self) -> Record:
        found: Record = json.loads(self.file.read_text()) if self.file.exists() else {}
        return found

    def _git(self, *words: str, ok: bool = True) -> str:
        done = subprocess.run(
            ("git", *words), cwd=self.root, capture_output=True, text=True, check=ok
        )
        return done.stdout.strip()
