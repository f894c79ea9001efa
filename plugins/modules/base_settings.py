#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: base_settings
short_description: Manage settings of a host in files and services of other packages
description:
  - Does in one step what would be many tasks. Sets the locale, takes tcmalloc out of
    C(/etc/environment), holds snaps, makes systemd read what was written since it did last,
    and turns units on or off.
options:
  locale:
    description: Locale of logins and services; made if it is not there. Left alone if empty.
    type: str
    default: ''
  tcmalloc:
    description: >-
      Whether C(LD_PRELOAD) of C(/etc/environment) may name tcmalloc. V(false) takes it out
      and keeps the line as a comment, V(true) puts back what was taken out.
    type: bool
    default: true
  snaps:
    description: Whether snaps are refreshed on their own. Left alone where there are none.
    type: str
    choices: [held, refreshed, unmanaged]
    default: unmanaged
  units:
    description: 'Units to turn on or off, now and at boot.'
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the unit., type: str, required: true}
      enabled: {description: Whether it is on., type: bool, required: true}
  manager_file:
    description: >-
      File with C(DefaultLimit...) of systemd, which it reads only when it is re-executed.
    type: path
  journal_file: {description: Configuration file of the journal., type: path}
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Set the locale and keep snaps as they are
  tpu.fleet.base_settings:
    locale: de_AT.UTF-8
    snaps: held
"""

RETURN = r"""#"""


from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.work import Failed
from ..module_utils._roles.host_base.act import Settings


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "locale": {"type": "str", "default": ""},
            "tcmalloc": {"type": "bool", "default": True},
            "snaps": {
                "type": "str",
                "choices": ["held", "refreshed", "unmanaged"],
                "default": "unmanaged",
            },
            "units": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "enabled": {"type": "bool", "required": True},
                },
            },
            "manager_file": {"type": "path"},
            "journal_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    settings = Settings(module.run_command, module.check_mode, module.warn)
    try:
        settings.tcmalloc(params["tcmalloc"])
        settings.locale(params["locale"])
        settings.snaps(params["snaps"])
        settings.systemd(params)
    except Failed as error:
        module.fail_json(msg=str(error), steps=settings.steps)
    except OSError as error:
        module.fail_json(msg=f"Cannot set up this host: {error}", steps=settings.steps)
    done = "".join(f"{step}\n" for step in settings.steps)
    module.exit_json(
        changed=bool(settings.steps),
        steps=settings.steps,
        diff=[*settings.differences, {"prepared": done}] if settings.steps else [],
    )


if __name__ == "__main__":
    main()
