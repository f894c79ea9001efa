#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: project_service
short_description: Enable Google Cloud APIs in a project
version_added: 0.1.0
description:
  - Enables APIs, by default that of Cloud TPU, and waits until it answers. Run it on
    the controller.
  - It never disables an API.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  names:
    description: Names of the APIs.
    type: list
    elements: str
    default: [tpu.googleapis.com]
notes:
  - The account needs the role C(roles/serviceusage.serviceUsageAdmin), and the project a billing
    account, even for a free grant.
"""

EXAMPLES = r"""
- name: Enable the TPU API
  tpu.fleet.project_service:

- name: Enable what disks and firewall rules need, too
  tpu.fleet.project_service:
    names: [tpu.googleapis.com, compute.googleapis.com]
"""

RETURN = r"""
services:
  description: The state of each API, in check mode as it would be.
  returned: success
  type: dict
  sample: {tpu.googleapis.com: ENABLED}
enabled:
  description: The APIs that were enabled now, or in check mode would be.
  returned: success
  type: list
  elements: str
"""

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, poll_of, run
from ..module_utils._core.errors import BadRequest, PermissionDenied, from_status
from ..module_utils._core.wait import Seen, wait_for
from ..module_utils._google.apis import GoogleApis
from ..module_utils._tpu.client import Client

TPU = "tpu.googleapis.com"
ENABLED = "ENABLED"


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Enable what is not enabled."""
    apis, names = GoogleApis(client), list(dict.fromkeys(module.params["names"]))
    for name in names:
        if not re.fullmatch(r"[a-z][-a-z0-9]*(\.[a-z][-a-z0-9]*)+", name):
            raise BadRequest(f"{name!r} is no name of an API.", remedy=f"Write it as {TPU}.")
    before = {name: _state(apis, name) for name in names}
    missing = [name for name in names if before[name] != ENABLED]
    if missing and not module.check_mode:
        for name in missing:
            _enable(module, apis, name)
        if TPU in missing and module.params["wait"]:
            _await_tpu(module, client)
    after = dict.fromkeys(names, ENABLED)
    return {
        "changed": bool(missing),
        "services": after,
        "enabled": missing,
        "diff": {
            "before": {name: before[name] for name in missing},
            "after": dict.fromkeys(missing, ENABLED),
        },
    }


def _state(apis: GoogleApis, name: str) -> str:
    answer = apis.transport("serviceusage").read(f"v1/projects/{apis.project}/services/{name}")
    return str(answer.get("state") or "DISABLED")


def _enable(module: AnsibleModule, apis: GoogleApis, name: str) -> None:
    path = f"v1/projects/{apis.project}/services/{name}:enable"
    begun = apis.repeat("serviceusage", "POST", path, {})
    if not module.params["wait"]:
        return

    def look(elapsed: float) -> Seen[bool]:
        now = begun
        if elapsed and not now.get("done"):
            now = apis.transport("serviceusage").read(f"v1/{begun['name']}")
        if now.get("error"):
            raise from_status(now["error"], path)
        return Seen("done" if now.get("done") else "running", bool(now.get("done")), True)

    _wait(module, apis, look, f"the API {name} to be enabled")


def _await_tpu(module: AnsibleModule, client: Client) -> None:
    """Wait until the API answers: it says that it is disabled for some minutes after."""

    def look(_elapsed: float) -> Seen[bool]:
        try:
            client.locations.list()
        except PermissionDenied as error:
            if error.flavour == "api_disabled":
                return Seen("still disabled")
        return Seen("answers", True, True)

    _wait(module, client, look, "the TPU API to answer")


def _wait(module: AnsibleModule, api: Any, look: Any, what: str) -> None:
    timeout = float(module.params["wait_timeout"])
    wait_for(look, what=what, timeout=timeout, clock=api.clock, backoff=poll_of(module.params))


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
