#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bucket
short_description: Create a bucket for checkpoints, with access for the slices' accounts
version_added: 0.2.0
description:
  - Creates or corrects a bucket whose settings suit checkpoints that rotate, and lets service
    accounts read and write objects there. Run it on the controller.
  - Access is given by the bucket's policy alone (uniform bucket-level access), and never to the
    public. Deleted objects are kept as long as O(soft_delete_duration) says, because they are
    billed. The class is V(STANDARD), there are no versions, and what uploads that never ended left
    is deleted after 7 days, in a new bucket also what is in the folder C(tmp/). No rule deletes
    checkpoints.
  - A bucket of the project that this collection did not make is used as it is. Its accounts get
    access, and a warning names the settings that differ; O(adopt=true) corrects them.
  - Names of buckets are the same for all of Google. A bucket of another project is not touched.
  - A bucket with contents is never deleted.
  - The policy is changed under its etag, so that no other change at the same moment is lost;
    bindings of others and conditions stay as they are.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.google_apis.owned
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the bucket, without C(gs://).
    type: str
    required: true
  state:
    description:
      - Whether the bucket exists. V(absent) deletes an empty one.
      - V(used) makes it if there is none, and otherwise only gives access. What the caller may not
        see or change there is a warning, also that it is another fleet's or project's.
    type: str
    choices: [present, used, absent]
    default: present
  location:
    description:
      - Region of the bucket, that of the slices. A bucket cannot move, so one that is elsewhere is
        an error with O(state=present), which needs a location.
    type: str
  accounts:
    description:
      - Service accounts that read and write there, by their e-mail addresses. V(default) is the
        project's default one, as which a slice of the Cloud TPU API acts that names no other.
      - They get C(roles/storage.objectUser) and C(roles/storage.legacyBucketReader) on the bucket.
        Access that others have stays.
    type: list
    elements: str
    default: []
  writers:
    description:
      - Others who get the same roles, as policies name them, such as C(user:alice@example.org) and
        C(group:lab@example.org).
    type: list
    elements: str
    default: []
  readers:
    description:
      - Those who get C(roles/storage.objectViewer) and C(roles/storage.legacyBucketReader).
    type: list
    elements: str
    default: []
  soft_delete_duration:
    description:
      - How long deleted objects are kept and billed, V(0s) or V(7d) to V(90d).
      - Google's own default, 7 days, keeps each deleted checkpoint for a week.
    type: str
    default: 0s
notes:
  - The caller needs the role C(roles/storage.admin) in the project.
seealso:
  - module: tpu.fleet.service_account
"""

EXAMPLES = r"""
- name: Make a bucket for the checkpoints
  tpu.fleet.bucket:
    name: lab-checkpoints
    location: us-central2
    accounts: [tpu-fleet@my-project.iam.gserviceaccount.com]

- name: Delete it when it is empty
  tpu.fleet.bucket:
    name: lab-checkpoints
    state: absent
"""

RETURN = r"""
bucket:
  description: The bucket, in check mode as it would be. Empty when there is none.
  returned: success
  type: dict
  sample:
    name: lab-checkpoints
    location: US-CENTRAL2
    storage_class: STANDARD
    uniform_access: true
    public_access_prevention: enforced
    soft_delete: 0s
    versioning: false
    unfinished_uploads: deleted after 7 days
    owner: managed
    access:
      default: [roles/storage.legacyBucketReader, roles/storage.objectUser]
actions:
  description: What was done, or in check mode what would be done, in order and with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {action: create, reason: there is no such bucket}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, carried_out, run
from ..module_utils._core.errors import BadRequest
from ..module_utils._google.apis import GoogleApis
from ..module_utils._google.bucket_apply import BucketApplier
from ..module_utils._google.bucket_plan import BucketSpec
from ..module_utils._schema.durations import seconds
from ..module_utils._tpu.client import Client


def spec_of(params: dict[str, Any]) -> BucketSpec:
    """Return the bucket that the options describe."""
    try:
        soft_delete = seconds(params["soft_delete_duration"])
    except ValueError as error:
        raise BadRequest(f"soft_delete_duration: {error}") from error
    return BucketSpec(
        name=params["name"],
        location=params["location"] or "",
        soft_delete=soft_delete,
        accounts=tuple(dict.fromkeys(params["accounts"])),
        owner=params["owner"],
        writers=tuple(dict.fromkeys(params["writers"])),
        readers=tuple(dict.fromkeys(params["readers"])),
    )


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the bucket what is wanted, or say what that would take."""
    params = module.params
    spec = spec_of(params)
    spec.check()
    applier = BucketApplier(GoogleApis(client), spec, params["adopt"])
    plans = {
        "present": applier.plan_present,
        "used": applier.plan_used,
        "absent": applier.plan_absent,
    }
    return carried_out(module, "bucket", applier, plans[params["state"]]())


def main() -> None:
    """Run the module."""
    run(
        api_module(DOCUMENTATION, required_if=[("state", "present", ["location"])]),
        execute,
    )


if __name__ == "__main__":
    main()
