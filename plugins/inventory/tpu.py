# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: tpu
short_description: Cloud TPU VMs as inventory hosts
version_added: 0.1.0
description:
  - One host for each worker of each TPU node, called C(<node>) when the node has one worker and
    C(<node>-w<k>) when it has several. Names that exist in several zones get the zone
    (C(<node>.<zone>)).
  - Usable hosts are in the group C(tpu), the others in C(tpu_unavailable) with the reason in
    C(tpu_vm_unavailable_reason).
  - All hosts are in C(tpu_slice_<node>), C(tpu_zone_<zone>), C(tpu_type_<type>),
    C(tpu_generation_<generation>), C(tpu_tier_<tier>) and C(tpu_state_<state>). The usable first
    worker of each node is in C(tpu_leaders).
  - ssh verifies each machine against the host keys that it published through the API, stored under
    the node's uid. A changed address neither breaks nor weakens that.
  - Shared connections have their sockets in C(~/.cache/tpu-fleet/ssh).
  - A mistake in the YAML of C(group_vars) or C(host_vars) beside the file is reported with file and
    line. A section of the fleet file in them that has nothing below it is empty.
  - C(inventory_dir) is also set for the controller. It is the folder of the file, at which relative
    paths in the fleet file start.
  - The variables C(fleet_project), when there is one project, C(fleet_api_endpoint) and
    C(fleet_owner) are set for all hosts, so that playbooks on the controller use the same
    API of the same fleet.
  - The login is set too, and every variable of the same name takes precedence.
    C(fleet_ssh_user) is O(user), C(fleet_ssh_private_key_file) the key in E(TPU_FLEET_SSH_KEY), the
    one of Ansible's own settings (C(--private-key), C(private_key_file)), or
    C(~/.ssh/tpu_fleet). C(fleet_ssh_public_key) is its public half. The hosts of the group C(tpu)
    get C(ansible_user), C(ansible_ssh_private_key_file) and C(ansible_become) from them.
  - The playbooks keep their state on this computer in C(fleet_state_dir). It is the folder in
    E(TPU_FLEET_STATE_DIR) or C(~/.local/state/tpu-fleet) for the first fleet of this computer, and
    a folder below it for every other one. C(fleet_name) identifies the fleet; it is made of
    O(owner), O(projects) and an O(api_endpoint) that is not Google's.
  - The file's name must end with C(tpu.yml) or C(tpu.yaml).
