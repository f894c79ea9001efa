# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Google's other APIs are, besides that of the TPUs."""

from __future__ import annotations

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
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE)is used.
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
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER)is used.
    type: str
  storage_endpoint:
    description:
      - Endpoint of the Storage API, with C(storage/v1/) at its end.
      - If it is not given, the environment variable
        E(CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE)is used.
    type: str
"""
