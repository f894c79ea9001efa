#!/usr/bin/env python3
"""Run molecule's scenarios with machines that apply the roles to themselves: docs/apply.md.

    scripts/run_tests.py molecule_by_hosts                     all scenarios
    .venv/bin/python scripts/molecule_by_hosts.py ARGUMENTS    what molecule is told

The scenarios are the same. In a copy of them the machines apply the roles of each converge.yml,
and after the step idempotence one more looks whether the machines said at once that nothing is to
do: a host that applied anything then fails, also when this changed nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".work" / "by-hosts"
SCENARIOS = Path("extensions") / "molecule"

# Instead of the roles of a play.
APPLY = """
- name: Let the machines be as declared
  tpu.fleet.apply:
    roles: []
  run_once: true
  register: applied

- name: Keep how it went
  ansible.builtin.copy:
    dest: "{{ lookup('env', 'MOLECULE_EPHEMERAL_DIRECTORY') }}/applied.json"
    content: "{{ applied.hosts | to_json }}"
    mode: "0600"
  run_once: true
  delegate_to: localhost
  become: false
  check_mode: false
  changed_when: false
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"

- name: See which are not
  tpu.fleet.apply_verdict:
    failures: "{{ applied.failures }}"
"""
# After the step idempotence.
STILL = """
- name: See that the machines had nothing to do
  hosts: {hosts}
  gather_facts: false
  tasks:
    - name: Look why they had
      ansible.builtin.assert:
        # A branch is looked at each time.
        that: applied_why | reject('search', 'what it follows may have moved') == []
        fail_msg: "{{ applied_why }}"
      vars:
        applied_file: "{{ lookup('env', 'MOLECULE_EPHEMERAL_DIRECTORY') }}/applied.json"
        applied: "{{ lookup('file', applied_file) | from_json }}"
        applied_why: "{{ applied[inventory_hostname].reasons }}"
"""


def by_hosts(play: dict[str, Any]) -> dict[str, Any]:
    """Return a play whose roles the machines apply themselves."""
    include = "ansible.builtin.include_role"
    roles = play.pop("roles", [])
    tasks = play.get("tasks", [])
    roles += [{"role": t[include]["name"], "vars": t["vars"]} for t in tasks if include in t]
    if not roles:
        return play
    apply = yaml.safe_load(APPLY)
    for role in roles:
        apply[0]["tpu.fleet.apply"]["roles"].append(role["role"])
        play["vars"] = {**play.get("vars", {}), **role.get("vars", {})}
    play["tasks"] = [*apply, *(task for task in tasks if include not in task)]
    return play


def scenario(folder: Path) -> None:
    """Rewrite a scenario."""
    converge, molecule = folder / "converge.yml", folder / "molecule.yml"
    plays = yaml.safe_load(converge.read_text(encoding="utf-8"))
    plays = [by_hosts(play) for play in plays]
    converge.write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    shared = yaml.safe_load((folder.parent / "config.yml").read_text(encoding="utf-8"))
    own = yaml.safe_load(molecule.read_text(encoding="utf-8"))
    steps = {**shared["scenario"], **own.get("scenario", {})}["test_sequence"]
    at = steps.index("idempotence") + 1
    own["scenario"] = {"test_sequence": [*steps[:at], "verify still.yml", *steps[at:]]}
    molecule.write_text(yaml.safe_dump(own), encoding="utf-8")
    still = STILL.replace("{hosts}", plays[-1]["hosts"])
    (folder / "still.yml").write_text(still, encoding="utf-8")


def copy() -> None:
    """Make a new copy: the scenarios, and links to all else. Molecule's state in it stays."""
    COPY.mkdir(parents=True, exist_ok=True)
    for path in ROOT.iterdir():
        link = COPY / path.name
        if path.name not in (".work", ".ansible", SCENARIOS.parts[0]) and not link.is_symlink():
            link.symlink_to(path)
    shutil.rmtree(COPY / SCENARIOS, ignore_errors=True)
    shutil.copytree(ROOT / SCENARIOS, COPY / SCENARIOS)
    for path in sorted((COPY / SCENARIOS).glob("*/converge.yml")):
        scenario(path.parent)


def main(arguments: list[str]) -> int:
    """Run them; return molecule's exit code."""
    copy()
    # The modules of this checkout, wherever the environment was installed from.
    found = os.pathsep.join([str(ROOT / "collections"), str(ROOT / "src")])
    port = os.environ.get("TPU_FLEET_MOLECULE_PORT", "8477")
    return subprocess.run(
        [COPY / "scripts" / "molecule", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": found,
            "TPU_FLEET_MOLECULE_PORT": port,
            "TPU_FLEET_MOLECULE_PROGRAM": f"python {ROOT / 'tests/support/warm_molecule.py'}",
        },
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
