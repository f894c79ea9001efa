#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_doctor
short_description: Check this computer, the project and the connections to the workers
version_added: 0.1.0
description:
  - Looks at credentials, API, quota, grant and buckets, and tries to log in to every worker, all
    at once. Says of each thing whether it is well and what to do if it is not.
  - Changes nothing. Run it on the controller.
  - Project and endpoint are taken from the inventory file of the plugin P(tpu.fleet.tpu#inventory)
    if nothing else says them, also when the inventory itself could not be read.
  - What else is not given is taken from the fleet file, C(doctor_time_limit) from the play.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  hosts:
    description: The workers to look at. By default all of the inventory.
    type: list
    elements: str
  workers:
    description:
      - How the workers are reached. It is made of the inventory's variables; give it only when
        there are none.
      - Each with C(host), C(slice), C(address), C(port), C(user), C(key), C(arguments), C(type),
        C(runtime), C(reason), C(maintenance) and C(strict).
    type: list
    elements: dict
  allocations:
    description: The grant, as C(fleet_allocations) of the fleet file has it.
    type: raw
  slices:
    description: The slices, as C(fleet_slices) of the fleet file has them; for quotas.
    type: list
    elements: dict
    default: []
  budget:
    description: What the slices may cost, as C(fleet_budget) of the fleet file has it.
    type: dict
  zone:
    description: The zone of slices that name none.
    type: str
    default: ''
  buckets:
    description:
      - The buckets that slices use. Of those with checkpoints, soft delete, versions and lifecycle
        rules are looked at as well, and for their price the newest checkpoints.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the bucket., type: str, required: true}
      zones:
        description: Zones in which its slices may be, without those whose price is accepted.
        type: list
        elements: str
        default: []
      folders:
        description: What the names of checkpoints in it begin with.
        type: list
        elements: str
        default: []
      access:
        description: Of the queue's bucket, who needs access, by C(accounts), C(writers) and
          C(readers).
        type: dict
  notices:
    description:
      - Warnings about values of the fleet file, each with C(field), C(message) and C(remedy). By
        default those of M(tpu.fleet.fleet_check).
    type: list
    elements: dict
    default: []
  warn_before:
    description: How long before the end of an entry of the grant the doctor begins to warn.
    type: str
    default: 7d
  owner:
    description: Value of the label C(tpu-fleet) of this fleet's resources.
    type: str
    default: managed
  ssh_key:
    description: The key that Ansible logs in with.
    type: path
  time_limit:
    description: Seconds after which what has not answered is given up.
    type: float
    default: 20
seealso:
  - module: tpu.fleet.host_doctor
"""

EXAMPLES = r"""
- name: Look from here
  tpu.fleet.fleet_doctor:
    allocations: "{{ fleet_allocations }}"
  register: doctor

- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ doctor.findings | rejectattr('status', 'in', ['ok', 'skipped']) | list }}"
"""

RETURN = r"""
findings:
  description: One row of each thing that was looked at here, as M(tpu.fleet.host_doctor) has them.
  returned: always
  type: list
  elements: dict
workers:
  description: Such rows for each worker.
  returned: always
  type: dict
asked:
  description: The workers that were looked at, each with C(host) and C(slice).
  returned: always
  type: list
  elements: dict
reachable:
  description: The workers that let us in.
  returned: always
  type: list
  elements: str
