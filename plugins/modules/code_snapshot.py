#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: code_snapshot
short_description: Pack a folder of code so that all workers get the same
version_added: 0.1.0
description:
  - Packs a folder into C(<snapshot_dir>/<name>.tar.gz) and lists it in C(<name>.json) there.
  - The same files give the same archive, byte for byte, on any computer and at any time.
  - In a git work tree, what git ignores is left out, and so are C(.git), C(__pycache__), C(.venv)
    and their like everywhere.
  - Runs on the controller. Role P(tpu.fleet.code_checkout#role) takes the archive to the hosts.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the code tree.
    type: str
    required: true
  folder:
    description: Folder to pack. Changes that are not committed are packed as well.
    type: path
    required: true
  snapshot_dir:
    description: Folder for the archive; it is made when it is missing.
    type: path
    required: true
  max_bytes:
    description: A folder with more bytes is refused; data sets and checkpoints belong elsewhere.
    type: int
    default: 268435456
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows which files changed since the last snapshot.
    support: full
"""

EXAMPLES = r"""
- name: Pack the working tree
  tpu.fleet.code_snapshot:
    name: digits
    folder: examples/jax
    snapshot_dir: .cache/snapshots
  delegate_to: localhost
"""

RETURN = r"""
digest:
  description: SHA-256 over paths, permissions and contents.
  type: str
  returned: success
archive:
  description: The archive.
  type: str
  returned: success
files:
  description: Number of files.
  type: int
  returned: success
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host import snapshot as _snapshot
from ..module_utils._host.runs import read_json


def run(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Pack when something changed; raise SnapshotError with the folder and the reason."""
    try:
        return _packed(params, check_mode)
    except (OSError, _snapshot.SnapshotError) as error:
        message = f"Cannot make a snapshot of {params['folder']}: {error}"
        raise _snapshot.SnapshotError(message) from error


def _packed(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    folder, target = Path(params["folder"]), Path(params["snapshot_dir"])
    archive = target / f"{params['name']}.tar.gz"
    description = target / f"{params['name']}.json"
    paths, warnings = _snapshot.list_files(folder)
    entries = _snapshot.describe(folder, paths)
    _snapshot.refuse_too_much(entries, params["max_bytes"])
    digest = _snapshot.digest_of(entries)
    before = read_json(description)
    changed = before.get("digest") != digest or not archive.is_file()
    lines = [entry.line() for entry in entries]
    if changed and not check_mode:
        _snapshot.keep(target, params["name"], folder, entries, digest)
    return {
        "changed": changed,
        "digest": digest,
        "archive": str(archive),
        "files": len(entries),
        "warnings": warnings,
        "diff": {
            "before_header": f"{archive} {str(before.get('digest', 'absent'))[:16]}",
            "after_header": f"{archive} {digest[:16]}",
            "before": "\n".join(before.get("files", [])) + "\n",
            "after": "\n".join(lines) + "\n",
        },
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "folder": {"type": "path", "required": True},
            "snapshot_dir": {"type": "path", "required": True},
            "max_bytes": {"type": "int", "default": _snapshot.MAX_BYTES},
        },
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except _snapshot.SnapshotError as error:
        module.fail_json(msg=str(error))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
