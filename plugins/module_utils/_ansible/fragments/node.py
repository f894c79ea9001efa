# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a TPU node is made of."""

from __future__ import annotations

DOCUMENTATION = r"""
options:
  accelerator_type:
    description:
      - Type of the hardware, as V(v4-8).
      - Needed to create a node, unless O(accelerator_config) is given.
    type: str
  accelerator_config:
    description: Generation and shape of the hardware, instead of O(accelerator_type).
    type: dict
    suboptions:
      type:
        description: Generation as the API writes it, as V(V4).
        type: str
        required: true
      topology:
        description: Shape in chips, as V(2x2x2).
        type: str
        required: true
  runtime_version:
    description:
      - Image of the machines. By default the one that Google names for the generation.
      - A version that is known not to fit the hardware is refused.
    type: str
  network:
    description: Network of the machines. A new node is in C(default) by default.
    type: str
  subnetwork:
    description: Subnetwork of the machines.
    type: str
  external_ips:
    description: Whether the machines have external addresses. A new node's do by default.
    type: bool
  service_account:
    description: E-mail address of the service account that the machines act as.
    type: str
  description:
    description: A text of at most 512 characters.
    type: str
  labels:
    description: Labels of the node.
    type: dict
  metadata:
    description:
      - Metadata of the node.
      - A new node also gets C(enable-guest-attributes), through which its ssh host keys are read.
    type: dict
  startup_script:
    description:
      - Program that each machine runs as root at each boot; the metadata key C(startup-script).
    type: str
  ssh_keys:
    description:
      - Lines C(USER:TYPE KEY COMMENT) of the metadata key C(ssh-keys). The machines make the users
        and let them log in.
    type: list
    elements: str
  tags:
    description: Network tags of the node.
    type: list
    elements: str
  data_disks:
    description: Disks to attach.
    type: list
    elements: dict
    suboptions:
      source_disk:
        description: Name of the disk, or its full name C(projects/P/zones/Z/disks/D).
        type: str
        required: true
      mode:
        description: How it is attached. Several workers can only share a disk that is V(read_only).
        type: str
        choices: [read_write, read_only]
        default: read_write
      worker_ids:
        description:
          - The workers that get it, by their numbers. Default all workers.
          - It is compared only where the API returns it.
        type: list
        elements: int
  boot_disk_size_gb:
    description:
      - Size of each machine's boot disk in GB, if the image's own is too small.
      - It is compared only where the API returns it.
    type: int
  owner:
    description:
      - The owner, the value of the label C(tpu-fleet). What is new gets V(managed) if nothing is
        said.
      - If it is given, resources of other owners are not touched.
    type: str
  adopt:
    description: Whether to change or delete resources without the label C(tpu-fleet).
    type: bool
    default: false
"""
