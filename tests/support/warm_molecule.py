"""Run molecule so that its playbooks are forks of a process that has Ansible imported.

Each step of a scenario is a start of `ansible-playbook`, and before each molecule starts one more
to see whether it is there. Where warm_ansible.py starts the programs, they are started here, too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import subprocess_tee
from warm_ansible import PROGRAMS, run_ansible

# No step takes as long.
LIMIT = 3600
_run_and_show = subprocess_tee.run


def run_and_show(
    args: Sequence[str], *, env: Mapping[str, str], cwd: str | None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command as subprocess_tee does; show what Ansible printed when it has ended."""
    if args[0] not in PROGRAMS:
        done: subprocess.CompletedProcess[str] = _run_and_show(args, env=env, cwd=cwd, **more)
        return done
    done = run_ansible(args, env, Path(cwd or "."), LIMIT)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done


def main() -> None:
    """Be molecule, but for these."""
    from molecule.provisioner.ansible_playbook import AnsiblePlaybook
    from molecule.shell import main as molecule

    subprocess_tee.run = run_and_show
    AnsiblePlaybook._validate_backend = lambda _self, _backend: None
    sys.argv[0] = "molecule"
    molecule()


if __name__ == "__main__":
    main()
