# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the workers of a fleet on this computer: a list for tpu-fleet, a configuration for ssh.

Commands read the list in milliseconds; the inventory takes a request to the API.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...module_utils._host.state import read_text, write_atomically
from .._fleet.state_folder import base_folder, problems_of
from .._ssh.targets import Fleet, Target

LISTS = "workers"
"""The folder with a list for each inventory."""
ANSIBLES = ("all", "ungrouped")
"""Groups that Ansible makes of all hosts."""


NEEDED = ("fleet_state_dir", "fleet_ssh_user", "fleet_ssh_private_key_file")
Variable = Callable[[str], Any]
"""Returns a variable of a host, or None."""
Template = Callable[[Any], Any]


@dataclass(frozen=True)
class Written:
    """The ssh configuration as it was and as it is wanted."""

    path: Path
    before: str | None
    text: str
    changed: bool


def list_path(sources: Iterable[str], environment: Mapping[str, str]) -> Path:
    """Return the list of the fleet that these sources of an inventory identify."""
    real = "\n".join(map(os.path.realpath, sources))
    digest = hashlib.sha256(real.encode()).hexdigest()[:24]
    return base_folder(environment) / LISTS / f"{digest}.json"


def groups_of(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the groups that have a meaning for a fleet."""
    return {name: tuple(hosts) for name, hosts in groups.items() if name not in ANSIBLES}


def read_list(sources: Iterable[str], environment: Mapping[str, str]) -> tuple[Fleet, Path] | None:
    """Return the fleet as it was read last, and its ssh configuration; None if there is none."""
    try:
        stored = json.loads(list_path(sources, environment).read_text(encoding="utf-8"))
        return (
            Fleet(
                {name: _target(said) for name, said in stored["targets"].items()},
                {name: tuple(hosts) for name, hosts in stored["groups"].items()},
                tuple(stored["inventory"]),
            ),
            Path(stored["ssh_config"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A list that is missing, or of another version, is written again.
        return None


def _target(said: Mapping[str, Any]) -> Target:
    tuples = {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
    return Target(**{**said, **tuples})


def list_text(fleet: Fleet, ssh_config: Path) -> str:
    """Return the text of the list."""
    stored = {
        "inventory": fleet.inventory,
        "ssh_config": str(ssh_config),
        "groups": fleet.groups,
        "targets": {name: dataclasses.asdict(one) for name, one in fleet.targets.items()},
    }
    return json.dumps(stored) + "\n"


def write_files(
    variables: Mapping[str, Any],
    template: Template,
    hosts: Mapping[str, Variable],
    fleet: Fleet,
    only_look: bool = False,
) -> Written:
    """Write the list and the ssh configuration; `variables` are those of the controller.

    Raises ValueError where the folder of this fleet's state is another fleet's or has no name,
    OSError where it cannot be written.
    """
    foreign = problems_of(variables, template, note=not only_look)
    if foreign:
        raise ValueError(" ".join(map(str, foreign)))
    said = {name: str(template(variables.get(name)) or "") for name in NEEDED}
    if not all(said.values()):
        missing = ", ".join(name for name, value in said.items() if not value)
        raise ValueError(f"The inventory does not set {missing}.")
    folder, user, key = said.values()
    path = Path(folder).expanduser() / "ssh_config"
    before, text = read_text(path), config_text(path, user, key, hosts)
    changed = before != text or stat.S_IMODE(path.stat().st_mode) != 0o600
    if not only_look:
        if changed:
            _write(path, text)
        _write(list_path(fleet.inventory, os.environ), list_text(fleet, path))
    return Written(path, before, text, changed)


def config_text(path: Path, user: str, key: str, hosts: Mapping[str, Variable]) -> str:
    """Return the text of the ssh configuration."""
    lines = [f'# Written by tpu.fleet: ssh -F {path} HOST, or "Include {path}" in ~/.ssh/config']
    for host, variable in hosts.items():
        address = str(variable("ansible_host") or host)
        lines += ["", f"Host {host}", f"  HostName {address}", f"  User {user}"]
        lines += [f'  IdentityFile "{Path(key).expanduser()}"']
        lines += [f"  {option} {value}" for option, value in _options(variable).items()]
    return "\n".join(lines) + "\n"


def _options(variable: Variable) -> Mapping[str, Any]:
    return variable("tpu_vm_ssh_options") or {}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(str(path), text, mode=0o600, uid=os.getuid(), gid=os.getgid())
