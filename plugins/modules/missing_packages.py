#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: missing_packages
short_description: Find out which packages a host lacks
description:
  - Says which of some Debian packages are not installed. M(ansible.builtin.apt) loads all
    package lists to find out the same, which takes a second, and needs lists that a new host
    does not have.
options:
  names: {description: Names of packages., type: list, elements: str, required: true}
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes.info
"""

EXAMPLES = r"""
- name: Find missing shells
  tpu.fleet.missing_packages:
    names: [fish, zsh]
  register: shells

- name: Install missing shells
  ansible.builtin.apt:
    name: "{{ shells.packages }}"
    update_cache: true
  when: shells.packages | length > 0
"""

RETURN = r"""#"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Ask dpkg."""
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    names = module.params["names"]
    installed = []
    if names:
        layout = "--showformat=${db:Status-Abbrev}${Package}\\n"
        code, out, err = module.run_command(["dpkg-query", "--show", layout, "--", *names])
        # 1: it does not know one of them.
        if code not in (0, 1):
            module.fail_json(msg=f"dpkg-query cannot list which packages are installed: {err}")
        installed = out.splitlines()
    missing = [name for name in names if f"ii {name}" not in installed]
    module.exit_json(changed=False, packages=missing)


if __name__ == "__main__":
    main()
