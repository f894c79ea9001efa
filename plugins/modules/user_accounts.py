#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: user_accounts
short_description: Manage users, keys and sudo rights of a host
description:
  - Does on the machine what the role P(tpu.fleet.user_accounts#role) declares.
options:
  coming_shells:
    description: Shells that check mode takes as installed, because a task installs them.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Manage users, keys and sudo rights of a host
  tpu.fleet.user_accounts: "{{ 'user_accounts' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.as_user import UserError
from ..module_utils._host.work import Failed
from ..module_utils._roles.user_accounts.act import carry_out
from ..module_utils._roles.user_accounts.look import look, ssh_problems, write_record
from ..module_utils._roles.user_accounts.plan import (
    PRESENT,
    User,
    declared_problems,
    dropped,
    host_problems,
    passing_warnings,
    plan,
    record_of,
    sudoers_content,
    warnings,
)


def sudo_problems(module: AnsibleModule, users: list[User]) -> list[str]:
    """Ask visudo about every rule."""
    visudo = module.get_bin_path("visudo", opt_dirs=["/usr/sbin", "/sbin"])
    found = []
    for index, user in enumerate(users):
        content = sudoers_content(user) if user.fate == PRESENT else None
        if content is None:
            continue
        if visudo is None:
            # On a fresh host the packages may not be there yet; only a real run needs them.
            if not module.check_mode:
                found.append(f"fleet_users[{index}].sudo: sudo is not installed on this host.")
            continue
        trial = Path(module.tmpdir) / "rule"
        trial.write_text(content, encoding="utf-8")
        code, out, err = module.run_command([visudo, "-c", "-f", str(trial)])
        if code != 0:
            says = " ".join((err or out).replace(str(trial), "the rule").split())
            found.append(f"fleet_users[{index}].sudo is refused by visudo: {says}")
    return found


def main() -> None:
    """Run the module."""
    module, settings = role_module(coming_shells={"type": "list", "elements": "str", "default": []})
    declared = [
        {key: value for key, value in entry.items() if value is not None}
        for entry in settings["users"]
    ]
    problems = declared_problems(declared, settings["groups"])
    if problems:
        module.fail_json(msg=" ".join(problems), problems=problems)
    users = [User.from_declared(entry, settings["slice"]) for entry in declared]
    groups = {entry["name"]: entry["gid"] for entry in settings["groups"]}
    host = look(
        users, settings["archive_dir"], module.params["coming_shells"] if module.check_mode else ()
    )
    users += dropped(users, host)
    problems = host_problems(users, groups, host) + sudo_problems(module, users)
    if problems:
        module.fail_json(msg=f"Nothing was changed. {' '.join(problems)}", problems=problems)

    steps = plan(users, groups, host)
    summaries = [step.summary for step in steps]
    record = record_of(users, host)
    if record != host.recorded:
        summaries.append("record who is managed")
    if not module.check_mode:
        # First: who was made by a run that broke off is known to the next one.
        if record != host.recorded:
            write_record({**host.recorded, **record})
        for step in steps:
            try:
                carry_out(step, module.run_command, settings["archive_dir"])
            except (Failed, UserError, OSError) as error:
                module.fail_json(msg=f"Cannot {step.summary}: {error}", steps=summaries)
        if record != host.recorded:
            write_record(record)
    notes = warnings(users, host)
    for note in notes + passing_warnings(users, host):
        module.warn(note)
    module.exit_json(
        changed=bool(summaries),
        steps=summaries,
        notes=notes,
        ssh_problems=ssh_problems(module.run_command, users, host),
        diff={"before": "", "after": "".join(f"{summary}\n" for summary in summaries)},
    )


if __name__ == "__main__":
    main()
