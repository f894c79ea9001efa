# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the variables of a play into what its hosts are sent, for actions that run for all hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.template import Templar, is_trusted_as_template
from ansible.utils.display import Display

from ...module_utils._apply_agent.place import Place
from ...module_utils._roles.python_env.uv_wheel import usual_index
from ...module_utils._schema.names import either, written
from .._roles.specs import ROLES, options_of, role_names, secret_options
from .._ssh.targets import Target, target_by
from . import bundle as apply_bundle
from . import variables as apply_variables
from .report import lines_of
from .values import Values
from .wish import (
    Common,
    Given,
    Order,
    is_ours,
    is_plain,
    not_applied,
    order,
    parts_of,
    roles_asked_for,
    simple,
    skips_of,
    without,
)

display = Display()
# How a host gets Python and packages, as the role python_env takes it for its own tools.
TOOLS = (
    "python_source",
    "python_dir",
    "python_mirror",
    "python_list",
    "conda",
    "conda_channel",
    "uv_version",
    "compile_bytecode",
    "index_url",
    "extra_index_urls",
    "index_credentials",
    "ca_bundle",
    "environment",
    "secret_environment",
    "tries",
)


def asked_for(roles: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """Return the roles that the tags select, by their names in this collection.

    Raise AnsibleActionFail for a tag of a role that the playbook does not apply: what the tag asks
    for would be left undone without a word.
    """
    here, tags = short(roles), _tags(given)
    missing = not_applied(tags, here, role_names())
    if missing:
        raise AnsibleActionFail(
            f"Nothing was changed. --tags names {' and '.join(missing)}, which this playbook does "
            f"not apply. It applies {', '.join(here)}. tpu.fleet.site applies all roles, with the "
            "same --tags and --limit."
        )
    return without(roles_asked_for(here, tags), given["ansible_skip_tags"])


def _tags(given: Mapping[str, Any]) -> list[str]:
    return [tag for tag in given["ansible_run_tags"] if tag != "all"]


def prepare(
    action: Any,
    hosts: Sequence[str],
    roles: Sequence[str],
    options: Mapping[str, Any],
    given: Mapping[str, Any],
) -> tuple[list[Order], list[Target]]:
    """Return what each host is sent, and its address; `given` are the variables of the task."""
    common = replace(
        common_of(action, roles, options, given, secret_options()),
        check=bool(action._task.check_mode),
        diff=bool(action._task.diff),
        tags=parts_of(roles, _tags(given)),
        skip_tags=skips_of(roles, given["ansible_skip_tags"]),
        # What is named is applied in any case: a remedy of the doctor names what to apply again.
        forced=options["forced"] or bool(_tags(given)),
    )
    orders, targets = [], []
    for one in each(action, hosts, roles, given):
        made = order(one.host, one.given, one.tools, common)
        orders.append(replace(made, address=str(one.values.read("tpu_vm_internal_ip") or "")))
        targets.append(_target(one.host, one.values))
    return orders, targets


def common_of(
    action: Any,
    roles: Sequence[str],
    options: Mapping[str, Any],
    given: Mapping[str, Any],
    secret: frozenset[str],
) -> Common:
    """Return the part that is the same for all hosts to which whole roles are applied."""
    return Common(
        roles=roles,
        code=apply_bundle.collection(),
        secret=secret,
        snapshots=_snapshots(action._templar, given) if "code_checkout" in roles else {},
        every=options.get("every", ""),
    )


@dataclass(frozen=True)
class Each:
    """What the controller prepares for one host."""

    host: str
    values: Values
    given: Given
    tools: dict[str, Any]

    @property
    def ours(self) -> list[str]:
        """Return the names of the variables that a user has declared."""
        return [name for name in self.values.raw if is_ours(name)]


def each(
    action: Any, hosts: Sequence[str], roles: Sequence[str], given: Mapping[str, Any]
) -> Iterator[Each]:
    """Return this for each host; `given` are the variables of the task."""
    reader = Reader(roles)
    for host, values in _each(action, hosts, given):
        yield Each(host, values, reader.given(values), reader.tools(values))


def _each(
    action: Any, hosts: Sequence[str], given: Mapping[str, Any]
) -> Iterator[tuple[str, Values]]:
    own = given["hostvars"].raw_get(given["inventory_hostname"])
    # Variables of the play or the task, which are the same for all hosts.
    more = {n: v for n, v in given.items() if is_ours(n) and (n not in own or own[n] != v)}
    known: dict[Any, Any] = {}
    for host in hosts:
        raw = {**given["hostvars"].raw_get(host), **more, "hostvars": given["hostvars"]}
        raw["fleet_own_slice"] = raw.get("tpu_vm_name", host)
        yield host, Values(raw, action._loader, known)


def _snapshots(templar: Templar, given: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the archives of code that comes from folders on the controller."""
    trees = templar.template(either(given, "code_checkout_trees", []))
    folder = templar.template(given.get("code_checkout_snapshot_dir", ""))
    found = {}
    for tree in trees:
        if tree.get("local_path"):
            for name in (f"{tree['name']}.tar.gz", f"{tree['name']}.json"):
                path = Path(folder) / name
                if path.is_file():
                    found[name] = path.read_bytes()
    return found


class Reader:
    """Reads and evaluates the variables of hosts."""

    def __init__(self, roles: Sequence[str]) -> None:
        self._roles = roles
        # Nearly all hosts have the same templates, so evaluated values are shared.
        self._uses: dict[str, dict[str, list[str]]] = {}

    def given(self, values: Values) -> Given:
        """Return the variables that a host is sent."""
        ours = {name: value for name, value in values.raw.items() if is_ours(name)}
        uses = self._uses_of(ours)
        names = {name for used in uses.values() for name in used}
        here = apply_variables.controllers_own({name: ours[name] for name in names})
        templates, plain = {}, {}
        for name in sorted(names):
            if name in here:
                try:
                    plain[name] = simple(values.evaluated(ours[name]))
                except AnsibleError:
                    # The role that uses it reports the part that cannot be evaluated.
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

    def tools(self, values: Values) -> dict[str, Any]:
        """Return how a host gets Python and packages."""
        options = options_of("python_env")
        names = {name: f"python_env_{name}" for name in TOOLS}
        told = {
            name: simple(values.read(written(long, values.raw), options[long]["default"]))
            for name, long in names.items()
        }
        return {
            **told,
            "uv_dir": "/opt/tpu-fleet/uv",
            "usual_index": usual_index(),
            "shared_cache_url": "",
            "torch_index_url": "",
        }


def short(names: Sequence[str]) -> list[str]:
    """Return the names that roles have in this collection."""
    found = [name.removeprefix("tpu.fleet.") for name in names]
    missing = sorted(set(found) - set(role_names()))
    if missing:
        raise AnsibleActionFail(f"This collection has no role {missing[0]!r}.")
    return found


def _target(host: str, values: Values) -> Target:
    return target_by(
        host, lambda name: values.read(name) if values.raw.get(name) is not None else None
    )


def show(host: str, said: dict[str, Any]) -> bool:
    """Show a message of a host, if the verbosity asks for it; return whether anything was shown."""
    lines = [line for line in lines_of(host, said) if display.verbosity >= line[2]]
    for text, colour, _verbosity in lines:
        display.display(text, color=colour or None)
    return bool(lines)
