# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation that several modules share, from which they also take their options.

plugins/doc_fragments gives it to Ansible; a module that runs can import only from here.
"""

from __future__ import annotations


class Gcp:
    """Project, endpoint and credentials of whatever speaks with Google Cloud."""

    DOCUMENTATION = r"""
options:
  project:
    description:
      - The Google Cloud project, by its id.
      - If it is not given, the environment variables E(GOOGLE_CLOUD_PROJECT) and
        E(CLOUDSDK_CORE_PROJECT) are used.
    type: str
  api_endpoint:
    description:
      - Endpoint of the Cloud TPU API, with or without a slash at the end.
      - If it is not given, the environment variable E(CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU) is
        asked, as gcloud does. The default is Google's own endpoint.
      - Google credentials are sent to C(https://*.googleapis.com) only. An endpoint on this
        computer gets no token unless O(access_token) is given; any other endpoint with credentials
        is an error.
    type: str
  access_token:
    description:
      - A ready access token, used before any other credentials.
      - If it is not given, the environment variable E(CLOUDSDK_AUTH_ACCESS_TOKEN) is used.
    type: str
  service_account_file:
    description:
      - File with the key of a service account, used before the application default credentials.
      - Without any of these options, the application default credentials are used, and without
        those gcloud's own login.
    type: path
  impersonate_service_account:
    description:
      - E-mail address of a service account to act as.
      - If it is not given, the environment variable
        E(CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT) is used.
    type: str
requirements:
  - PyYAML
  - requests
  - google-auth (for credentials other than O(access_token))
"""


class GoogleApis:
    """Where Google's other APIs are, besides that of the TPUs."""

    DOCUMENTATION = r"""
options:
  compute_endpoint:
    description:
      - Endpoint of the Compute API, with C(compute/v1/) at its end.
      - If it is not given, the environment variable
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE) is used, as by gcloud. By default it is where
        O(api_endpoint) is, at Google or on this computer (a local cloud has all APIs on one port).
        The same holds for the other endpoints.
    type: str
  serviceusage_endpoint:
    description:
      - Endpoint of the Service Usage API.
      - If it is not given, the environment variable
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE) is used.
    type: str
  iam_endpoint:
    description:
      - Endpoint of the IAM API.
      - If it is not given, the environment variable E(CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM) is
        asked.
    type: str
  cloudresourcemanager_endpoint:
    description:
      - Endpoint of the Resource Manager API.
      - If it is not given, the environment variable
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER) is used.
    type: str
  storage_endpoint:
    description:
      - Endpoint of the Storage API, with C(storage/v1/) at its end.
      - If it is not given, the environment variable
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE) is used.
    type: str
"""

    OWNED = r"""
options:
  owner:
    description:
      - Owner label of the resource. A new resource gets V(managed) by default.
      - If it is given, what belongs to other owners is not touched.
    type: str
  adopt:
    description: Whether to change or delete what was not made by this collection.
    type: bool
    default: false
"""


_MACHINE = r"""
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
    description:
      - E-mail address of the account as which the machines act; each user there can get its token.
        The Cloud TPU API gives the project's default account if none is named.
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
      read_only:
        description: Whether it is attached read-only. Only such a disk can be shared by workers.
        type: bool
        default: false
      workers:
        description:
          - The workers that get it, by their numbers. Default all workers.
          - It is compared only where the API returns it.
        type: list
        elements: int
  boot_disk_size:
    description:
      - Size of each machine's boot disk in whole GiB, as V(200GiB), if the image's own is too
        small.
      - It is compared only where the API returns it.
    type: str
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


class Node:
    """What a TPU node is made of."""

    HARDWARE = r"""
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
"""

    DOCUMENTATION = HARDWARE + _MACHINE
    MACHINE = "options:\n" + _MACHINE

    ZONE = r"""
options:
  zone:
    description:
      - The zone.
      - If it is not given, the environment variable E(CLOUDSDK_COMPUTE_ZONE) is used.
    type: str
    required: true
"""


class Compute:
    """What a slice on Compute Engine is made of, and how it is asked for."""

    DOCUMENTATION = r"""
options:
  name:
    description: Its name, at most 63 lower case letters, digits and dashes, with a letter first.
    type: str
    required: true
  machine_type:
    description:
      - Machine type, as V(ct6e-standard-4t), of which the number before C(t) counts chips.
      - This or O(accelerator_type) is needed to create it.
    type: str
  accelerator_type:
    description:
      - Type of the hardware, as V(v6e-8), instead of O(machine_type). The number counts chips for
        v6e, and TensorCores, of which a chip has two, for v5p and TPU7x (V(v7x-8)).
      - V(v6e-8) is one C(ct6e-standard-8t). Two C(ct6e-standard-4t) have as many chips, so they
        need O(machine_type).
    type: str
  tier:
    description:
      - How the capacity is provided. What is new is V(on_demand) by default.
      - V(flex_start) waits for capacity, and lives for O(max_run_duration).
      - V(calendar) is taken from a reservation in calendar mode, and ends with it.
    type: str
    choices: [on_demand, spot, flex_start, reserved, calendar]
  max_run_duration:
    description:
      - How long it runs, as V(4h), V(90m) or V(2d). Afterwards Google deletes the machines with
        their boot disks if O(tier) is V(flex_start) or V(reserved), and stops them otherwise.
      - With V(flex_start) 10 minutes to 7 days, and V(7d) by default.
    type: str
  valid_for:
    description:
      - How long a V(flex_start) request may wait for capacity, as V(2h); what waits longer fails.
      - It is only used to create something.
    type: str
  reservation:
    description:
      - Name of the reservation, with O(tier=reserved). One of another project as
        V(projects/P/reservations/R). It may be one in calendar mode.
      - It is only used to create something.
    type: str
  boot_disk_size:
    description:
      - Size of each machine's boot disk in whole GiB, as V(200GiB). A new one has 100, because
        Compute Engine's own default of 10 GiB is full after the first installation.
    type: str
  description:
    description: A text for people. It is fixed at creation.
    type: str
  purge:
    description:
      - Options whose value is complete. What the machines have beyond it is removed. The values of
        these options are otherwise added, and what others put there stays.
      - V(metadata) leaves C(ssh-keys) alone, which V(ssh_keys) is for, and all that Google writes
        there, by which the workers of a slice know each other.
    type: list
    elements: str
    choices: [labels, metadata, tags, data_disks, ssh_keys]
    default: []
"""


class Wait:
    """How long a module waits for what it asked for."""

    DOCUMENTATION = r"""
options:
  wait:
    description:
      - Whether to wait until the wanted state is reached.
    type: bool
    default: true
  wait_timeout:
    description:
      - Maximum seconds to wait, over all steps.
    type: int
    default: 1800
  wait_sleep:
    description:
      - Seconds to wait before the second poll; later pauses grow up to 20 seconds, and
        each is shortened a little at random.
    type: float
    default: 2.0
"""
