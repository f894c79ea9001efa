"""Machines that build a venv for a run: the real apply agent, and a role that makes a real venv.

The role of the fleet would change this computer. The apply agent starts the role as on a machine:
by ansible-playbook, from the kept wish.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import Wish
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import agent
from shipped import with_roles

VENV = "jax"
NEED = """
import sys
sys.path.insert(0, {agent!r})
from pathlib import Path
from tpu_fleet_apply import need
from tpu_fleet_apply.engine import engine_of
from tpu_fleet_apply.place import Place
from tpu_fleet_apply.runs import RunFiles
from tpu_fleet_apply.stamp import Watch
root = Path({root!r})
lib = root / "var/lib/tpu-fleet"
watch = Watch(trees=(), closed=(), files=(), homes=(), units=(), records=(),
              environments=(str(lib / "venvs/*.json"),))
place = Place(lib / "apply", root / "programs", root / "apply-logs", lib / "state.json",
              root / "units", watch, runs=RunFiles(root))
sys.exit(need.main(place, engine_of(place), sys.argv[1]))
"""
ROLE = """
- name: Build the environments
  ansible.builtin.fail:
    msg: Cannot build the environment. No index has it.
  when: (root ~ '/broken') is exists
- name: Build the environment
  ansible.builtin.shell: |
    set -eu
    echo built >> {{ root }}/builds
    flock {{ root }}/../lock /usr/bin/python3 -m venv --without-pip {{ path }}
    mkdir -p {{ lib }}/venvs
    echo '{"path": "{{ path }}"}' > {{ lib }}/venvs/{{ item }}.json
  loop: "{{ python_env_needed }}"
  vars:
    lib: "{{ root }}/var/lib/tpu-fleet"
    path: "{{ root }}/../venvs/{{ item }}"
"""


def declares(root: Path) -> dict[str, Any]:
    """Return the settings of a queue agent by which the venv is built on need."""
    return {
        "venvs": [VENV], "venvs_elsewhere": [VENV], "venvs_on_need": [VENV],
        "of_training": {"venvs": [{"name": VENV, "path": str(root.parent / "venvs" / VENV)}]},
    }  # fmt: skip


def can_build(root: Path) -> None:
    """Have a machine know what was applied to it, as after an apply."""
    state = root / "var/lib/tpu-fleet/apply"
    kept = [
        with_roles({"python_env": ROLE}),
        json.dumps(
            {
                "host": "here",
                "templates": {"root": str(root)},
                "plain": {},
                "uses": {"python_env": ["root"]},
            }
        ).encode(),
        json.dumps({"host": "here"}).encode(),
    ]
    names = [hashlib.sha256(data).hexdigest() for data in kept]
    for folder in (state, state / "files"):
        folder.mkdir(mode=0o700, parents=True)
    for name, data in zip(names, kept, strict=True):
        (state / "files" / name).write_bytes(data)
    program = {"program": str(Path(sys.executable).with_name("ansible-playbook"))}
    wish = Wish("here", ["first", "python_env"], *names, environment=program)
    (state / "wishes.json").write_text(json.dumps([asdict(wish)]))
    (root / "agent.pyz").write_bytes(agent())
    program = NEED.format(agent=str(root / "agent.pyz"), root=str(root))
    (root / "need.py").write_text(program)
