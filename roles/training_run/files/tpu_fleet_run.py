"""Start the run agent that lies beside this file."""

from __future__ import annotations

import sys

from run_agent.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
