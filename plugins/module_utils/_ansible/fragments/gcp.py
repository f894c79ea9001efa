# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Project, endpoint and credentials of whatever speaks with Google Cloud."""

from __future__ import annotations

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
      - If it is not given, the environment variable E(CLOUDSDK_AUTH_ACCESS_TOKEN)is used.
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
        E(CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT)is used.
    type: str
requirements:
  - PyYAML
  - requests
  - google-auth (for credentials other than O(access_token))
"""
