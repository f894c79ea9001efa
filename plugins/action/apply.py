# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask all hosts of the play to apply roles to themselves, over one connection each."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import Templar, is_trusted_as_template
from ansible.utils.display import Display

from ..module_utils._apply_agent.place import Place
from ..plugin_utils import apply_bundle, apply_variables
from ..plugin_utils.apply_report import lines_of, recap
from ..plugin_utils.apply_run import Call, Outcome, disagreements
from ..plugin_utils.apply_wish import (
    Common,
    Given,
    Order,
    is_ours,
    is_plain,
    order,
    roles_asked_for,
    simple,
)
from ..plugin_utils.fan_out import Settings
from ..plugin_utils.role_specs import ROLES, secret_options
from ..plugin_utils.ssh_failures import LocalTrouble
from ..plugin_utils.ssh_targets import SshConfigError, Target, target_of

display = Display()
PLAYBOOKS = ROLES.parent / "playbooks"
# How a host gets Python and packages: what the role python_env takes for its tools.
TOOLS = (
    "python_source",
    "python_dir",
    "python_mirror",
    "python_list",
    "conda",
    "conda_channel",
    "uv_version",
    "cache_dir",
    "compile_bytecode",
    "index_url",
    "extra_index_urls",
    "index_credentials",
    "ca_bundle",
    "environment",
    "secret_environment",
    "tries",
)


