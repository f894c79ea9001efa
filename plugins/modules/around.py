# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: around
short_description: Manage the resources around the slices
version_added: 0.1.0
description:
  - Runs the module of one part for each entry that the variables of the play declare. It is a
    part of the playbooks of this collection, and may change with them; the modules themselves are
    public.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  part:
    description:
      - V(services) are the APIs that C(fleet_services) names and those that all the rest needs, by
        M(tpu.fleet.project_service).
      - V(service_account) is C(fleet_service_account), by M(tpu.fleet.service_account).
      - V(project_keys) is C(fleet_project_keys), by M(tpu.fleet.project_ssh_key).
      - V(firewall) is C(fleet_mosh), by M(tpu.fleet.firewall_rule).
      - V(disks) is C(fleet_disks), attached to those of their slices that are there, by
        M(tpu.fleet.disk). The slices that M(tpu.fleet.fleet) makes have their disks from then on.
      - V(buckets) is C(fleet_checkpoint_buckets) and the bucket of C(fleet_queue), with access for
        the accounts of their slices and the people of the queue, by M(tpu.fleet.bucket).
    type: str
    choices: [services, service_account, project_keys, firewall, disks, buckets]
    required: true
  seen:
    description:
      - With O(part=firewall), the addresses from which slices see this computer come. It takes the
        place of C(source_ranges), if it is one.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows what changes.
    support: full
"""

EXAMPLES = r"""
- name: Keep the data disks
  tpu.fleet.around:
    part: disks
"""

RETURN = r"""
results:
  description: What each module returned, in the order of the fleet file.
  type: list
  elements: dict
  returned: always
told:
  description: What to know of it, in sentences.
  type: list
  elements: str
  returned: always
"""
