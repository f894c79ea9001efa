# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files from which the agent on a machine reads what to stage. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.in_zone import in_zone
from ..._host.dataset_place import UNIT
from ..._host.state import as_json
from ..dataset_paths import id_of, path_of
from ..here import on_slice

CONFIG = "/etc/tpu-fleet/datasets.json"
KEY = "/etc/tpu-fleet/datasets.key"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
RECORD = "/var/lib/tpu-fleet/datasets.json"
_TEXT = """\
# Managed by tpu.fleet (role dataset).
[Unit]
Description=Data sets, downloaded once for the slice
After=network-online.target remote-fs.target local-fs.target
Wants=network-online.target

[Service]
ExecStart=/usr/bin/python3 -I /opt/tpu-fleet/tpu_fleet_datasets.py
# Authorities and proxies of the machine.
EnvironmentFile=-/etc/environment
# So that its state is the same before and after all is staged.
RemainAfterExit=yes
Restart=on-failure
RestartSec=20
NoNewPrivileges=yes
Nice=5
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""


def here(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the data sets of this machine as the agent takes them."""
    return [
        {
            "name": entry["name"],
            "id": id_of(entry),
            "source": in_zone(entry["from"], settings["zone"]),
            "path": path_of(entry),
            "size": entry["size"],
            **{
                key: entry[key]
                for key in ("user", "sha256", "include", "secrets")
                if entry.get(key)
            },
        }
        for entry in on_slice(settings["datasets"], settings["slice"])
    ]


def files(settings: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Return content and permissions of each file by its path; an empty one is removed."""
    datasets = here(settings)
    config = {
        "datasets": datasets,
        "hosts": settings["slice_hosts"],
        "worker": settings["worker_index"],
        "port": settings["port"],
        "hub": settings["hub_url"],
    }
    record = {entry["name"]: entry["path"] for entry in datasets}
    key = settings.get("key") or ""
    return {
        CONFIG: (as_json(config) if datasets else "", 0o644),
        KEY: (f"{key}\n" if key and datasets else "", 0o600),
        UNIT_FILE: (_TEXT if datasets else "", 0o644),
        RECORD: (as_json(record) if datasets else "", 0o644),
    }
