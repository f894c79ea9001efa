# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an inventory and its variables as a playbook does, but in this process.

Only to read takes a third of a second of CPU, a playbook two before its first task.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.host import Host
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from ansible.utils.collection_loader._collection_config import AnsibleCollectionConfig
from ansible.vars.manager import VariableManager

from ...module_utils._ansible.options import spec_of
from ...module_utils._tpu.names import GROUP_UNAVAILABLE, GROUP_USABLE
from .._fleet.check import check_variables
from .._fleet.options import Template, files_in, options_of, params_of, said_of
from .._fleet.variable_files import UNREAD
from .._fleet.watch_settings import watch_settings
from .._roles.specs import ROLES
from .._ssh.targets import Fleet, SshConfigError, target_by
from .worker_list import Variable, groups_of, write_files

P = ParamSpec("P")
T = TypeVar("T")
_ansible = threading.RLock()


def _alone(work: Callable[P, T]) -> Callable[P, T]:
    """Let one thread at a time into Ansible: its loader of plugins works for one alone."""

    @functools.wraps(work)
    def waiting(*args: P.args, **more: P.kwargs) -> T:
        with _ansible:
            return work(*args, **more)

    return waiting


class InventoryError(RuntimeError):
    """An inventory or a variable that cannot be read; the message is Ansible's."""