author:
  - The tpu.fleet authors (@tpu-fleet)
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
requirements:
  - requests
  - google-auth
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [tpu.fleet.tpu]
  projects:
    description: Google Cloud projects to list.
    type: list
    elements: str
    aliases: [project]
    env:
      - name: GOOGLE_CLOUD_PROJECT
      - name: CLOUDSDK_CORE_PROJECT
  zones:
    description: Zones to list. Without it all zones are listed.
    type: list
    elements: str
    default: []
  states:
    description: Show only nodes in these states, such as V(READY).
    type: list
    elements: str
    default: []
  apis:
    description:
      - The APIs that are asked for slices. V(tpu) is the Cloud TPU API, V(compute) Compute Engine.
      - Where both are asked and the account may not read Compute Engine, it has none. Where the
        Cloud TPU API is not enabled and Compute Engine has slices, it has none either.
    type: list
    elements: str
    choices: [tpu, compute]
    default: [tpu, compute]
  accelerator_types:
    description: Show only nodes of these types, such as V(v4-8).
    type: list
    elements: str
    default: []
  labels:
    description: Show only nodes that have all these labels with exactly these values.
    type: dict
    default: {}
  owner:
    description:
      - Show only nodes whose label C(tpu-fleet) has this value.
      - The playbooks set it on what they create, so two fleets in one project need two owners.
    type: str
  connect_with:
    description:
      - Address that ssh connects to.
      - V(iap) goes through Identity-Aware Proxy and needs the gcloud command on the controller.
    type: str
    choices: [external_ip, internal_ip, iap]
    default: external_ip
  host_key_policy:
    description:
      - With V(verify) ssh accepts only host keys that the machine published through the API.
      - With V(accept_new) ssh remembers the first key that it sees, and refuses another one later.
    type: str
    choices: [verify, accept_new]
    default: verify
  key_exchange:
    description:
      - How ssh agrees on the key of a connection, in Ansible and in C(tpu-fleet exec).
      - With V(default) it is what both sides prefer, which is safe from quantum computers if the
        machine supports it. V(cheap) is always curve25519, with an eighth of the CPU time that
        OpenSSH 8.5 to 9.8 takes for its default. C(docs/connections.md) says when to choose it.
    type: str
    choices: [default, cheap]
    default: default
    env:
      - name: TPU_FLEET_SSH_KEX
  known_hosts_dir:
    description:
      - Folder of the known_hosts files, one for each node.
      - Without it, C(known_hosts) in the folder that keeps the state of the fleet.
    type: path
  user:
    description:
      - Login for ssh, unless C(fleet_ssh_user) is set. Every slice creates it from the key in
        its metadata.
    type: str
    default: ubuntu
  unreachable_zones:
    description:
      - What to do when the API could not read all zones. Their nodes are then missing, which does
        not mean that they are deleted.
    type: str
    choices: [warn, fail]
    default: warn
  api_endpoint:
    description: Endpoint of the API.
    type: str
    default: https://tpu.googleapis.com/
    env:
      - name: CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU
  access_token:
    description: OAuth access token, used before any other credentials.
    type: str
    env:
      - name: CLOUDSDK_AUTH_ACCESS_TOKEN
  service_account_file:
    description:
      - File with the key of a service account. Without it the application default credentials are
        used, and without those the login of gcloud.
      - Google credentials are sent to C(https://*.googleapis.com) only.
    type: path
  impersonate_service_account:
    description: Service account to impersonate.
    type: str
    env:
      - name: CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT
"""

EXAMPLES = r"""
# fleet.tpu.yml: all TPU VMs of the project in GOOGLE_CLOUD_PROJECT
plugin: tpu.fleet.tpu
---
# Two zones of one project, through internal addresses, cached for a minute
plugin: tpu.fleet.tpu
projects: [my-project]
zones: [us-central2-b, europe-west4-b]
connect_with: internal_ip
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/tpu-fleet
cache_timeout: 60
---
# Own groups and variables. The host variables that expressions can use:
#   tpu_vm_name, tpu_vm_uid, tpu_vm_project, tpu_vm_zone, tpu_vm_api, tpu_vm_accelerator_type,
#   tpu_vm_machine_type, tpu_vm_topology,
#   tpu_vm_runtime_version, tpu_vm_state, tpu_vm_health, tpu_vm_health_description, tpu_vm_tier,
#   tpu_vm_worker_index, tpu_vm_worker_count, tpu_vm_slice_hosts, tpu_vm_internal_ip,
#   tpu_vm_external_ip, tpu_vm_queued_resource, tpu_vm_multislice, tpu_vm_labels, tpu_vm_data_disks,
#   tpu_vm_upcoming_maintenance, tpu_vm_symptoms, tpu_vm_create_time, tpu_vm_unavailable_reason,
#   tpu_vm_ssh_options
plugin: tpu.fleet.tpu
projects: [my-project, my-other-project]
labels:
  team: vision
keyed_groups:
  - key: tpu_vm_labels.experiment | default('none')
    prefix: experiment
groups:
  coordinators: tpu_vm_worker_index == 0
"""

import os
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.template import trust_as_template
from ansible.utils.display import Display

# Imported for its effect: what follows is imported from Python's bytecode cache.
from ..plugin_utils._core import bytecode  # noqa: F401 # pylint: disable=unused-import

# isort: split
from ..module_utils._core.errors import PermissionDenied, TpuError
from ..module_utils._inventory import host_keys
from ..module_utils._inventory.connections import control_directory
from ..module_utils._inventory.fetch import Host, Query, attribute_errors, fetch, hosts_of
from ..module_utils._tpu.client import Client
from ..module_utils._tpu.names import (
    FROM_CACHE,
    GROUP_LEADERS,
    GROUP_UNAVAILABLE,
    GROUP_UNFINISHED,
    GROUP_USABLE,
)
from ..module_utils._wire.auth import HAS_GOOGLE_AUTH, HAS_REQUESTS, AuthOptions
from ..plugin_utils._fleet.state_folder import base_folder, fleet_name, folder_of
from ..plugin_utils._fleet.variable_files import (
    UNREAD,
    fill_empty_sections,
    read_variables,
    refuse_old_names,
    variable_files,
)

display = Display()

DEFAULT_KEY = "~/.ssh/tpu_fleet"
# Templates, so that what the fleet file says instead holds for all of them.
PUBLIC_KEY = (
    "{{ lookup('ansible.builtin.file', (fleet_ssh_private_key_file | expanduser) ~ '.pub') }}"
)
LOGIN = {
    "ansible_user": trust_as_template("{{ fleet_ssh_user }}"),
    "ansible_ssh_private_key_file": trust_as_template(
        "{{ fleet_ssh_private_key_file | expanduser }}"
    ),
    "ansible_become": True,
}


def _key() -> str:
    """Return the key that one logs in with, where the fleet file names none."""
    configured = constants.config.get_config_value("DEFAULT_PRIVATE_KEY_FILE")
    given = context.CLIARGS.get("private_key_file") or configured
    return str(os.environ.get("TPU_FLEET_SSH_KEY") or given or DEFAULT_KEY)


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """List the workers of the TPU nodes of some projects."""

    NAME = "tpu.fleet.tpu"

    inventory: InventoryData
    _from_cache = False

    def verify_file(self, path: str) -> bool:
        """Take only files that are meant for this plugin."""
        return super().verify_file(path) and path.endswith(("tpu.yml", "tpu.yaml"))

    def parse(
        self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True
    ) -> None:
        """Fill the inventory; where an unread one is an error, end the program with the reason.

        Otherwise Ansible would have its plugins for YAML and INI files try this file, and print
        their errors around the reason, in place of the reason alone.
        """
        try:
            self._fill(inventory, loader, path, cache)
        except AnsibleError as error:
            if not constants.config.get_config_value("INVENTORY_ANY_UNPARSED_IS_FAILED"):
                raise
            raise SystemExit(f"{UNREAD}{error}") from None

    def _fill(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool) -> None:
        super().parse(inventory, loader, path, cache)
        if not (HAS_REQUESTS and HAS_GOOGLE_AUTH):
            raise AnsibleParserError(
                "The Python libraries requests and google-auth are missing. "
                "Install them beside ansible-core: pip install requests google-auth"
            )
        self._read_config_data(path)
        folder = Path(os.path.realpath(Path(path).parent))
        # Here, as Ansible's own message about invalid YAML names neither file nor line.
        found: list[tuple[str, Path]] = []
        for file in variable_files(folder):
            variables = read_variables(loader, file)
            fill_empty_sections(variables)
            found += ((str(name), file) for name in variables)
        refuse_old_names(found)
        query = self._query()
        state = self._state_folder(query)
        directory = self._directory(state)
        try:
            data = self._data(query, path, cache)
            hosts, files = hosts_of(data, query, directory)
        except TpuError as error:
            if not (isinstance(error, PermissionDenied) and error.flavour == "api_disabled"):
                # Ansible would print the texts of the causes, too, which say the same.
                raise AnsibleParserError(str(error)) from None
            # A new project: tpu.fleet.enable_api needs the inventory, too.
            display.warning(f"There are no hosts yet. {error}")
            self._publish(query, folder, state)
            return
        self._report(data)
        self._write_known_hosts(directory, files)
        self._populate(hosts)
        self._publish(query, folder, state)

    def _query(self) -> Query:
        projects = self._texts("projects")
        if not projects:
            raise AnsibleParserError(
                "No project is given. Set projects in this file, or GOOGLE_CLOUD_PROJECT."
            )
        labels = self.templar.template(self.get_option("labels"))
        return Query(
            projects=tuple(dict.fromkeys(projects)),
            zones=tuple(dict.fromkeys(self._texts("zones"))),
            states=tuple(state.upper() for state in self._texts("states")),
            apis=self._texts("apis"),
            accelerator_types=self._texts("accelerator_types"),
            labels={str(key): str(value) for key, value in labels.items()},
            owner=self._text("owner"),
            connect_with=str(self.get_option("connect_with")),
            host_key_policy=str(self.get_option("host_key_policy")),
            key_exchange=str(self.get_option("key_exchange")),
            endpoint=self._text("api_endpoint"),
        )

    def _data(self, query: Query, path: str, cache: bool) -> dict[str, Any]:
        """Return what the API says, from the cache when that answers the same question."""
        use_cache, key = self.get_option("cache"), self.get_cache_key(path)
        if use_cache and cache:
            try:
                cached = self._cache[key]
            except KeyError:
                cached = {}
            if cached.get("query") == query.to_dict():
                self._from_cache = True
                return dict(cached)
        self._from_cache = False
        data = fetch(query, self._client)
        if use_cache:
            self._cache[key] = data
        return data

    def _client(self, project: str) -> Client:
        auth = AuthOptions(
            access_token=self._text("access_token"),
            service_account_file=self._text("service_account_file"),
            impersonate_service_account=self._text("impersonate_service_account"),
        )
        return Client(project, endpoint=self._text("api_endpoint"), auth=auth)

    def _report(self, data: dict[str, Any]) -> None:
        """Say what is not known."""
        if data["unreachable"]:
            message = (
                f"The API could not ask {', '.join(data['unreachable'])}: workers there are "
                "missing from the inventory, which does not mean that they are gone."
            )
            if self.get_option("unreachable_zones") == "fail":
                raise AnsibleParserError(f"{message} Try again, or name other zones.")
            display.warning(message)
        for error, nodes in attribute_errors(data).items():
            display.warning(f"{', '.join(nodes)}: {error}")

    def _state_folder(self, query: Query) -> Path:
        """Return where this fleet keeps what is its own on this computer."""
        base = base_folder(os.environ)
        try:
            return folder_of(base, fleet_name(query.projects, query.owner, query.endpoint))
        except OSError:
            # Reading needs no write access; code that has to write there reports the error.
            return base

    def _directory(self, state: Path) -> Path:
        given = self._text("known_hosts_dir")
        return Path(given).expanduser() if given else state / "known_hosts"

    def _write_known_hosts(self, directory: Path, files: dict[Path, list[str]]) -> None:
        """Write the verified keys; under accept_new ssh itself writes, into the same folder."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file, lines in files.items():
                if lines:
                    host_keys.write_known_hosts(file, lines)
        except OSError as error:
            raise AnsibleParserError(
                f"The known_hosts files cannot be written: {error}. Set known_hosts_dir or "
                "TPU_FLEET_STATE_DIR to a folder of your own."
            ) from error

    def _populate(self, hosts: list[Host]) -> None:
        for group in (GROUP_USABLE, GROUP_UNAVAILABLE, GROUP_LEADERS, GROUP_UNFINISHED):
            self.inventory.add_group(group)
        for host in hosts:
            name = self.inventory.add_host(host.worker.host)
            entry = self.inventory.hosts[name]
            variables = host.variables
            for key, value in variables.items():
                entry.set_variable(key, value)
            for group in host.worker.groups:
                self.inventory.add_child(self.inventory.add_group(group), name)
            self._construct(name, variables)
        # One folder for all, wherever the configuration of Ansible comes from.
        folder = str(control_directory(os.environ))
        self.inventory.set_variable(GROUP_USABLE, "ansible_control_path_dir", folder)

    def _publish(self, query: Query, folder: Path, state: Path) -> None:
        """Publish what is written here alone: the fleet's folder, how to log in."""
        told: dict[str, Any] = {
            # Ansible sets it for hosts of a file, but not for the controller itself.
            "inventory_dir": str(folder),
            "fleet_name": fleet_name(query.projects, query.owner, query.endpoint),
            "fleet_ssh_user": self._text("user"),
            "fleet_ssh_private_key_file": _key(),
            "fleet_ssh_public_key": trust_as_template(PUBLIC_KEY),
            "fleet_state_dir": str(state),
            "code_checkout_snapshot_dir": trust_as_template("{{ fleet_state_dir }}/snapshots"),
        }
        if len(query.projects) == 1:
            told["fleet_project"] = query.projects[0]
        if query.endpoint:
            told["fleet_api_endpoint"] = query.endpoint
        if query.owner:
            told["fleet_owner"] = query.owner
        if self._from_cache:
            told[FROM_CACHE] = True
        for name, value in told.items():
            self.inventory.set_variable("all", name, value)
        self.inventory.add_group(GROUP_USABLE)
        for name, value in LOGIN.items():
            self.inventory.set_variable(GROUP_USABLE, name, value)

    def _construct(self, name: str, variables: dict[str, Any]) -> None:
        # Each of the three costs about a millisecond for each host, even with nothing to do.
        strict = self.get_option("strict")
        for option, apply in (
            ("compose", self._set_composite_vars),
            ("groups", self._add_host_to_composed_groups),
            ("keyed_groups", self._add_host_to_keyed_groups),
        ):
            expressions = self.get_option(option)
            if expressions:
                apply(expressions, variables, name, strict=strict)

    def _text(self, option: str) -> str | None:
        value = self.templar.template(self.get_option(option))
        return str(value) if value not in (None, "") else None

    def _texts(self, option: str) -> tuple[str, ...]:
        value = self.templar.template(self.get_option(option)) or []
        return tuple(str(item) for item in value)
