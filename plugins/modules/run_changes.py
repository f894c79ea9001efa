#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_changes
short_description: Report which runs start, restart or stop, and why
description:
  - Compares the definitions of runs on a worker with the declared ones. Changes nothing.
options:
  files:
    description: >-
      The files of the declared runs, as O(tpu.fleet.host_files#module:files). Those that are
      no definitions are ignored.
    type: list
    elements: dict
    required: true
  enabled:
    description: The names of the declared runs that are to run.
    type: list
    elements: str
    default: []
  changed_paths:
    description: 'The paths of files beside the definitions that differ, such as the environment.'
    type: list
    elements: str
    default: []
  gone:
    description: The names of the runs that are no longer declared.
    type: list
    elements: str
    default: []
  stopped:
    description: 'The persons who have stopped runs of the slice, by the name of the run.'
    type: dict
    default: {}
  folder: {description: The folder of the definitions., type: path, default: /etc/tpu-fleet/runs}
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes.info
"""

EXAMPLES = r"""
- name: Find out which runs restart
  tpu.fleet.run_changes:
    files: "{{ ('training_run' | tpu.fleet.role_plan(records={})).files }}"
    enabled: [digits]
"""

RETURN = r"""#"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.runs import RunFiles
from ..module_utils._roles.training_run.changes import Change, change_of, gone


def changes(params: dict[str, Any], files: RunFiles) -> list[Change]:
    """Return what becomes of the runs of this worker."""
    found = []
    paths = {Path(file["path"]): file for file in params["files"]}
    declared = {
        path.stem: json.loads(file["content"])
        for path, file in paths.items()
        if path.parent == Path(params["folder"]) and path.suffix == ".json"
    }
    kept = kept_stopped(params["stopped"], files)
    for run, definition in declared.items():
        change = change_of(
            run,
            run in params["enabled"],
            files.definition(run),
            definition,
            f"{params['folder']}/{run}.env.json" in params["changed_paths"],
            files.status(run),
            files.stopped_by(run) or kept.get(run, ""),
        )
        found += [change] if change else []
    new = {run: one for run, one in declared.items() if not files.definition(run)}
    return found + [
        gone(run, files.status(run), files.definition(run), new) for run in params["gone"]
    ]


def kept_stopped(stopped: Mapping[str, str], files: RunFiles) -> dict[str, str]:
    """Return the stopped runs that are new on this machine, each with the person who stopped it."""
    return {run: by for run, by in stopped.items() if not files.definition(run)}


def mark_file(run: str, by: str, files: RunFiles) -> dict[str, str]:
    """Return the mark that keeps a run stopped, as tpu-fleet stop writes it."""
    return {"path": str(files.mark(run)), "content": json.dumps({"by": by}) + "\n"}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True},
            "enabled": {"type": "list", "elements": "str", "default": []},
            "changed_paths": {"type": "list", "elements": "str", "default": []},
            "gone": {"type": "list", "elements": "str", "default": []},
            "stopped": {"type": "dict", "default": {}},
            "folder": {"type": "path", "default": "/etc/tpu-fleet/runs"},
        },
        supports_check_mode=True,
    )
    files = RunFiles()
    files.definitions = Path(module.params["folder"])
    found = changes(module.params, files)
    kept = kept_stopped(module.params["stopped"], files)
    module.exit_json(
        changed=False,
        held=[run for run in module.params["enabled"] if files.stopped_by(run) or run in kept],
        marks=[mark_file(run, by, files) for run, by in kept.items()],
        run_changes=[asdict(change) for change in found],
        lines=[change.line() for change in found],
    )


if __name__ == "__main__":
    main()