@dataclass(frozen=True)
class Inventory:
    """The hosts of a fleet, and what its fleet file says."""

    _loader: DataLoader
    _hosts: InventoryManager
    _variables: VariableManager
    sources: Sequence[str]

    @classmethod
    @_alone
    def read(cls, sources: Sequence[str], folder: Path, fresh: bool = False) -> Inventory:
        """Read the sources of an inventory, as from a folder; if fresh, not from a cache."""
        _find_plugins()
        loader = DataLoader()
        loader.set_basedir(str(folder))
        said = io.StringIO()
        try:
            _take_vault_secrets(loader)
            with contextlib.redirect_stderr(said):
                hosts = InventoryManager(loader=loader, sources=list(sources), cache=not fresh)
        except AnsibleError as error:
            # The reason is only in what Ansible prints about each plugin that it tried.
            raise InventoryError(f"{said.getvalue()}{error}") from error
        except SystemExit as error:
            raise InventoryError(str(error).removeprefix(UNREAD)) from error
        sys.stderr.write(said.getvalue())
        return cls(loader, hosts, VariableManager(loader=loader, inventory=hosts), sources)

    @classmethod
    @_alone
    def read_again(cls, sources: Sequence[str], loader: DataLoader) -> Inventory:
        """Read the sources as they are now, in a process of Ansible, with its loader."""
        try:
            hosts = InventoryManager(loader=loader, sources=list(sources), cache=False)
        except (AnsibleError, SystemExit) as error:
            raise InventoryError(str(error).removeprefix(UNREAD)) from error
        return cls(loader, hosts, VariableManager(loader=loader, inventory=hosts), sources)

    def workers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each worker with the variables that the inventory plugin gives it."""
        for group in (GROUP_USABLE, GROUP_UNAVAILABLE):
            for host in self._in(group):
                yield host.name, host.vars

    @_alone
    def fleet(self) -> Fleet:
        """Return the usable workers, and how ssh reaches them."""
        return self._fleet(self._usable())

    @_alone
    def write_files(self) -> tuple[Path, Fleet]:
        """Write the ssh configuration and the list of workers; return its path and the workers."""
        variables, template = self._of_controller()
        hosts = self._usable()
        fleet = self._fleet(hosts)
        try:
            return write_files(variables, template, hosts, fleet).path, fleet
        except (AnsibleError, OSError, ValueError) as error:
            raise InventoryError(str(error)) from error

    @_alone
    def key_file(self) -> Path:
        """Return the private key with which workers are logged in to."""
        variables, template = self._of_controller()
        return Path(str(template(variables.get("fleet_ssh_private_key_file", "")))).expanduser()

    @_alone
    def watched(self) -> dict[str, Any]:
        """Return what the watcher needs of the fleet file, after a check of all of it."""
        variables, template = self._of_controller()
        try:
            checked = check_variables(variables, template, self._loader)
            if checked.refusal:
                raise InventoryError(checked.refusal)
            return {**watch_settings(variables, template), "inventory": list(self.sources)}
        except AnsibleError as error:
            raise InventoryError(str(error)) from error

    def variable(self, host: str, name: str) -> Any:
        """Return what the inventory plugin says about a host; None if it says nothing."""
        found = self._hosts.get_host(host)
        return found.vars.get(name) if found else None

    @_alone
    def params(self, documentation: str, declared: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of a module that the fleet file says, with the module's defaults.

        `declared` has the variable of each option.
        """
        variables, template = self._of_controller()
        try:
            return params_of(said_of(variables, template, (), **declared), spec_of(documentation))
        except AnsibleError as error:
            raise InventoryError(str(error)) from error

    @_alone
    def said(self, name: str, otherwise: Any = None) -> Any:
        """Return what the fleet file says under a variable."""
        variables, template = self._of_controller()
        try:
            found = template(variables.get(name))
        except AnsibleError as error:
            raise InventoryError(str(error)) from error
        return otherwise if found is None else found

    @_alone
    def of_role(self, host: str, role: str, text: str, **more: Any) -> Any:
        """Return what a template means where a role is applied to a host.

        Variables of the role that no variable of the host replaces are its defaults; `more` are
        variables of the task. A host that the inventory does not know has those of localhost.
        """
        found = self._hosts.get_host(host) or self._hosts.get_host("localhost")
        variables = {
            **self._file(ROLES / role / "defaults" / "main.yml"),
            **self._variables.get_vars(host=found),
            **self._file(ROLES / role / "vars" / "main.yml"),
            **more,
        }
        try:
            return Templar(loader=self._loader, variables=variables).template(
                trust_as_template(text)
            )
        except AnsibleError as error:
            raise InventoryError(str(error)) from error

    @_alone
    def of_play(self, file: str) -> dict[str, Any]:
        """Return the variables that playbooks of this collection read from one of their files."""
        return self._file(ROLES.parent / "playbooks" / "vars" / file)

    def _file(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            return {}
        return dict(self._loader.load_from_file(str(path), trusted_as_template=True) or {})

    @_alone
    def planned(self) -> dict[str, Any]:
        """Return the options of the module fleet that the fleet file says."""
        variables, template = self._of_controller()
        try:
            said = said_of(variables, template, ("project", "api_endpoint", "state_dir"))
            files = files_in(said.pop("state_dir", ""))
            return params_of({**options_of(variables, template), **said, **files})
        except AnsibleError as error:
            raise InventoryError(str(error)) from error

    def _of_controller(self) -> tuple[dict[str, Any], Template]:
        """Return the variables of this computer, and what fills in their templates."""
        variables = self._variables.get_vars(host=self._hosts.get_host("localhost"))
        variables["ansible_inventory_sources"] = list(self.sources)
        return variables, Templar(loader=self._loader, variables=variables).template

    def _usable(self) -> dict[str, Variable]:
        return {host.name: self._variable_of(host) for host in self._in(GROUP_USABLE)}

    def _variable_of(self, host: Host) -> Variable:
        variables = self._variables.get_vars(host=host, include_hostvars=False)
        template = Templar(loader=self._loader, variables=variables).template
        return lambda name: template(variables.get(name))

    def _fleet(self, hosts: Mapping[str, Variable]) -> Fleet:
        groups = {
            name: [host.name for host in group.get_hosts()]
            for name, group in self._hosts.groups.items()
        }
        try:
            targets = {name: target_by(name, variable) for name, variable in hosts.items()}
        except (AnsibleError, SshConfigError) as error:
            raise InventoryError(str(error)) from error
        return Fleet(targets, groups_of(groups), tuple(map(os.path.realpath, self.sources)))

    def _in(self, group: str) -> list[Host]:
        found = self._hosts.groups.get(group)
        return list(found.get_hosts()) if found else []


def _find_plugins() -> None:
    """Have Ansible find the plugins of collections."""
    # It finds them only in packages that its own finder imported.
    name = ""
    for part in __name__.split(".")[:3]:
        name = f"{name}.{part}".lstrip(".")
        sys.modules.pop(name, None)
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader()


def _take_vault_secrets(loader: DataLoader) -> None:
    """Give Ansible the passwords of encrypted files where its configuration names them."""
    config = constants.config.get_config_value
    identities = config("DEFAULT_VAULT_IDENTITY_LIST")
    if not identities and not config("DEFAULT_VAULT_PASSWORD_FILE"):
        return
    from ansible.cli import CLI

    loader.set_vault_secrets(
        CLI.setup_vault_secrets(loader, vault_ids=list(identities), auto_prompt=False)
    )
