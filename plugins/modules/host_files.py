#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_files
short_description: Write many small files, folders and links in one step
description:
  - Does for a list of small files, folders and links what C(file), C(copy) and C(template) do
    for one, at the price of one task instead of many.
options:
  files:
    description: 'The declared files, in this order.'
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where., type: path, required: true}
      state:
        description: What. A missing parent folder is made.
        type: str
        choices: [file, directory, link, absent]
        default: file
      content: {description: Content of a file., type: str, default: ''}
      target: {description: Target of a link; it must exist., type: path}
      mode:
        description: Permissions of a file or folder. V(0644) and V(0755) by default.
        type: str
      purge:
        description: Pattern of files below a folder that are removed unless O(files) names them.
        type: str
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Write the settings
  tpu.fleet.host_files:
    files:
      - path: /etc/tpu-fleet
        state: directory
      - path: /etc/tpu-fleet/motd
        content: |
          Be kind to your neighbours.
"""

RETURN = r"""#"""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.state import read_text, write_atomically
from ..module_utils._host.unpack import link_target
from ..module_utils._host.work import Failed

FILE_SPEC: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "state": {
        "type": "str",
        "choices": ["file", "directory", "link", "absent"],
        "default": "file",
    },
    "content": {"type": "str", "default": ""},
    "target": {"type": "path"},
    "mode": {"type": "str"},
    "purge": {"type": "str"},
}


def as_seen(path: Path) -> tuple[str, str, int]:
    """See what is there: its kind, its content or target, its permissions."""
    if path.is_symlink():
        return "link", link_target(path), 0
    if not path.exists():
        return "absent", "", 0
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.is_dir():
        return "directory", "", mode
    return "file", read_text(path) or "", mode


def as_wanted(entry: dict[str, Any]) -> tuple[str, str, int]:
    """Say the same of what is wanted."""
    state = entry["state"]
    if state == "link":
        return "link", entry["target"] or "", 0
    if state == "absent":
        return "absent", "", 0
    mode = int(entry["mode"] or ("0755" if state == "directory" else "0644"), 8)
    return state, entry["content"] if state == "file" else "", mode


def left_over(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an entry for each file that a folder loses, because no entry names it."""
    named = {entry["path"] for entry in entries}
    for entry in entries:
        for path in sorted(Path(entry["path"]).rglob(entry["purge"])) if entry["purge"] else ():
            if str(path) not in named:
                yield {**entry, "path": str(path), "state": "absent"}


def shown(what: tuple[str, str, int]) -> str:
    """Write what is there, or wanted, for a diff."""
    state, content, mode = what
    return content if state == "file" else f"{state} {content or oct(mode)}\n"


def bring_about(path: Path, now: tuple[str, str, int], wanted: tuple[str, str, int]) -> None:
    """Turn what is there into what is wanted."""
    state, content, mode = wanted
    if state == "absent":
        if now[0] == "directory":
            shutil.rmtree(path)
        else:
            path.unlink()
        return
    if now[0] == "directory" and state != "directory":
        raise Failed(f"{path} is a folder where a {state} should be. Move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    if state == "directory":
        if now[0] in ("file", "link"):
            raise Failed(f"{path} is a {now[0]} where a folder should be. Move it away")
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    elif state == "link":
        if not Path(path.parent, content).exists():
            raise Failed(f"{path} should lead to {content}, which does not exist")
        trial = path.with_name(f".{path.name}.new")
        trial.unlink(missing_ok=True)
        trial.symlink_to(content)
        trial.replace(path)
    else:
        write_atomically(path, content, mode=mode)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": FILE_SPEC}
        },
        supports_check_mode=True,
    )
    changed, differences = [], []
    for entry in (*module.params["files"], *left_over(module.params["files"])):
        path = Path(entry["path"])
        now, wanted = as_seen(path), as_wanted(entry)
        if now == wanted:
            continue
        changed.append(entry["path"])
        differences.append(
            {
                "before_header": f"{path} ({now[0]} {now[2]:04o})",
                "after_header": f"{path} ({wanted[0]} {wanted[2]:04o})",
                "before": shown(now),
                "after": shown(wanted),
            }
        )
        if not module.check_mode:
            try:
                bring_about(path, now, wanted)
            except (OSError, Failed) as error:
                module.fail_json(msg=f"Cannot write {path}: {error}", changed_paths=changed)
    module.exit_json(changed=bool(changed), changed_paths=changed, diff=differences)


if __name__ == "__main__":
    main()