"""

from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, auth_of
from ..module_utils._compute.quotas import quotas_of
from ..module_utils._core.errors import TpuError
from ..module_utils._core.wait import Backoff
from ..module_utils._doctor import remote
from ..module_utils._doctor.check import UNKNOWN, examine
from ..module_utils._doctor.controller import CHECKS, WORKER_CHECKS, ssh_case
from ..module_utils._doctor.probe import Probe, more_patient, probe_all
from ..module_utils._google.apis import GoogleApis
from ..module_utils._tpu.client import DEFAULT_ENDPOINT, Client
from ..module_utils._tpu.model import COMPUTE
from ..module_utils._wire.transport import RetryPolicy

# The doctor reports that a request fails now, not that it succeeds at the third try.
RETRY = RetryPolicy(tries=2, backoff=Backoff(first=0.3), busy_seconds=5, longest_pause=3)
MARGIN = 2.0
LOGIN = 10.0
# What the checks of this computer and the project need, beside the buckets.
LOOKS = ("credentials", "tools", "api", "compute_api", "grant", "quota", "compute_quota")


def probes_of(module: AnsibleModule, wanted: list[dict[str, Any]]) -> list[Probe]:
    """Return the looks at the project; without one there is nothing to ask."""
    params = module.params
    endpoint = params["api_endpoint"] or DEFAULT_ENDPOINT
    auth = auth_of(module.params)
    client = Client(params["project"] or "", endpoint=endpoint, auth=auth, retry=RETRY)
    apis = GoogleApis(client)
    grant = partial(remote.grant, client, params)
    limit = params["time_limit"]
    compute = [wish for wish in wanted if wish["api"] == COMPUTE]
    quotas = [one for wish in compute for one in quotas_of(wish["generation"], wish["tier"])]
    metrics = [one.metric for one in quotas]
    of_tpu = [
        Probe("api", partial(remote.api, client), limit),
        Probe("quota", partial(remote.quota, apis), limit),
    ]
    of_compute = [
        Probe("compute_api", partial(remote.compute, client), limit),
        Probe("compute_quota", partial(remote.compute_quota, apis, metrics), limit),
    ]
    return [
        # Without slices, the Cloud TPU API must be ready.
        *(of_tpu if len(compute) < len(wanted) or not wanted else []),
        *(of_compute if compute else []),
        Probe("grant", grant, limit),
        *(
            Probe(f"bucket {one['name']}", partial(remote.bucket, apis, one), limit)
            for one in params["buckets"]
        ),
    ]


def gather(
    module: AnsibleModule, wanted: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, str], str]:
    """Make all looks at once; the last part says why the project could not be asked at all."""
    params = module.params
    endpoint = params["api_endpoint"] or DEFAULT_ENDPOINT
    problem = ""
    probes = [
        Probe("credentials", partial(remote.credentials, endpoint, auth_of(module.params)), 15),
        Probe(
            "tools",
            partial(remote.tools, params["ssh_key"] or "", getattr(module, "ansible_version", "")),
            10,
        ),
    ]
    try:
        probes += probes_of(module, wanted)
    except TpuError as error:
        problem = str(error)
    limit = more_patient(LOGIN, params["time_limit"])
    for worker in params["workers"] or []:
        if not worker.get("reason") and worker.get("address"):
            name = f"login {worker['host']}"
            probes.append(Probe(name, partial(remote.login, worker, limit), limit))
    found, failed = probe_all(probes, max(5.0, params["time_limit"] - MARGIN))
    return found, failed, problem


def facts_of(
    module: AnsibleModule,
    wanted: list[dict[str, Any]],
    found: dict[str, Any],
    failed: dict[str, str],
    problem: str,
) -> dict[str, Any]:
    """Return what the checks of this computer and the project decide about."""
    params = module.params
    facts: dict[str, Any] = {name: found[name] for name in LOOKS if name in found}
    said_once = {"error": "", "declared": True, "warnings": [], "dead": [], "missing": []}
    said_once["metrics"] = []
    if problem:
        facts["api"] = {"error": problem, "remedy": "Name the project in the inventory file."}
        facts["compute_quota"] = said_once
    for api, quota in (("api", "quota"), ("compute_api", "compute_quota")):
        # What does not answer has been said once.
        if facts.get(api, {}).get("error"):
            facts["grant"] = facts[quota] = said_once
    facts["wanted"] = wanted
    facts["notices"] = params["notices"]
    facts["buckets"] = [
        found.get(f"bucket {one['name']}")
        or {**one, "location": "", "error": failed.get(f"bucket {one['name']}", problem)}
        for one in params["buckets"]
    ]
    facts[UNKNOWN] = {name: why for name, why in failed.items() if name not in facts}
    return facts


def worker_facts(
    worker: dict[str, Any], found: dict[str, Any], failed: dict[str, str]
) -> dict[str, Any]:
    """Return what the checks of the way to a worker decide about."""
    name = f"login {worker['host']}"
    login = found.get(name)
    if login is None and name in failed:
        login = {"code": 255, "said": failed[name]}
    texts = ("slice", "address", "user", "key", "type", "runtime", "reason", "maintenance")
    known = {field: str(worker.get(field) or "") for field in texts}
    return {"worker": {**known, "strict": bool(worker.get("strict", True)), "login": login}}


def main() -> None:
    """Run the module."""
    module = api_module(DOCUMENTATION)
    params = module.params
    wanted = remote.wanted(params["slices"], params["zone"], params["allocations"])
    found, failed, problem = gather(module, wanted)
    findings = examine(CHECKS, facts_of(module, wanted, found, failed, problem))
    workers, reachable, asked = {}, [], []
    for worker in module.params["workers"] or []:
        host = str(worker["host"])
        facts = worker_facts(worker, found, failed)
        workers[host] = [finding.to_dict() for finding in examine(WORKER_CHECKS, facts)]
        asked.append({"host": host, "slice": str(worker.get("slice") or host)})
        login = facts["worker"]["login"]
        if login is not None and not ssh_case(login["code"], login["said"]):
            reachable.append(host)
    module.exit_json(
        changed=False,
        findings=[finding.to_dict() for finding in findings],
        workers=workers,
        asked=asked,
        reachable=reachable,
    )


if __name__ == "__main__":
    main()
