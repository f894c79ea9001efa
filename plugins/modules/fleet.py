#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet
short_description: Create, change and delete the slices of a fleet, within the grant
version_added: 0.1.0
description:
  - Makes all slices of a fleet file what they should be, several at once.
  - Runs in Ansible itself, on the controller. C(become) and C(async) do not apply to it.
  - Looks at the project, makes a plan, acts, and looks again until every slice is there. Places
    without capacity are tried again, or others in turn; preempted slices and dead queued
    resources are deleted and created again.
  - Nothing is created that the grant does not hold, and nothing is changed or deleted that does not
    carry this fleet's label C(tpu-fleet).
  - It may be stopped at any moment and started again anywhere. What it needs to go on is in the
    fleet file and in the project itself.
  - While it waits, it prints one line for each slice at least every 30 seconds. In check mode it
    prints the plan.
  - Without O(slices), what is not given is taken from the variables of the play. They are the fleet
    file, and C(fleet_project), C(fleet_api_endpoint), C(fleet_scope), C(fleet_teardown),
    C(fleet_only), C(fleet_finish), C(fleet_wake), C(fleet_wait) and
    C(fleet_slice_timeout). O(rest_file) and O(lock_file) are in
    C(fleet_state_dir).
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  slices:
    description:
      - The slices, as C(fleet_slices) of the fleet file has them. Every key is explained in
        C(docs/fleet-file.md) of the collection.
      - Where it is not given, they are those of the fleet file, and so are O(disks), O(zone),
        O(allocations), O(prices), O(budget), O(warn_before), O(owner), O(self_setup), O(prune) and
        O(marks) where they are not given; each is taken from the variable of the play that says it.
    type: list
    elements: dict
    default: []
  disks:
    description:
      - The data disks to attach to the slices, as C(fleet_disks) of the fleet file has them. They
        are there already; M(tpu.fleet.disk) creates them.
    type: list
    elements: dict
    default: []
  zone:
    description: Zone of the slices that name none.
    type: str
  allocations:
    description:
      - What the grant holds, as C(fleet_allocations) of the fleet file has it, or V(unrestricted).
      - Without it nothing is created.
    type: raw
  prices:
    description:
      - What a chip costs for an hour, as C(fleet_prices) of the fleet file has it.
      - With it C(tpu-fleet plan) says what the slices will cost.
    type: list
    elements: dict
    default: []
  budget:
    description:
      - What the slices may cost, as C(fleet_budget) of the fleet file has it. The watcher counts;
        in check mode, what is spent and left is shown.
    type: dict
  warn_before:
    description: How long before the end of an allocation to warn.
    type: str
    default: 7d
  owner:
    description:
      - Value of the label C(tpu-fleet) that says whose a resource is. Two fleets in one project
        need two owners.
    type: str
    default: managed
  ssh_keys:
    description: Keys that every slice admits, as V(user:ssh-ed25519 AAAA... comment).
    type: list
    elements: str
    default: []
  self_setup:
    description:
      - Where machines find what they set themselves up with, as C(fleet_self_setup) of the fleet
        file has it. Slices with C(self_setup) need it.
    type: dict
  prune:
    description:
      - Whether to delete what carries this fleet's label and is not declared in O(slices). It is
        listed in any case.
    type: bool
    default: false
  expire:
    description:
      - Whether to delete slices whose grant has ended and whose C(on_grant_end) says V(delete).
        Data disks stay.
    type: bool
    default: false
  scope:
    description:
      - V(all) does everything.
      - V(expiry) only deletes what O(expire) deletes.
    type: str
    choices: [all, expiry]
    default: all
  teardown:
    description:
      - Names of declared slices to delete, with their queued resources. Data disks stay.
      - When it is given, nothing else is done.
    type: list
    elements: str
    default: []
  only:
    description:
      - Names of declared slices to look after. Others are not created, changed or deleted.
      - Empty for all slices.
    type: list
    elements: str
    default: []
  marks:
    description:
      - For each slice that may be put to rest a hash of its runs. A slice that rests stays so while
        its hash does.
    type: dict
    default: {}
  finish:
    description:
      - Declared slices to put to rest, by what their C(on_finish) says. Data disks stay.
      - When it is given, nothing else is done.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the slice.
        type: str
        required: true
      why:
        description: Why it is not needed any more, for people.
        type: str
        default: it was asked for
      ends:
        description: The ends of its runs for which it applies.
        type: str
        default: ''
      how:
        description:
          - Whether to stop or delete it, in place of its C(on_finish), because O(budget) is spent.
            It then rests until O(wake) names it, whatever becomes of its runs.
        type: str
        choices: [stop, delete]
  bad_chips:
    description:
      - Slices of which a worker's chips do not initialise, each with the C(uid) of its node, which
        is deleted and created again if the grant holds it. Another node of its name is left alone.
      - Each must say C(on_bad_chips=recreate).
    type: dict
    default: {}
  wake:
    description: Slices that rest and are wanted again, or V(all).
    type: list
    elements: str
    default: []
  rest_file:
    description:
      - A file of this computer that lists the resting slices, for users who may not read or write
        the project's metadata.
    type: path
  wait_for:
    description:
      - V(all) waits until all slices are there. It fails when one is missing in the end, and
        changes nothing when it is clear from the start that one cannot be created.
      - V(any) waits as long, succeeds when at least one slice is there, and warns of the others.
      - V(next) waits until one more is there than before, so that it can be set up while the others
        are still waited for. It is as content as V(any).
      - V(none) waits for nothing, as does O(wait=false), and is as content.
      - Names of slices, as a list or with commas, wait for these alone, and fail without them.
    type: raw
    default: all
  retry_sleep:
    description:
      - How many seconds to wait before a place that had no capacity is asked again. Later pauses
        grow up to twenty times as long.
    type: float
    default: 30
  lock_file:
    description:
      - A file that only one apply at a time may hold on this computer. Those on other computers are
        kept away by a label.
    type: path