class ActionModule(ActionBase):
    """One call of all hosts."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send everybody what they are to be; show what they do; collect how it ended."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, options = self.validate_argument_spec(
            {
                "plays": {"type": "list", "elements": "str", "required": True},
                "timeout": {"type": "float", "default": 0.0},
                "forced": {"type": "bool", "default": False},
                "every": {"type": "str", "default": ""},
                "connects": {"type": "int", "default": 64},
            }
        )
        given = task_vars or {}
        hosts: list[str] = list(given["ansible_play_hosts"])
        tags = [tag for tag in given["ansible_run_tags"] if tag != "all"]
        roles = roles_asked_for(roles_of(options["plays"]), tags)
        result.update(changed=False, failures={}, hosts={})
        if not roles or not hosts:
            result.update(skipped=True, msg="nothing that these machines do is asked for")
            return result
        try:
            orders, targets = self._prepare(hosts, roles, tags, options, given)
            who = f"{getpass.getuser()}@{socket.gethostname()}"
            settings = Settings(connects=options["connects"])
            call = Call(orders, apply_bundle.agent(), who, _show, settings)
            outcomes = asyncio.run(call.run(targets, options["timeout"]))
        except (LocalTrouble, SshConfigError) as error:
            raise AnsibleActionFail(f"{error} {getattr(error, 'remedy', '')}".strip()) from error
        outcomes = disagreements(outcomes, {one.host: one.slice for one in orders})
        for text, colour in recap(outcomes):
            display.display(text, color=colour)
        result.update(
            changed=any(outcome.counts.get("changed") for outcome in outcomes),
            hosts={outcome.host: _told(outcome) for outcome in outcomes},
            failures={one.host: _told(one) for one in outcomes if one.status != "ok"},
        )
        return result

    def _prepare(
        self,
        hosts: Sequence[str],
        roles: Sequence[str],
        tags: Sequence[str],
        options: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> tuple[list[Order], list[Target]]:
        common = Common(
            roles=roles,
            code=apply_bundle.collection(),
            secret=secret_options(),
            snapshots=self._snapshots(given) if "code_checkout" in roles else {},
            check=bool(self._task.check_mode),
            diff=bool(self._task.diff),
            tags=tags,
            skip_tags=list(given["ansible_skip_tags"]),
            forced=options["forced"],
            every=options["every"],
        )
        reader = Reader(self._loader, roles)
        orders, targets = [], []
        for host in hosts:
            raw = given["hostvars"].raw_get(host)
            templar = Templar(loader=self._loader, variables=raw)
            orders.append(order(host, reader.given(raw, templar), reader.tools(templar), common))
            targets.append(_target(host, raw, templar))
        return orders, targets

    def _snapshots(self, given: Mapping[str, Any]) -> dict[str, bytes]:
        """Read the archives of the code that comes from folders here."""
        trees = self._templar.template(given.get("code_checkout_trees", []))
        folder = self._templar.template(given.get("code_checkout_snapshot_dir", ""))
        found = {}
        for tree in trees:
            if tree.get("folder"):
                for name in (f"{tree['name']}.tar.gz", f"{tree['name']}.json"):
                    path = Path(folder) / name
                    if path.is_file():
                        found[name] = path.read_bytes()
        return found


class Reader:
    """Reads the variables of hosts."""

    def __init__(self, loader: Any, roles: Sequence[str]) -> None:
        self._loader = loader
        self._roles = roles
        text = (ROLES / "python_env" / "defaults" / "main.yml").read_text(encoding="utf-8")
        self._defaults = yaml.safe_load(text)
        # Nearly all hosts have the same templates.
        self._uses: dict[str, dict[str, list[str]]] = {}

    def given(self, raw: Mapping[str, Any], templar: Templar) -> Given:
        """Return what a host is to know of its variables."""
        ours = {name: value for name, value in raw.items() if is_ours(name)}
        uses = self._uses_of(ours)
        names = {name for used in uses.values() for name in used}
        here = apply_variables.controllers_own({name: ours[name] for name in names})
        templates, plain = {}, {}
        for name in sorted(names):
            if name in here:
                try:
                    plain[name] = simple(templar.template(ours[name]))
                except AnsibleError:
                    # What a role does with it says which part of it cannot be read.
                    templates[name] = simple(ours[name])
            elif is_plain(ours[name], is_trusted_as_template):
                plain[name] = simple(ours[name])
            else:
                templates[name] = simple(ours[name])
        if "code_checkout" in self._roles:
            templates.pop("code_checkout_snapshot_dir", None)
            plain["code_checkout_snapshot_dir"] = str(Place().snapshots("code_checkout"))
        return Given(templates, plain, uses)

    def _uses_of(self, ours: Mapping[str, Any]) -> dict[str, list[str]]:
        key = repr(
            sorted(
                (name, simple(value) if apply_variables.is_template(value) else "")
                for name, value in ours.items()
            )
        )
        if key not in self._uses:
            self._uses[key] = apply_variables.uses_of(ROLES, self._roles, ours)
        return self._uses[key]

    def tools(self, templar: Templar) -> dict[str, Any]:
        """Return how a host gets Python and packages."""
        variables = templar.available_variables
        told = {
            name: simple(
                templar.template(
                    variables.get(f"python_env_{name}", self._defaults[f"python_env_{name}"])
                )
            )
            for name in TOOLS
        }
        return {
            **told,
            "uv_dir": "/opt/tpu-fleet/uv",
            "shared_cache_url": "",
            "torch_index_url": "",
        }


def roles_of(plays: Sequence[str]) -> list[str]:
    """Return the roles of plays, in their order, as the playbooks of this collection have them."""
    known: dict[str, list[str]] = {}
    for path in sorted(PLAYBOOKS.glob("*.yml")):
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            if play.get("roles"):
                known[play["name"]] = [
                    role["role"].removeprefix("tpu.fleet.") for role in play["roles"]
                ]
    missing = [name for name in plays if name not in known]
    if missing:
        raise AnsibleActionFail(f"No play of this collection is called {missing[0]!r}.")
    return [role for name in plays for role in known[name]]


def _target(host: str, raw: Mapping[str, Any], templar: Templar) -> Target:
    names = ("ansible_host", "ansible_port", "ansible_user", "ansible_ssh_private_key_file")
    more = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
    read = {
        name: templar.template(raw[name]) for name in (*names, *more) if raw.get(name) is not None
    }
    address, port, user, key = (str(read.get(name, "")) for name in names)
    return target_of(host, address, port, user, key, [str(read[n]) for n in more if n in read])


def _show(host: str, said: dict[str, Any]) -> None:
    for text, colour, verbosity in lines_of(host, said):
        if display.verbosity >= verbosity:
            display.display(text, color=colour or None)


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "counts": dict(outcome.counts),
        "reasons": list(outcome.reasons),
        "problem": outcome.problem,
        "seconds": round(outcome.seconds, 1),
    }
