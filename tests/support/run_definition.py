"""What the definition of a run always has, whatever it is of."""

from __future__ import annotations

from typing import Any

USUAL: dict[str, Any] = {
    "checkpoint_dir": "",
    "code": {"tree": "", "version": ""},
    "fail_fast_seconds": 3600,
    "grace_seconds": 30,
    "log": {"bytes": 52428800, "files": 5},
    "multislice": {},
    "retries": 3,
    "stop_signal": "SIGTERM",
    "timing": {"lost": 30},
}
