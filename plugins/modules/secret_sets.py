#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: secret_sets
short_description: Write sets of secrets so that only their owners can read them
version_added: 0.1.0
description:
  - Takes all sets of a host at once. What an earlier run wrote and is not declared any more is
    removed, unless it was changed since.
  - Files are replaced atomically, with mode V(0600), and in homes with the rights of the owner.
  - Neither results nor messages nor differences hold a value. The arguments do, so the task needs
    C(no_log).
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  sets:
    description: The sets, as in C(env_secrets_sets) of role P(tpu.fleet.env_secrets#role).
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the set., type: str, required: true}
      owner: {description: Linux user., type: str, default: root}
      variables: {description: Environment variables., type: dict, default: {}}
      files:
        description: Secret files.
        type: list
        elements: dict
        default: []
        suboptions:
          path: {description: Where; C(~/) is the owner's home., type: str, required: true}
          content: {description: What is in it., type: str, required: true}
      preset: {description: What the set is for., type: str, choices: [aws, hugging_face, wandb]}
      values: {description: Values of the preset., type: dict, default: {}}
      write:
        description: What becomes of them.
        type: list
        elements: str
        choices: [files, variables]
        default: [variables]
      google_secrets:
        description: Variables by the names of secrets in Google Secret Manager.
        type: dict
        default: {}
      login: {description: Whether login shells have them., type: bool, default: false}
      slices:
        description: Names of the slices that get it. Empty for all.
        type: list
        elements: str
        default: []
  slice:
    description: Name of the slice of this host; sets that name others only are passed over.
    type: str
    default: ''
  google_project:
    description: Project of the Google secrets that name none.
    type: str
    default: ''
  google_endpoint:
    description: Where Secret Manager answers.
    type: str
    default: https://secretmanager.googleapis.com
  folder:
    description: Folder of the sets.
    type: path
    default: /etc/tpu-fleet/secrets
  profile:
    description: File that login shells read.
    type: path
    default: /etc/profile.d/tpu-fleet-secrets.sh
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Names what would be written, without the values.
    support: full
"""

EXAMPLES = r"""
- name: Write the secrets
  tpu.fleet.secret_sets:
    sets:
      - name: wandb
        owner: alice
        variables:
          WANDB_API_KEY: "{{ lookup('ansible.builtin.env', 'WANDB_API_KEY') }}"
  no_log: true
"""

RETURN = r"""
names:
  description: Names of the sets that are here.
  type: list
  elements: str
  returned: success
kept:
  description: What is not declared any more and stays, and why.
  type: list
  elements: str
  returned: success
steps:
  description: What was done, without values.
  type: list
  elements: str
  returned: always
problems:
  description: What is in the way, without values.
  type: list
  elements: str
  returned: failure
hash:
  description: Differs if what was applied differs. Its key stays on the host.
  type: str
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError
from ..module_utils._roles.env_secrets import plan as rules
from ..module_utils._roles.env_secrets.apply import Apply

FILE_SPEC = {
    "path": {"type": "str", "required": True},
    "content": {"type": "str", "required": True, "no_log": True},
}
SET_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "owner": {"type": "str", "default": "root"},
    "variables": {"type": "dict", "default": {}, "no_log": True},
    "files": {"type": "list", "elements": "dict", "default": [], "options": FILE_SPEC},
    "preset": {"type": "str", "choices": sorted(rules.PRESETS)},
    "values": {"type": "dict", "default": {}, "no_log": True},
    "write": {
        "type": "list",
        "elements": "str",
        "choices": ["files", "variables"],
        "default": ["variables"],
    },
    "google_secrets": {"type": "dict", "default": {}, "no_log": False},
    "login": {"type": "bool", "default": False},
    "slices": {"type": "list", "elements": "str", "default": []},
}


def declared_problems(sets: list[dict[str, Any]]) -> list[str]:
    """Say what is wrong with the sets themselves."""
    found = []
    names = [entry["name"] for entry in sets]
    for index, entry in enumerate(sets):
        where = f"env_secrets_sets[{index}] ({entry['name']})"
        for key, message, remedy in rules.problems_of(entry):
            found.append(f"{where}.{key}: {message}. {remedy}.")
        if names.index(entry["name"]) != index:
            found.append(f"{where}.name: is the name of another set. Give each its own.")
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sets": {"type": "list", "elements": "dict", "default": [], "options": SET_SPEC},
            "slice": {"type": "str", "default": ""},
            "google_project": {"type": "str", "default": ""},
            "google_endpoint": {
                "type": "str",
                "default": "https://secretmanager.googleapis.com",
            },
            "folder": {"type": "path", "default": "/etc/tpu-fleet/secrets"},
            "profile": {"type": "path", "default": "/etc/profile.d/tpu-fleet-secrets.sh"},
        },
        supports_check_mode=True,
    )
    problems = declared_problems(module.params["sets"])
    if problems:
        module.fail_json(msg="Nothing was changed. " + " ".join(problems), problems=problems)
    try:
        apply = Apply(module.params, module.check_mode)
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
