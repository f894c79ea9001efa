#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: github_key
short_description: Manage the SSH keys of a fleet at GitHub
version_added: 0.1.0
description:
  - Registers the public keys that the role P(tpu.fleet.git_access#role) made on the machines, as
    keys of a user or as deploy keys of a repository, and removes those of machines that go and of
    keys that are not declared any more. Run it on the controller.
  - What is not given is taken from the variables of the fleet file, and what machines have from the
    inventory.
  - A key is known by itself, not by its title. What was registered is written down, and only that
    is ever removed, and only while it still carries the fleet's title.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  state:
    description:
      - V(present) registers and removes.
      - V(ready) only sees that GitHub can be asked for what is declared and what has to be
        removed, before anything else is changed. It does not look at O(hosts).
    type: str
    choices: [present, ready]
    default: present
  later:
    description:
      - Whether to warn, and leave the rest to a later run, where GitHub cannot be asked or refuses,
        also where there is no token. By default the module fails then.
      - The variable C(fleet_github_later) says it for all tasks of a playbook, as C(tpu-fleet
        watch) does, because a lost slice is to come back all the same.
    type: bool
    default: false
  fleet:
    description: Name of the fleet, part of the titles. Two fleets of one account need two names.
    type: str
    required: true
  keys:
    description: Entries of C(fleet_git_keys), without their private keys.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the key., type: str, required: true}
      users: {description: Users who have the key., type: list, elements: str, required: true}
      source:
        description: Whether each user, each machine or the fleet has one.
        type: str
        choices: [user, machine, shared]
        default: user
      host: {description: Git server., type: str, default: github.com}
      register:
        description: How it is registered at GitHub.
        type: str
        choices: [user, deploy]
      repository: {description: The repository of a deploy key., type: str}
      read_only: {description: Whether a deploy key may only read., type: bool, default: true}
      slices: {description: Slices that have it., type: list, elements: str, default: []}
  hosts:
    description:
      - What the machines have. Keys of machines that are not among them stay as they are, as long
        as their slice is one of O(slices).
    type: list
    elements: dict
    default: []
    suboptions:
      host: {description: Name of the machine., type: str, required: true}
      slice: {description: Its slice., type: str, required: true}
      users:
        description: The users of its C(git_access.json).
        type: dict
        default: {}
  people:
    description:
      - Users of C(fleet_users). Their own keys are removed where they are not to be any
        more.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Login., type: str, required: true}
      slices: {description: Slices that they may use., type: list, elements: str, default: []}
      state: {description: Whether they are there., type: str, default: present}
  slices:
    description: Declared slices. Keys of all others are removed.
    type: list
    elements: str
    required: true
  record:
    description: File on the controller in which the registered keys are written down.
    type: path
    required: true
  api_url:
    description:
      - Where GitHub's API is; C(https://HOST/api/v3) for GitHub Enterprise.
      - The token goes there and nowhere else, over TLS, or to this computer itself.
    type: str
    default: https://api.github.com
  token:
    description:
      - Token of the account. E(GITHUB_TOKEN) and E(GH_TOKEN) by default.
      - It is needed only when something is registered, or was.
    type: str
attributes:
  check_mode:
    description: Looks, changes nothing, and says what would change.
    support: full
  diff_mode:
    description: Lists the titles before and after.
    support: full
notes:
  - GitHub removes a deploy key together with the personal token that registered it.
"""

EXAMPLES = r"""
- name: Register the keys
  tpu.fleet.github_key:
    fleet: lab
    keys: "{{ fleet_git_keys | map('combine', {'private_key': ''}) }}"
    hosts: "{{ git_keys_hosts }}"
    slices: [solo, pair]
    record: "{{ fleet_state_dir }}/github_keys.json"

- name: Remove them all
  tpu.fleet.github_key:
    fleet: lab
    slices: []
    record: "{{ fleet_state_dir }}/github_keys.json"
"""

RETURN = r"""
added:
  description: Titles of the keys that were registered.
  type: list
  elements: str
  returned: always
removed:
  description: Titles of the keys that were removed.
  type: list
  elements: str
  returned: always
registered:
  description: All keys of this fleet that are registered, as they are written down.
  type: list
  elements: dict
  returned: success
waits:
  description: What GitHub could not be asked for, and what to do.
  type: str
  returned: with O(later), when it could not
