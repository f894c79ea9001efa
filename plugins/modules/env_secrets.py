#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: env_secrets
short_description: Write sets of secrets for runs, services and shells
description:
  - Does on the machine what the role P(tpu.fleet.env_secrets#role) declares.
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Write sets of secrets for runs, services and shells
  tpu.fleet.env_secrets: "{{ 'env_secrets' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""


from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.as_user import UserError
from ..module_utils._roles.env_secrets.apply import Apply


def main() -> None:
    """Run the module."""
    module, settings = role_module()
    try:
        apply = Apply(settings, module.check_mode)
        todo = apply.plan()
        apply.carry_out(todo)
        if apply.problems:
            text = f"{'; '.join(apply.problems)}. Everything else is done"
            module.fail_json(msg=text, problems=apply.problems, steps=apply.steps)
    except (OSError, UserError) as error:
        module.fail_json(msg=f"Cannot write the secrets: {error}", problems=[str(error)])
    except Exception as error:
        # A trace back may show what must not be seen.
        what = f"unexpected {type(error).__name__}"
        module.fail_json(msg=f"Cannot write the secrets: {what}", problems=[what])
    module.exit_json(
        changed=bool(apply.steps),
        names=sorted(one.name for one in apply.sets),
        steps=apply.steps,
        kept=apply.kept,
        hash=apply.hash(),
        diff={"before": "", "after": "".join(f"{step}\n" for step in apply.steps)},
    )


if __name__ == "__main__":
    main()
