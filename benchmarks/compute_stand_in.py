"""What `google.cloud.gcp_compute` needs for a measurement: the plugin, and an API that answers it.

The plugin comes from the package `ansible`, unpacked into a folder of its own. The one thing that
is changed in it is the address of the Compute API, which it has as a constant.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PACKAGE = "ansible==14.5.0"
GOOGLE = "https://www.googleapis.com"
PAGE = 500  # as many as the API gives at most
WORKERS_PER_SLICE = 8


def expressions(slice_name: str, worker: str) -> dict[str, Any]:
    """Return what people write to get the groups and variables that ours gives by itself."""
    return {
        "compose": {
            "ansible_host": "networkInterfaces[0].accessConfigs[0].natIP",
            "slice_name": slice_name,
            "worker_index": f"{worker} | int",
        },
        "groups": {
            "usable": "status == 'RUNNING'",
            "leaders": f"{worker} == '0'",
            "spot": "scheduling.provisioningModel == 'SPOT'",
        },
        "keyed_groups": [
            {"key": slice_name, "prefix": "slice"},
            {"key": "zone", "prefix": "zone"},
            {"key": "machineType", "prefix": "type"},
        ],
    }


# Of the instances below, and of groups that this collection makes.
EXPRESSIONS = expressions("labels.slice", "labels.worker")
OF_GROUPS = expressions("labels['tpu-fleet-slice']", "metadata['agent-worker-number']")


def instance(project: str, zone: str, index: int) -> dict[str, Any]:
    """Return one instance as the Compute API describes it."""
    number, worker = divmod(index, WORKERS_PER_SLICE)
    root = f"{GOOGLE}/compute/v1/projects/{project}"
    name = f"node-{number}-w{worker}"
    address = f"{index // 65536 % 256}.{index // 256 % 256}.{index % 256}"
    return {
        "kind": "compute#instance",
        "id": str(10**18 + index),
        "creationTimestamp": "2026-01-01T00:00:00.000-08:00",
        "name": name,
        "tags": {"items": ["tpu"], "fingerprint": "42WmSpB8rSM="},
        "machineType": f"{root}/zones/{zone}/machineTypes/ct4p-hightpu-4t",
        "status": "RUNNING",
        "zone": f"{root}/zones/{zone}",
        "canIpForward": False,
        "networkInterfaces": [
            {
                "kind": "compute#networkInterface",
                "network": f"{root}/global/networks/default",
                "subnetwork": f"{root}/regions/{zone[:-2]}/subnetworks/default",
                "networkIP": f"10.{address}",
                "name": "nic0",
                "accessConfigs": [
                    {
                        "kind": "compute#accessConfig",
                        "type": "ONE_TO_ONE_NAT",
                        "name": "external-nat",
                        "natIP": f"34.{address}",
                        "networkTier": "PREMIUM",
                    }
                ],
                "stackType": "IPV4_ONLY",
            }
        ],
        "disks": [
            {
                "kind": "compute#attachedDisk",
                "type": "PERSISTENT",
                "mode": "READ_WRITE",
                "source": f"{root}/zones/{zone}/disks/{name}",
                "deviceName": "persistent-disk-0",
                "index": 0,
                "boot": True,
                "autoDelete": True,
            }
        ],
        "metadata": {
            "kind": "compute#metadata",
            "fingerprint": "qXp8OoDmZcc=",
            "items": [{"key": "enable-oslogin", "value": "FALSE"}],
        },
        "serviceAccounts": [{"email": "default", "scopes": [f"{GOOGLE}/auth/cloud-platform"]}],
        "selfLink": f"{root}/zones/{zone}/instances/{name}",
        "scheduling": {
            "onHostMaintenance": "TERMINATE",
            "automaticRestart": False,
            "preemptible": True,
            "provisioningModel": "SPOT",
        },
        "cpuPlatform": "AMD Rome",
        "labels": {
            "tpu-fleet": "managed",
            "team": "vision",
            "slice": f"node-{number}",
            "worker": str(worker),
        },
        "labelFingerprint": "42WmSpB8rSM=",
        "startRestricted": False,
        "deletionProtection": False,
        "fingerprint": "MQbMpYXgjWE=",
    }


@contextlib.contextmanager
def compute_api(project: str, zone: str, count: int) -> Iterator[str]:
    """Answer aggregated lists of so many instances; give the address."""
    all_of_them = [instance(project, zone, index) for index in range(count)]
    pages: list[bytes] = []
    for start in range(0, count, PAGE):
        found = all_of_them[start : start + PAGE]
        page: dict[str, Any] = {
            "kind": "compute#instanceAggregatedList",
            "items": {f"zones/{zone}": {"instances": found}},
        }
        if start + PAGE < count:
            page["nextPageToken"] = str(len(pages) + 1)
        pages.append(json.dumps(page).encode())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            there = asked.path == f"/compute/v1/projects/{project}/aggregated/instances"
            number = int(parse_qs(asked.query).get("pageToken", ["0"])[0])
            body = pages[number] if there else b"{}"
            self.send_response(200 if there else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def collections(kept: Path, folder: Path, address: str) -> Path:
    """Return a folder of collections with the plugin, which asks the given address."""
    unpacked = kept / PACKAGE
    if not unpacked.exists():
        print(f"Getting {PACKAGE} …", file=sys.stderr)
        uv = Path(sys.executable).with_name("uv")
        trial = kept / "new"
        install = ("pip", "install", "--quiet", "--no-deps", "--target")
        argv: list[str | Path] = [uv, *install, trial, PACKAGE]
        subprocess.run(argv, check=True)
        trial.rename(unpacked)
    place = folder / "ansible_collections" / "google" / "cloud"
    shutil.copytree(unpacked / "ansible_collections" / "google" / "cloud", place)
    plugin = place / "plugins" / "inventory" / "gcp_compute.py"
    plugin.write_text(plugin.read_text().replace(f'"{GOOGLE}/compute', f'"{address}/compute'))
    return folder


def inventory_file(folder: Path, name: str, project: str, **options: Any) -> Path:
    """Write an inventory of the plugin."""
    path = folder / f"{name}.gcp.yml"
    basics = {
        "plugin": "google.cloud.gcp_compute",
        "projects": [project],
        "auth_kind": "accesstoken",
        "access_token": "nobody",
        "hostnames": ["name"],
    }
    path.write_text(json.dumps({**basics, **options}))
    return path
