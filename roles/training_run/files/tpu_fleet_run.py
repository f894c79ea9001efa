"""Start the run agent that lies beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

# With -I, Python does not look beside this file by itself.
sys.path.insert(0, str(Path(__file__).resolve().parent))


def main() -> int:
    """Run one command; the hand, which stays, needs nothing of the others."""
    if sys.argv[1:] == ["hand"]:
        from run_agent import hand

        return hand.work()
    from run_agent import cli

    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
