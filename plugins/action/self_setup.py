# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish the setup that the machines of the play apply when no controller does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._ansible.api_module import (
    client_from,
    failure,
)
from ..module_utils._ansible.options import spec_of
from ..module_utils._core.errors import TpuError
from ..module_utils._fleet_file.self_setup import fleet_of, split_bucket
from ..module_utils._google.apis import GoogleApis
from ..module_utils._google.storage import Bucket, Folder, Place
from ..modules.self_setup import DOCUMENTATION
from ..plugin_utils._apply import bundle as apply_bundle
from ..plugin_utils._apply.prepare import Each, asked_for, common_of, each
from ..plugin_utils._apply.wish import order, simple
from ..plugin_utils._core.refused import once
from ..plugin_utils._fleet.options import said_of
from ..plugin_utils._roles.specs import by_all_names
from ..plugin_utils._self_setup.open import Raw, open_tools, opened
from ..plugin_utils._self_setup.publish import Slice, publish, shared_roles

display = Display()
SHARED = ("project", "owner", "api_endpoint", "roles", "applied")
PARTS = ("machine_roles", "workspace_roles", "training_roles", "service_roles")
NAMES = {
    "place": "fleet_self_setup",
    "slices": "fleet_self_setup_slices",
    "key": "fleet_ssh_private_key_file",
    "every": "fleet_apply_every",
}
try:
    # Where a value was written; Ansible has no other way to ask.
    from ansible._internal._datatag._tags import Origin
except ImportError:  # another version of it
    Origin = None  # type: ignore[assignment,misc]


class ActionModule(ActionBase):
    """One call for all hosts."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Publish each slice of which all workers are in the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = task_vars or {}
        result.update(changed=False, published=[], without={})
        declared, whole = self._declared(given)
        self._task.args = {**declared, **self._task.args}
        if not self._task.args.get("slices"):
            result.update(skipped=True, msg="no slice sets itself up")
            return result
        tagged = list(given["ansible_run_tags"]) != ["all"] or given["ansible_skip_tags"]
        if tagged or self._task.args["roles"] == declared.get("roles") != whole:
            result.update(skipped=True, msg="only a part was applied, and that is not published")
            return result
        spec = spec_of(DOCUMENTATION, {"key": {"no_log": False}})
        _found, options = self.validate_argument_spec(spec)
        try:
            slices = self._slices(options, given)
            place = self._place(options)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            agent = apply_bundle.agent()
            check = bool(self._task.check_mode)
            published = publish(place, slices, agent, options["key"], now, check)
        except TpuError as error:
            result.update(failed=True, **failure(error))
            return result
        for one in slices:
            if one.name in published and one.without:
                display.warning(
                    f"{one.name} would set itself up without {'; without '.join(one.without)}."
                )
        result.update(
            changed=bool(published),
            published=published,
            without={one.name: list(one.without) for one in slices if one.without},
        )
        return result

    def _declared(self, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return what the variables of apply_roles.yml say, and the names of all roles."""
        said = said_of(given, self._templar.template, (*SHARED, *PARTS), **NAMES)
        whole = [role for part in PARTS for role in said.pop(part, [])]
        applied = said.pop("applied", {})
        found = {"without": list(applied.get("failures", ())), "agreed": applied.get("shared", {})}
        return {**said, **found}, whole

    def _place(self, options: dict[str, Any]) -> Place:
        place = options["place"]
        if not place.get("bucket"):
            return Folder(place["local_path"])
        client = client_from(options)
        bucket, prefix = split_bucket(place["bucket"])
        return Bucket(GoogleApis(client), client.auth, bucket, prefix)

    def _slices(self, options: dict[str, Any], given: dict[str, Any]) -> list[Slice]:
        """Collect each slice's setup; a slice with an absent worker stays as it was published."""
        roles = asked_for(options["roles"], given)
        common = common_of(self, roles, options, given, secret=frozenset())
        workers: dict[str, dict[int, Each]] = {}
        hosts = [one for one in given["ansible_play_hosts"] if one not in options["without"]]
        for one in each(self, hosts, roles, given):
            name = str(one.values.read("tpu_vm_name") or "")
            if name in options["slices"]:
                index = int(one.values.read("tpu_vm_worker_index") or 0)
                workers.setdefault(name, {})[index] = one
        found = []
        for name, by_index in workers.items():
            count = int(by_index[min(by_index)].values.read("tpu_vm_worker_count") or 1)
            if len(by_index) != count:
                away = count - len(by_index)
                display.warning(f"{name} is not published: {away} of its workers are away.")
                continue
            in_order = [by_index[index] for index in sorted(by_index)]
            found.append(self._slice(name, in_order, common, options))
        return found

    def _slice(self, name: str, workers: list[Each], common: Any, options: dict[str, Any]) -> Slice:
        orders, addresses = [], []
        without: dict[str, None] = {}
        for one in workers:
            shown, left = opened(one.given, _raw(one))
            tools, closed = open_tools(one.tools)
            without.update(dict.fromkeys([*left, *closed]))
            orders.append(order(one.host, shown, tools, common))
            kinds = ("internal_ip", "external_ip")
            addresses.append({kind: str(one.values.read(f"tpu_vm_{kind}") or "") for kind in kinds})
        # What was pushed is known here, and what machines found out was asked of them.
        seen = workers[0].values.raw
        pushed = {v: simple(seen[v]) for v in shared_roles().values() if _is_whole(seen.get(v))}
        agreed = {**(options["agreed"].get(name) or {}), **pushed}
        return Slice(
            name=name,
            uid=str(workers[0].values.read("tpu_vm_uid") or ""),
            orders=orders,
            addresses=addresses,
            without=list(without),
            found={name: _told(value) for name, value in agreed.items()},
            fleet=fleet_of(options["project"] or "", options["owner"]),
        )


def _is_whole(registered: Any) -> bool:
    return isinstance(registered, Mapping) and not registered.get("skipped")


def _told(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a module found out, without what it was asked."""
    return {name: value for name, value in result.items() if name not in ("invocation", "diff")}


def _raw(one: Each) -> Raw:
    def read(name: str) -> Any:
        return simple(one.values.read(name))

    values = {name: one.values.raw[name] for name in one.ours}
    return Raw(values, by_all_names(), is_encrypted, read, AnsibleError)


def is_encrypted(value: Any) -> bool:
    """Return whether a value, or a part of it, was encrypted where it was written."""
    if isinstance(value, EncryptedString):
        return True
    if isinstance(value, Mapping):
        return any(is_encrypted(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(is_encrypted(part) for part in value)
    origin = Origin.get_tag(value) if Origin is not None else None
    return bool(origin and origin.path and _is_vault(origin.path))


_VAULTS: dict[str, bool] = {}


def _is_vault(path: str) -> bool:
    """Return whether a file is encrypted as a whole."""
    if path not in _VAULTS:
        try:
            with Path(path).open("rb") as file:
                _VAULTS[path] = file.read(14) == b"$ANSIBLE_VAULT"
        except OSError:
            _VAULTS[path] = False
    return _VAULTS[path]
