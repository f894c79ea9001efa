# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the fleet file that planner and watcher take, as options of the module fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils._ansible.options import Spec, spec_of
from ...module_utils._fleet.resting import REST_FILE, marks_of
from ...module_utils._fleet_file.fleet import PLANNED
from ...modules.fleet import DOCUMENTATION

OPTIONS = spec_of(DOCUMENTATION, {"ssh_keys": {"no_log": False}})
Template = Callable[[Any], Any]


def said_of(
    variables: Mapping[str, Any], template: Template, options: Iterable[str], **others: str
) -> dict[str, Any]:
    """Return the options that the variables fleet_<option> say, and others by their variables."""
    names = {**{option: f"fleet_{option}" for option in options}, **others}
    said = {option: template(variables.get(name)) for option, name in names.items()}
    return {option: value for option, value in said.items() if value is not None}


def files_in(state_dir: Any) -> dict[str, str]:
    """Return the options of the module that name files of the state folder; none without one."""
    if not state_dir:
        return {}
    return {"rest_file": f"{state_dir}/{REST_FILE}", "lock_file": f"{state_dir}/fleet.lock"}


def options_of(variables: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """Return the options that the variables of a play say; the module has the defaults."""

    def said(name: str) -> Any:
        return template(variables[name]) if name in variables else None

    options = {option: said(name) for option, name in PLANNED.items()}
    options["slices"] = options["slices"] or []
    options["marks"] = marks_of(
        said("fleet_runs") or [], options["slices"], said("fleet_code") or []
    )
    return {option: value for option, value in options.items() if value is not None}


def params_of(options: Mapping[str, Any], spec: Spec = OPTIONS) -> dict[str, Any]:
    """Return options as a module takes them, with its defaults; raise what is wrong."""
    result = ArgumentSpecValidator(spec).validate(options)
    if result.error_messages:
        raise AnsibleError(" ".join(result.error_messages))
    params: dict[str, Any] = result.validated_parameters
    return params
