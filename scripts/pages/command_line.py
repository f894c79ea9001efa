"""src/tpu_fleet/command_line.json: what `--help` and TAB read instead of importing the commands."""

from __future__ import annotations

import json

from tpu_fleet.cli import COMMANDS, imported
from tpu_fleet.complete import described


def page() -> str:
    """Return the table of all commands."""
    told = {name: described(imported(name)) for name in sorted(COMMANDS)}
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"
