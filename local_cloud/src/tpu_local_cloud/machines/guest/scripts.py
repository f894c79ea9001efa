"""Runs the node's `startup-script` or `shutdown-script`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from .metadata import Metadata

PATIENCE = {"startup": 120.0, "shutdown": 2.0}


def main(kind: str) -> None:
    """Run the script of this kind; a failure is logged and has no other effect."""
    script = Metadata().attribute(f"{kind}-script", PATIENCE[kind])
    if not script:
        print(f"No {kind} scripts to run.", flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="metadata-scripts") as folder:
        path = Path(folder) / f"{kind}-script"
        path.write_text(script if script.startswith("#!") else f"#!/bin/bash\n{script}")
        path.chmod(0o700)
        process = subprocess.Popen(
            [str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for line in process.stdout or []:
            print(f"{kind}-script: {line}", end="", flush=True)
        print(f"{kind}-script exit status {process.wait()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
