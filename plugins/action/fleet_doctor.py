# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module fleet_doctor with what the inventory knows of the project and the workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError

from ..module_utils._fleet_file.around import queue_access
from ..module_utils._fleet_file.bucket_places import PLACED, Places
from ..module_utils._fleet_file.notices import NOTICED, notices
from ..module_utils._tpu.names import GROUP_UNAVAILABLE, GROUP_USABLE, natural_key
from ..module_utils._tpu.workers import maintenance_text
from ..plugin_utils._fleet.check import readable
from ..plugin_utils._fleet.declared import Declared

# Options of the inventory file that say whom to ask, and as whom.
SHARED = ("api_endpoint", "access_token", "service_account_file", "impersonate_service_account")
# What the fleet file says, as variables fleet_<option>; and others.
DECLARED = ("project", "api_endpoint", "allocations", "slices", "zone", "owner", "budget")
NAMED = {
    "warn_before": "fleet_allocation_warn_before",
    "ssh_key": "fleet_ssh_private_key_file",
    "time_limit": "doctor_time_limit",
}


class ActionModule(Declared):
    """The module, with its workers and its project."""

    def declared(self) -> dict[str, Any]:
        """Return what the inventory and the fleet file say."""
        return {
            **self._from_inventory_file(self.vars),
            **self.said(*DECLARED, **NAMED),
            "buckets": self._buckets(),
            "notices": self._notices(),
            "workers": list(self._workers(self.vars, self._task.args.get("hosts"))),
        }

    def _buckets(self) -> list[dict[str, Any]]:
        """Return the buckets that slices use, as far as the fleet file can be read."""
        given = {name: self.vars[name] for name in PLACED if name in self.vars}
        data = readable(given, self._templar.template)
        name, access = queue_access(data) or ("", {})
        asked = Places.declared(data).asked()
        return [{**one, "access": access} if one["name"] == name else one for one in asked]

    def _notices(self) -> list[dict[str, str]]:
        """Return the warnings of the check of the fleet file, from what can be read of it."""
        data = {}
        for name in NOTICED:
            with contextlib.suppress(AnsibleError):  # the check says why it cannot be read
                data.update(self.said(**{name: name}))
        return [asdict(notice) for notice in notices(data, datetime.now(timezone.utc))]

    def _workers(
        self, variables: Mapping[str, Any], wanted: list[str] | None
    ) -> Iterator[dict[str, Any]]:
        groups, hostvars = variables.get("groups", {}), variables["hostvars"]
        names = {*groups.get(GROUP_USABLE, []), *groups.get(GROUP_UNAVAILABLE, [])}
        for host in sorted(names, key=natural_key):
            if wanted is None or host in wanted:
                yield self._worker(host, hostvars[host])

    def _worker(self, host: str, known: Mapping[str, Any]) -> dict[str, Any]:
        def value(name: str, default: Any = "") -> Any:
            try:
                found = known.get(name)
            except AnsibleError as error:
                raise AnsibleError(f"{host}: {name} cannot be read: {error}") from error
            return default if found is None else found

        options = value("tpu_vm_ssh_options", {})
        coming = value("tpu_vm_upcoming_maintenance", {})
        arguments = [value("ansible_ssh_common_args"), value("ansible_ssh_extra_args")]
        return {
            "host": host,
            "slice": _label(host, value("tpu_vm_worker_index"), value("tpu_vm_worker_count")),
            "zone": value("tpu_vm_zone"),
            "type": value("tpu_vm_accelerator_type"),
            "runtime": value("tpu_vm_runtime_version"),
            "reason": value("tpu_vm_unavailable_reason"),
            "maintenance": maintenance_text(coming),
            "address": value("ansible_host", host),
            "port": value("ansible_port"),
            "user": value("ansible_user"),
            "key": value("ansible_ssh_private_key_file"),
            "arguments": " ".join(str(part) for part in arguments if part),
            "strict": options.get("StrictHostKeyChecking", "yes") == "yes",
        }

    def _from_inventory_file(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Read the project from the inventory's file: the inventory may not have come so far."""
        for path in _inventory_files(variables.get("ansible_inventory_sources") or []):
            data = self._loader.load_from_file(str(path))
            if not isinstance(data, Mapping) or data.get("plugin") != "tpu.fleet.tpu":
                continue
            projects = data.get("projects") or data.get("project") or []
            first = projects[0] if isinstance(projects, list) and projects else projects
            found = {"project": first, **{name: data.get(name) for name in SHARED}}
            return {name: self._templar.template(value) for name, value in found.items() if value}
        return {}


def _inventory_files(sources: list[str]) -> Iterator[Path]:
    for source in sources:
        path = Path(source)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        yield from (file for file in files if file.name.endswith(("tpu.yml", "tpu.yaml")))


def _label(host: str, index: Any, count: Any) -> str:
    """Return the slice's name in the inventory: two zones may have slices of one name."""
    ending = f"-w{index}"
    several = str(count).isdigit() and int(count) > 1
    return host[: -len(ending)] if several and host.endswith(ending) else host