"""

EXAMPLES = r"""
- name: Get the slices
  tpu.fleet.fleet:
    project: my-project
    allocations:
      - {zone: us-central2-b, generation: v4, tier: on_demand, chips: 32, ends: 2027-01-31}
      - {zone: europe-west4-a, generation: v6e, tier: spot, chips: 64, ends: 2027-01-31}
    slices:
      - name: main
        accelerator_type: v4-32
        zone: us-central2-b
      - name: cheap
        accelerator_types: [v6e-64, v6e-32]
        zone: europe-west4-a
        tier: spot

- name: Delete what the grant of the fleet file does not hold any more
  tpu.fleet.fleet:
    scope: expiry
"""

RETURN = r"""
plan:
  description: In check mode the plan, one line each; otherwise how every slice stands.
  returned: always
  type: list
  elements: str
  sample: ["+ create node main (v4-32, on demand) in us-central2-b: there is none"]
actions:
  description: What was done, or in check mode what would be done first.
  returned: always
  type: list
  elements: str
slices:
  description:
    - How each slice stands. RV(slices[].phase) is V(ready), V(ended) (its grant is over, or it
      rests after the end of its runs), V(coming), V(queued), V(waiting), V(clearing), V(unknown),
      V(refused), V(differs) or V(kept).
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the slice.
      type: str
    phase:
      description: How far it is.
      type: str
    text:
      description: The same in words, with the reason.
      type: str
    next_at:
      description: When it is asked for again.
      type: str
    tpu_vm:
      description: The node as M(tpu.fleet.tpu_vm) returns it; empty while there is none.
      type: dict
hosts:
  description: The workers of all slices that are there, by the names they have in the inventory.
  returned: always
  type: list
  elements: str
  sample: [solo, pair-w0, pair-w1]
awaited:
  description: The slices that O(wait_for) names.
  returned: always
  type: list
  elements: str
orphans:
  description: What carries the fleet's label and is not declared.
  returned: always
  type: list
  elements: str
"""
