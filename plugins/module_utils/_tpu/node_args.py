# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of modules that make nodes. Each is documented in the fragment "node"."""

from __future__ import annotations

from typing import Any

from .node_spec import DISK_MODES

NODE_ARGS: dict[str, dict[str, Any]] = {
    "accelerator_type": {"type": "str"},
    "accelerator_config": {
        "type": "dict",
        "options": {
            "type": {"type": "str", "required": True},
            "topology": {"type": "str", "required": True},
        },
    },
    "runtime_version": {"type": "str"},
    "network": {"type": "str"},
    "subnetwork": {"type": "str"},
    "external_ips": {"type": "bool"},
    "service_account": {"type": "str"},
    "description": {"type": "str"},
    "labels": {"type": "dict"},
    "metadata": {"type": "dict"},
    "startup_script": {"type": "str"},
    "ssh_keys": {"type": "list", "elements": "str", "no_log": False},
    "tags": {"type": "list", "elements": "str"},
    "data_disks": {
        "type": "list",
        "elements": "dict",
        "options": {
            "source_disk": {"type": "str", "required": True},
            "mode": {"type": "str", "choices": list(DISK_MODES), "default": "read_write"},
            "worker_ids": {"type": "list", "elements": "int"},
        },
    },
    "boot_disk_size_gb": {"type": "int"},
    "owner": {"type": "str"},
    "adopt": {"type": "bool", "default": False},
}
NODE_EXCLUSIVE = [("accelerator_type", "accelerator_config")]
