#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bucket_mounts
short_description: Mount buckets with gcsfuse on first access
version_added: 0.1.0
description:
  - Writes, enables and starts the units of systemd for all buckets in one step, and takes away
    those that this module made before and that are not wanted any more.
  - Where gcsfuse is not installed it mounts nothing, and says so.
  - Where the kernel gives no automount, as in a container, the buckets are mounted at boot, and
    nothing waits for them.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  buckets:
    description: The buckets.
    type: list
    elements: dict
    default: []
    suboptions:
      bucket: {description: Name of the bucket., type: str, required: true}
      path: {description: Where to mount it., type: path, required: true}
      only_dir: {description: Only this folder of it., type: str}
      read_only: {description: Whether the mount is read-only., type: bool, default: false}
      owner: {description: Owner of all files., type: str, default: root}
      group: {description: Group of all files; the owner's by default., type: str}
      file_mode: {description: Permissions of files., type: str, default: '0664'}
      dir_mode: {description: Permissions of folders., type: str, default: '0775'}
      implicit_dirs: {description: See folders without objects., type: bool, default: true}
      cache_dir: {description: Folder for copies., type: path}
      cache_mb: {description: Size of the copies in MiB., type: int, default: -1}
      metadata_ttl: {description: Seconds for which metadata are cached., type: int}
      options: {description: Further options., type: dict, default: {}}
  timeout:
    description: Seconds after which a mount has failed.
    type: int
    default: 30
  apt_uri:
    description: Apt repository that has gcsfuse.
    type: str
    default: ''
  apt_key:
    description: The key that signs it.
    type: str
    default: ''
  version:
    description: Version of gcsfuse.
    type: str
    default: ''
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the units before and after.
    support: full
"""

EXAMPLES = r"""
- name: Mount a bucket
  tpu.fleet.bucket_mounts:
    buckets:
      - bucket: lab-datasets
        path: /mnt/datasets
        read_only: true
"""

RETURN = r"""
gcsfuse:
  description: Version of gcsfuse, empty when it is not there.
  type: str
  returned: always
automount:
  description: Whether the buckets are mounted on first access.
  type: bool
  returned: always
wants_install:
  description: Whether gcsfuse is needed and is not there, or is of another version.
  type: bool
  returned: always
sources_changed:
  description: Whether what apt knows of gcsfuse was changed.
  type: bool
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.work import Failed
from ..module_utils._roles.bucket_mount import units as buckets
from ..module_utils._roles.bucket_mount.act import Mounter, can_automount, codename

BUCKET_SPEC: dict[str, Any] = {
    "bucket": {"type": "str", "required": True},
    "path": {"type": "path", "required": True},
    "only_dir": {"type": "str"},
    "read_only": {"type": "bool", "default": False},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str"},
    "file_mode": {"type": "str", "default": "0664"},
    "dir_mode": {"type": "str", "default": "0775"},
    "implicit_dirs": {"type": "bool", "default": True},
    "cache_dir": {"type": "path"},
    "cache_mb": {"type": "int", "default": -1},
    "metadata_ttl": {"type": "int"},
    "options": {"type": "dict", "default": {}},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "buckets": {"type": "list", "elements": "dict", "default": [], "options": BUCKET_SPEC},
            "timeout": {"type": "int", "default": 30},
            "apt_uri": {"type": "str", "default": ""},
            "apt_key": {"type": "str", "default": "", "no_log": False},
            "version": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    params = module.params
    mounter = Mounter(params, module.run_command, module.check_mode, module.warn)
    automount = can_automount()
    wants = bool(params["buckets"])
    try:
        for entry in params["buckets"]:
            mounter.refuse_foreign(entry)
        uri, key, pin = (
            params[name] if wants else "" for name in ("apt_uri", "apt_key", "version")
        )
        files = buckets.apt_files(uri, key, pin, codename())
        sources = [path for path, text in files.items() if mounter.file(path, text)]
        version = mounter.version()
        other = bool(params["version"]) and not version.startswith(params["version"])
        if version or not wants:
            mounter.bring_about(mounter.units(automount), automount)
    except Failed as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"Cannot set up the mounts: {error}")
    module.exit_json(
        changed=bool(mounter.changes),
        gcsfuse=version,
        automount=automount,
        wants_install=wants and (not version or other),
        sources_changed=bool(sources),
        diff=mounter.changes,
    )


if __name__ == "__main__":
    main()
