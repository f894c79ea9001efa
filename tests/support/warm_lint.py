"""Run ansible-lint so that its syntax checks are forks of a process that has Ansible imported.

ansible-lint starts `ansible-playbook --syntax-check` for each playbook and role, and once more for
each playbook that another one imports: half of what it costs is the import of Ansible. Where
warm_ansible.py starts the programs, they are started here, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from warm_ansible import PROGRAMS, run_ansible

# No check takes as long.
LIMIT = 300
_run = subprocess.run


def run(args: Any, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command as subprocess does; a playbook in a process that has Ansible imported."""
    if args[0] not in PROGRAMS:
        return _run(args, **options)
    folder = Path(options.get("cwd") or Path.cwd())
    return run_ansible(args, options.get("env") or os.environ, folder, LIMIT)


def main() -> int:
    """Be ansible-lint, but for these."""
    from ansiblelint.__main__ import main as ansible_lint

    vars(subprocess)["run"] = run
    return ansible_lint(["ansible-lint", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
