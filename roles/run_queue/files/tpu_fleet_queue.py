"""Start the queue agent that lies beside this file, or one of its helpers."""

from __future__ import annotations

import sys
from pathlib import Path

# With -I, Python does not look beside this file by itself. The run agent is there as well.
sys.path.insert(0, str(Path(__file__).resolve().parent))


def main() -> int:
    """Run one command."""
    command, *words = sys.argv[1:] or [""]
    if command == "unpack":
        from queue_agent.act import unpacking

        return unpacking.main(words)
    from queue_agent import cli

    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
