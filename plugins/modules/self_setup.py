#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: self_setup
short_description: Publish the declared state for machines that set themselves up
version_added: 0.1.0
description:
  - Writes into a bucket or a share what the machines of slices need to set themselves up at boot
    without a controller, as C(docs/self-setup.md) of the collection describes it.
  - Files are named by the hash of their content, and only written when they are not there yet.
    One small file for each slice has its declared state; it is signed with the key that Ansible
    logs in with. No secrets are published, but the names of those in Google Secret Manager.
  - Only what was applied as a whole is published, and only slices of which all workers are in the
    play. Runs once for all machines of the play.
  - What is not given is taken from the variables of the play and of the fleet file.
extends_documentation_fragment:
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  place:
    description: Where, as C(fleet_self_setup) of the fleet file has it.
    type: dict
    required: true
  owner:
    description: Value of the label C(tpu-fleet) of the slices. Their machines compare it.
    type: str
    default: managed
  slices:
    description: Names of the slices that set themselves up.
    type: list
    elements: str
    required: true
  without:
    description: Machines of the play that are not as declared. Their slices are not published.
    type: list
    elements: str
    default: []
  roles:
    description: Names of roles of this collection, in the order in which they are applied.
    type: list
    elements: str
    required: true
  key:
    description: The private key to sign with. Its owner has to be admitted by the slices' metadata.
    type: path
    required: true
  agreed:
    description: RV(tpu.fleet.apply#module:shared) of the call that made the machines as declared.
    type: dict
    default: {}
  every:
    description: How often each machine looks by itself, as in M(tpu.fleet.apply).
    type: str
    default: ""
attributes:
  check_mode:
    description: It says what would be published.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Publish what the machines set themselves up with
  tpu.fleet.self_setup:
    place: {bucket: my-bucket/fleet}
    slices: [solo]
    roles: [host_base, user_accounts]
    key: ~/.ssh/tpu_fleet
"""

RETURN = r"""
published:
  description: Names of the slices whose declared state has changed.
  type: list
  elements: str
  returned: always
without:
  description: What has to be done without, by slice.
  type: dict
  returned: always
"""
