#!/usr/bin/env python3
"""Give the variables in fleet files of tpu.fleet 0.1 the names of 0.2.

    .venv/bin/python scripts/rename_fleet_names.py inventory/group_vars/all/*.yml

Each old name becomes the new one wherever it stands in a file, also in comments and templates;
nothing else changes. Prints the files that changed. Not for playbooks that apply a role alone: the
roles keep their own variables.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import FLEET_NAMES, renamed


def main(files: list[str]) -> None:
    """Rename in files, in place."""
    for file in map(Path, files):
        before = file.read_text(encoding="utf-8")
        after = renamed(before, FLEET_NAMES)
        if after != before:
            file.write_text(after, encoding="utf-8")
            print(file)


if __name__ == "__main__":
    main(sys.argv[1:])
