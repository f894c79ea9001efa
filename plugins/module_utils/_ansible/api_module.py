# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared code of all API modules. The only client code that uses Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.common.parameters import env_fallback
from ansible.module_utils.common.yaml import HAS_YAML, yaml_load

from .._core.errors import TpuError
from .._core.wait import Backoff
from .._google.apis import SERVICES
from .._tpu.client import (
    DEFAULT_ENDPOINT,
    ENDPOINT_ENV,
    IMPERSONATE_ENV,
    PROJECT_ENVS,
    TOKEN_ENV,
    AuthOptions,
    Client,
)
from .._tpu.node_apply import only_changed
from .._wire import auth as _auth

Spec = dict[str, dict[str, Any]]
# What an argument spec takes of a documented option, besides its suboptions.
SPECIFIED = ("type", "elements", "required", "choices", "default")

# Each entry has its option in the documentation fragment "gcp".
API_SPEC: Spec = {
    "project": {"type": "str", "fallback": (env_fallback, list(PROJECT_ENVS))},
    "api_endpoint": {"type": "str", "fallback": (env_fallback, [ENDPOINT_ENV])},
    "access_token": {"type": "str", "no_log": True, "fallback": (env_fallback, [TOKEN_ENV])},
    "service_account_file": {"type": "path"},
    "impersonate_service_account": {"type": "str", "fallback": (env_fallback, [IMPERSONATE_ENV])},
}
# These in the fragment "google_apis".
ENDPOINTS_SPEC: Spec = {
    f"{name}_endpoint": {"type": "str", "fallback": (env_fallback, [service.env])}
    for name, service in SERVICES.items()
}
# These in the fragment "google_apis.owned".
OWNED_SPEC: Spec = {
    "owner": {"type": "str"},
    "adopt": {"type": "bool", "default": False},
}
# This one in the fragment "node.zone".
ZONE_SPEC: Spec = {
    "zone": {
        "type": "str",
        "required": True,
        "fallback": (env_fallback, ["CLOUDSDK_COMPUTE_ZONE"]),
    },
}
# And here in the fragment "wait".
WAIT_SPEC: Spec = {
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 1800},
    "wait_sleep": {"type": "float", "default": 2.0},
}


def spec_of(documentation: str, *more: Spec) -> Spec:
    """Return the argument spec of documented options, with more that is not in this text."""
    if not HAS_YAML:
        _WithoutYaml(argument_spec={}).fail_json("")
    spec = _specified(yaml_load(documentation)["options"])
    for extra in more:
        for name, entry in extra.items():
            spec[name] = {**spec.get(name, {}), **entry}
    return spec


def api_module(documentation: str, *more: Spec, **rules: Any) -> AnsibleModule:
    """Return a module with the options of its documentation and those of all API modules."""
    spec = spec_of(documentation, API_SPEC, *more)
    return AnsibleModule(argument_spec=spec, supports_check_mode=True, **rules)


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


def run(module: AnsibleModule, execute: Callable[[AnsibleModule, Client], dict[str, Any]]) -> None:
    """Run a module with a client, turn its errors into failures, return its result."""
    try:
        result = execute(module, client_of(module))
    except TpuError as error:
        fail(module, error)
        return
    module.exit_json(**result)


def client_of(module: AnsibleModule) -> Client:
    """Return the client that the module's options describe."""
    endpoint = module.params["api_endpoint"] or DEFAULT_ENDPOINT
    _require_libraries(module, endpoint, auth_of(module.params))
    return client_from(module.params)


def client_from(params: Mapping[str, Any]) -> Client:
    """Return the client for these options."""
    endpoint = params["api_endpoint"] or DEFAULT_ENDPOINT
    endpoints = {name: params.get(f"{name}_endpoint") for name in SERVICES}
    project = params["project"] or ""
    return Client(project, endpoint=endpoint, auth=auth_of(params), endpoints=endpoints)


def auth_of(params: Mapping[str, Any]) -> AuthOptions:
    """Return the credentials that a module's options name."""
    return AuthOptions(
        access_token=params["access_token"] or None,
        service_account_file=params["service_account_file"] or None,
        impersonate_service_account=params["impersonate_service_account"] or None,
    )


def fail(module: AnsibleModule, error: TpuError) -> None:
    """End the module with an error as a message and as data."""
    module.fail_json(**failure(error))


def failure(error: TpuError) -> dict[str, Any]:
    """Return an error as a message and as data."""
    data = error.to_dict()
    data.pop("message")
    return {"msg": str(error), **data}


def diff_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what changes, as --diff shows it: only the keys that differ."""
    have, want = only_changed(dict(before), dict(after))
    return {"before": have, "after": want}


def poll_of(module: AnsibleModule) -> Backoff:
    """Return the pauses between polls that the module's options set."""
    first = max(0.05, float(module.params["wait_sleep"]))
    return Backoff(first=first, factor=1.5, most=max(20.0, first))


def _require_libraries(module: AnsibleModule, endpoint: str, auth: AuthOptions) -> None:
    if not _auth.HAS_REQUESTS:
        module.fail_json(msg=missing_required_lib("requests"))
    needs_google_auth = _auth.destination(endpoint) == "google" and not auth.access_token
    if needs_google_auth and not _auth.HAS_GOOGLE_AUTH:
        module.fail_json(msg=missing_required_lib("google-auth"))
