from __future__ import annotations

import sys
from pathlib import Path

# What writes the logs that we read lies in a role, where no import path leads.
sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "roles/training_run/files"))
