# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules with the name of a role take: the settings of the role. Private to tpu.fleet.

The role checks and converts them by its argument specification (filter role_settings), so nothing
here names an option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

SPEC: dict[str, dict[str, Any]] = {
    "settings": {"type": "dict", "required": True},
    # Apart, because Ansible hides them in results and in the journal only as whole options.
    "secrets": {"type": "dict", "default": {}, "no_log": True},
}


def role_module(**more: dict[str, Any]) -> tuple[AnsibleModule, dict[str, Any]]:
    """Return the module, and the settings with the secrets in their places.

    `more` are options that are no variables of the role, such as the phase.
    """
    module = AnsibleModule(argument_spec={**SPEC, **more}, supports_check_mode=True)
    return module, joined(module.params["settings"], module.params["secrets"])


def joined(settings: dict[str, Any], secrets: Mapping[str, Any]) -> dict[str, Any]:
    """Put the secrets into their places in the settings, which change, and return these."""
    for path, value in secrets.items():
        *steps, last = path.split("/")
        place: Any = settings
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[last] = value
    return settings