"""

import json
import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.common.parameters import env_fallback

from ..module_utils._ansible.options import spec_of
from ..module_utils._github import keys_plan as plans
from ..module_utils._github.client import TOKENS, GitHub, GitHubError
from ..module_utils._host.state import as_json, read_text, write_atomically
from ..module_utils._wire import auth as _auth


class Keeper:
    """Carries the plan out, and writes down each step when it is done."""

    def __init__(self, module: AnsibleModule) -> None:
        self.params = module.params
        self.check: bool = module.check_mode
        self.path = Path(module.params["record"])
        data = json.loads(read_text(self.path) or "{}")
        # A fleet of another name may use the same file.
        self.others = {name: keys for name, keys in data.items() if name != self.params["fleet"]}
        mine = data.get(self.params["fleet"]) or []
        self.recorded = [plans.Recorded.load(entry) for entry in mine]
        self.added: list[str] = []
        self.removed: list[str] = []

    def keep(self) -> dict[str, Any]:
        """Do it all."""
        params = self.params
        wanted = self._wanted()
        stale = [
            key
            for key in self.recorded
            if not plans.is_wanted(key, params["keys"], params["slices"], params["people"])
        ]
        before = sorted(key.title for key in self.recorded)
        if params["state"] == "ready":
            self._see_that_it_can(stale)
        elif wanted or stale:
            # Without anything to do there is no need for a token.
            hub = self._hub([f"{key.title} must be registered there" for key in wanted], stale)
            places = {key.place for key in wanted} | {key.place for key in stale}
            seen = {place: self._seen(hub, place) for place in sorted(places)}
            for action in plans.plan(wanted, self.recorded, stale, seen, params["fleet"]):
                self._do(hub, action)
        after = sorted({*before, *self.added} - set(self.removed) | set(self.added))
        return {
            "changed": bool(self.added or self.removed),
            "registered": [key.to_dict() for key in self.recorded],
            "diff": {
                "before": "".join(f"{title}\n" for title in before),
                "after": "".join(f"{title}\n" for title in after),
            },
        }

    def _see_that_it_can(self, stale: list[plans.Recorded]) -> None:
        """Ask for the places of all keys that are declared or to be removed."""
        declared = plans.registered(self.params["keys"])
        reasons = [
            f"{key['name']} in fleet_git_keys must be registered there (register: "
            f"{key['register']})"
            for key in declared
        ]
        places = {plans.place_of(key["register"], key["repository"] or "") for key in declared}
        if declared or stale:
            hub = self._hub(reasons, stale)
            for place in sorted(places):
                hub.keys(place)
            for place in sorted({key.place for key in stale} - places):
                self._seen(hub, place)

    def _hub(self, reasons: list[str], stale: list[plans.Recorded]) -> GitHub:
        """Return GitHub; without a token say which keys want one, and what else one may do."""
        token = self.params["token"] or ""
        if token:
            return GitHub(self.params["api_url"], token)
        whys = [*reasons, *(f"{k.title} is registered there and no longer wanted" for k in stale)]
        shown = "; ".join(whys[:5]) + (f"; and {len(whys) - 5} more" if len(whys) > 5 else "")
        remedy = "Set GITHUB_TOKEN (or fleet_github_token) to a token of that account"
        if stale:
            remedy += (
                ". If you have removed the keys at GitHub by hand and no key must be registered, "
                f"delete {self.path}, which remembers them"
            )
        raise GitHubError(f"There is no token for GitHub, and {shown}", remedy, 401)

    def _wanted(self) -> list[plans.Wanted]:
        params = self.params
        return plans.wanted_keys(params["fleet"], params["keys"], params["hosts"], params["people"])

    def _seen(self, hub: GitHub, place: str) -> list[dict[str, Any]]:
        try:
            return hub.keys(place)
        except GitHubError as error:
            # A repository that is gone has taken its keys along; one that is wanted has not.
            only_old = all(key.place != place for key in self._wanted())
            if error.status == 404 and only_old and place != "/user/keys":
                return []
            raise

    def _do(self, hub: GitHub, action: plans.Action) -> None:
        if action.kind == "add" and action.wanted is not None:
            self.added.append(action.title)
            if not self.check:
                made = self._add(hub, action.wanted)
                # It may have been removed by hand: then it was recorded under another id.
                same = (made.place, made.material)
                self.recorded = [k for k in self.recorded if (k.place, k.material) != same]
                self.recorded.append(made)
        else:
            if action.kind == "remove":
                self.removed.append(action.title)
                if not self.check:
                    hub.remove(action.place, action.id)
            if not self.check:
                self.recorded = plans.after(self.recorded, [action])
        if not self.check:
            self._write()

    def _add(self, hub: GitHub, want: plans.Wanted) -> plans.Recorded:
        body: dict[str, Any] = {"title": want.title, "key": want.material}
        if want.register == "deploy":
            body["read_only"] = want.read_only
        try:
            made = hub.add(want.place, body)
        except GitHubError as error:
            # The answer was lost, or another client was faster: perhaps it is there.
            there = [
                key
                for key in (hub.keys(want.place) if error.status in (0, 422, 502, 503) else [])
                if plans.material_of(str(key.get("key", ""))) == want.material
                and key.get("title") == want.title
            ]
            if not there:
                raise
            made = there[0]
        return plans.Recorded(
            int(made["id"]),
            want.title,
            want.material,
            want.register,
            want.repository,
            want.name,
            want.slice_name,
            want.user,
        )

    def _write(self) -> None:
        """Write down what is registered; the file is one person's own."""
        mine = {self.params["fleet"]: [key.to_dict() for key in self.recorded]}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = self.path.parent.stat()
        write_atomically(
            self.path,
            as_json({**self.others, **mine}),
            mode=0o600,
            uid=owner.st_uid,
            gid=owner.st_gid,
        )


def main() -> None:
    """Run the module."""
    token = {"no_log": True, "fallback": (env_fallback, list(TOKENS))}
    spec = spec_of(DOCUMENTATION, {"keys": {"no_log": False}, "token": token})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if not _auth.HAS_REQUESTS:
        module.fail_json(msg=missing_required_lib("requests"))
    params = module.params
    keeper = Keeper(module)
    try:
        result = keeper.keep()
    except (GitHubError, OSError) as error:
        whose = ""
        if isinstance(error, GitHubError) and error.status == 401 and params["token"]:
            # What it holds stays secret; where it came from does not.
            names = [n for n in TOKENS if os.environ.get(n) == params["token"]]
            whose = f"The token in {[*names, 'fleet_github_token'][0]}: "
        told: dict[str, Any] = {"added": keeper.added, "removed": keeper.removed}
        if not params["later"] or not isinstance(error, GitHubError):
            module.fail_json(msg=f"{whose}{error}", **told)
        waits = f"{whose}{error}"
        module.warn(f"Keys at GitHub stay as they are for now: {waits}")
        registered = [key.to_dict() for key in keeper.recorded]
        module.exit_json(changed=any(told.values()), waits=waits, registered=registered, **told)
    module.exit_json(added=keeper.added, removed=keeper.removed, **result)


if __name__ == "__main__":
    main()
