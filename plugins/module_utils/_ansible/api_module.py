# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared code of all API modules. The only client code that uses Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from .._core.errors import TpuError
from .._core.wait import Backoff
from .._google.apis import SERVICES
from .._google.change import Applier, Change
from .._tpu.client import (
    DEFAULT_ENDPOINT,
    AuthOptions,
    Client,
)
from .._tpu.node_apply import only_changed
from .._wire import auth as _auth
from .options import Spec, spec_of


def api_module(documentation: str, more: Spec | None = None, **rules: Any) -> AnsibleModule:
    """Return a module with the options of its documentation."""
    spec = spec_of(documentation, more)
    return AnsibleModule(argument_spec=spec, supports_check_mode=True, **rules)


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
    missing = missing_library(module.params)
    if missing:
        module.fail_json(msg=missing)
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


def carried_out(
    module: AnsibleModule, name: str, applier: Applier, changes: Sequence[Change]
) -> dict[str, Any]:
    """Carry the changes out, unless in check mode; return the result, the resource under a name."""
    for warning in applier.warnings:
        module.warn(warning)
    if not module.check_mode:
        for change in changes:
            change.apply()
    return {
        "changed": bool(changes),
        name: applier.after,
        "actions": [{"action": change.kind, "reason": change.why} for change in changes],
        "diff": diff_of(applier.before, applier.after),
    }


def warn_of_unread(module: AnsibleModule, zones: Sequence[str]) -> None:
    """Name the zones of which a list has nothing because they did not answer."""
    if zones:
        text = f"so what they have is unknown: {', '.join(zones)}"
        module.warn(f"These zones could not be asked, {text}")


def poll_of(params: Mapping[str, Any]) -> Backoff:
    """Return the pauses between polls that these options set."""
    first = max(0.05, float(params["wait_sleep"]))
    return Backoff(first=first, factor=1.5, most=max(20.0, first))


def missing_library(params: Mapping[str, Any]) -> str:
    """Return the error if a library is missing that these options need; empty if none is."""
    if not _auth.HAS_REQUESTS:
        return str(missing_required_lib("requests"))
    endpoint = params["api_endpoint"] or DEFAULT_ENDPOINT
    if _auth.HAS_GOOGLE_AUTH or params["access_token"]:
        return ""
    needs = _auth.destination(endpoint) == "google"
    return str(missing_required_lib("google-auth")) if needs else ""
