#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_account
short_description: Create a service account with the least rights that training machines need
version_added: 0.1.0
description:
  - Creates a service account, grants it a few roles in the project and in named buckets, or deletes
    it with all of that. Run it on the controller.
  - A role that reaches everything (owner, editor, viewer), every bucket, or the rights of others is
    refused.
  - Only accounts whose description says C([tpu-fleet]) with its owner are changed or deleted; see
    O(adopt).
  - Policies are changed under their etag, so that no other change at the same moment is lost;
    bindings of others and conditions stay as they are.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.google_apis.owned
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  account_id:
    description: The part before the C(@) of the account's address.
    type: str
    default: tpu-fleet
  state:
    description: Whether the account exists.
    type: str
    choices: [present, absent]
    default: present
  display_name:
    description: A name for people.
    type: str
  description:
    description: A text for people; the owner is added to it.
    type: str
  roles:
    description: Roles in the project. The default lets machines write logs and metrics.
    type: list
    elements: str
    default: [roles/logging.logWriter, roles/monitoring.metricWriter]
  buckets:
    description: Buckets that the machines use. They must exist.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the bucket, without C(gs://).
        type: str
        required: true
      access:
        description:
          - V(read) gives C(roles/storage.objectViewer) on the bucket, V(write) gives
            C(roles/storage.objectUser). Both give C(roles/storage.legacyBucketReader), because
            programs such as Orbax ask for the bucket itself, too.
        type: str
        choices: [read, write]
        default: read
  purge:
    description:
      - Whether to remove roles in the project, and other access to the named buckets, that the
        options do not give. Without it the module only warns of such roles in the project.
    type: bool
    default: false
notes:
  - The creator of nodes that act as this account needs the role C(roles/iam.serviceAccountUser)
    on it.
  - With O(state=absent) name all O(buckets), or their policies keep a dead entry.
seealso:
  - module: tpu.fleet.tpu_vm
"""

EXAMPLES = r"""
- name: Make an account that can read the data and write checkpoints
  tpu.fleet.service_account:
    buckets:
      - name: lab-datasets
      - name: lab-checkpoints
        access: write
  register: machines

- name: Use it
  tpu.fleet.tpu_vm:
    name: solo
    zone: us-central2-b
    accelerator_type: v4-8
    service_account: "{{ machines.service_account.email }}"
"""

RETURN = r"""
service_account:
  description: The account, in check mode as it would be. Empty when there is none.
  returned: success
  type: dict
  sample:
    email: tpu-fleet@my-project.iam.gserviceaccount.com
    roles: [roles/logging.logWriter, roles/monitoring.metricWriter]
    buckets:
      lab-checkpoints: [roles/storage.legacyBucketReader, roles/storage.objectUser]
actions:
  description: What was done, or in check mode what would be done, in order and with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {action: create, reason: there is no such account}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, carried_out, run
from ..module_utils._google.apis import GoogleApis
from ..module_utils._google.service_account_apply import AccountApplier
from ..module_utils._google.service_account_plan import (
    BUCKET_ROLES,
    AccountSpec,
)
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the account what is wanted, or say what that would take."""
    params = module.params
    spec = AccountSpec(
        account_id=params["account_id"],
        project=client.project,
        display_name=params["display_name"],
        description=params["description"],
        roles=tuple(dict.fromkeys(params["roles"])),
        buckets=tuple((item["name"], BUCKET_ROLES[item["access"]]) for item in params["buckets"]),
        owner=params["owner"],
    )
    spec.check()
    applier = AccountApplier(GoogleApis(client), spec, params["adopt"], params["purge"])
    wants = applier.plan_absent if params["state"] == "absent" else applier.plan_present
    return carried_out(module, "service_account", applier, wants())


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
