"""Start the run agent that lies beside this file, or one of its helpers."""

from __future__ import annotations

import os
import sys
from importlib import import_module

# With -I, Python does not look beside this file by itself.
# Nor is pathlib imported, which a short helper does not need.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120

# What the agent starts: a helper loads its own module, and needs little memory, as some stay.
_HELPERS = {
    "archive": "archive_round",
    "bucket": "bucket_look",
    "cache": "cache_round",
    "cache-serve": "cache_peer",
    "fence": "fence_object",
    "hand": "hand",
    "log": "logs",
    "program": "program",
    "start": "save_request",
    "why": "why",
}


def main() -> int:
    """Run one command."""
    command, *words = sys.argv[1:] or [""]
    if command in _HELPERS:
        helper: int = import_module(f"run_agent.act.{_HELPERS[command]}").main(words)
        return helper
    from run_agent.act import installed

    # Before the rest is read: what is replaced while it is read is another program.
    program = installed.stamp() if command == "agent" else ()
    from run_agent import cli

    return cli.main(sys.argv[1:], program)


if __name__ == "__main__":
    sys.exit(main())
