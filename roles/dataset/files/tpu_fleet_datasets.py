"""Start the agent that stages data sets, which lies beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

# With -I, Python does not look beside this file by itself.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from dataset_agent import cli

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
