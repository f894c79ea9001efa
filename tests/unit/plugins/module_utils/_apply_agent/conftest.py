"""The run agent, whose files the apply agent reads."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "roles/training_run/files"))
