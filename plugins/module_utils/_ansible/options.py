# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of modules, as their documentation describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.common.parameters import env_fallback
from ansible.module_utils.common.yaml import HAS_YAML, yaml_load

from .._google.apis import SERVICES
from .._tpu.client import ENDPOINT_ENV, IMPERSONATE_ENV, PROJECT_ENVS, TOKEN_ENV
from .fragments import Compute, Gcp, GoogleApis, Node, Wait

Spec = dict[str, dict[str, Any]]
# What an argument spec takes of a documented option, besides its suboptions.
SPECIFIED = ("type", "elements", "required", "choices", "default")


def from_environment(*variables: str) -> dict[str, Any]:
    """Return where an option is read from when it is not given: documentation cannot say that."""
    return {"fallback": (env_fallback, list(variables))}


ZONE = {"zone": from_environment("CLOUDSDK_COMPUTE_ZONE")}
# Each fragment of documentation, and what it cannot say of its options.
FRAGMENTS: dict[str, tuple[str, Spec]] = {
    "tpu.fleet.gcp": (
        Gcp.DOCUMENTATION,
        {
            "project": from_environment(*PROJECT_ENVS),
            "api_endpoint": from_environment(ENDPOINT_ENV),
            "access_token": {"no_log": True, **from_environment(TOKEN_ENV)},
            "impersonate_service_account": from_environment(IMPERSONATE_ENV),
        },
    ),
    "tpu.fleet.google_apis": (
        GoogleApis.DOCUMENTATION,
        {f"{name}_endpoint": from_environment(service.env) for name, service in SERVICES.items()},
    ),
    "tpu.fleet.google_apis.owned": (GoogleApis.OWNED, {}),
    "tpu.fleet.node": (Node.DOCUMENTATION, {"ssh_keys": {"no_log": False}}),
    "tpu.fleet.node.machine": (Node.MACHINE, {"ssh_keys": {"no_log": False}}),
    "tpu.fleet.compute": (Compute.DOCUMENTATION, {}),
    "tpu.fleet.node.zone": (Node.ZONE, ZONE),
    "tpu.fleet.wait": (Wait.DOCUMENTATION, {}),
}


def spec_of(documentation: str, more: Spec | None = None) -> Spec:
    """Return the argument spec of documented options, with more that documentation cannot say."""
    if not HAS_YAML:
        _WithoutYaml(argument_spec={}).fail_json("")
    documented = yaml_load(documentation)
    names: Sequence[str] = documented.get("extends_documentation_fragment", ())
    spec: Spec = {}
    for part in (
        *(spec_of(*FRAGMENTS[name]) for name in names if name in FRAGMENTS),
        _specified(documented["options"]),
        more or {},
    ):
        for option, entry in part.items():
            spec[option] = {**spec.get(option, {}), **entry}
    return spec


class _WithoutYaml(AnsibleModule):
    """A module whose options cannot be read: whatever it finds wrong, that is the reason."""

    def fail_json(self, msg: str, **more: Any) -> NoReturn:
        """Say what is missing."""
        super().fail_json(msg=missing_required_lib("PyYAML"), **more)


def _specified(options: Mapping[str, Any]) -> Spec:
    spec = {}
    for name, option in options.items():
        spec[name] = {key: option[key] for key in SPECIFIED if key in option}
        if "suboptions" in option:
            spec[name]["options"] = _specified(option["suboptions"])
    return spec
