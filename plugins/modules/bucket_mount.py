#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bucket_mount
short_description: Mount buckets with gcsfuse
description:
  - Does on the machine what the role P(tpu.fleet.bucket_mount#role) declares.
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Mount buckets with gcsfuse
  tpu.fleet.bucket_mount: "{{ 'bucket_mount' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

from ..module_utils._ansible.role_module import role_module
from ..module_utils._core.in_zone import in_zone
from ..module_utils._host.work import Failed
from ..module_utils._roles.bucket_mount import units as buckets
from ..module_utils._roles.bucket_mount.act import Mounter, can_automount, codename
from ..module_utils._roles.here import on_slice


def main() -> None:
    """Run the module."""
    module, settings = role_module()
    settings["buckets"] = [
        {**entry, "bucket": in_zone(entry["bucket"], settings["zone"])}
        for entry in on_slice(settings["buckets"], settings["slice"])
    ]
    mounter = Mounter(settings, module.run_command, module.check_mode, module.warn)
    automount = can_automount()
    wants = bool(settings["buckets"])
    try:
        for entry in settings["buckets"]:
            mounter.refuse_foreign(entry)
        uri, key, pin = (
            settings[name] if wants else "" for name in ("apt_uri", "apt_key", "version")
        )
        files = buckets.apt_files(uri, key, pin, codename())
        sources = [path for path, text in files.items() if mounter.file(path, text)]
        version = mounter.version()
        other = bool(settings["version"]) and not version.startswith(settings["version"])
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
