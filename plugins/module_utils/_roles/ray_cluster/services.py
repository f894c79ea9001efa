# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ray on a host as a service. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .. import services
from ..venv_paths import venv_path

Variables = Mapping[str, Any]


def plan(variables: Variables, _defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the host is in the cluster, its environment, and the service for it."""
    slices = variables["ray_cluster_slices"]
    here = bool(variables["ray_cluster_head"]) and (
        not slices or variables["ray_cluster_slice"] in slices
    )
    venv = venv_path(variables["ray_cluster_venv"], variables["ray_cluster_venvs"])
    service = _service(variables, venv or variables["ray_cluster_venv_path"]) if here else None
    token = variables["ray_cluster_token"]
    wanted = here and not venv
    packages = [f"ray[default]=={variables['ray_cluster_version']}"]
    packages += variables["ray_cluster_packages"]
    return {
        **services.own_venv("ray_cluster", variables, packages, wanted),
        "here": here,
        "settings": {
            **{
                key: variables[f"ray_cluster_{key}"] if here else ""
                for key in ("head", "head_address", "user")
            },
            "venv": service["venv"] if service else "",
            "packages": packages if wanted else [],
        },
        "services": [service] if service else [],
        "tokens": {service["name"]: token} if service and token else {},
    }


def _service(variables: Variables, venv: str) -> dict[str, Any]:
    head = variables["ray_cluster_host"] == variables["ray_cluster_head"]
    name = "ray" if head else "ray-worker"
    state, token = variables["ray_cluster_state_dir"], bool(variables["ray_cluster_token"])
    # Ray's folder with its sockets is open to all users, so the folder above it must not be.
    sessions = f"{state}/s"
    kept = str(variables["ray_cluster_keep_sessions"] + 1)
    remove_sessions = 'ls -1dt "$0"/session_2* 2> /dev/null | tail -n +"$1" | xargs -r rm -rf'
    sets = variables["ray_cluster_secrets"]
    return {
        "name": name,
        "description": f"Ray, {'head' if head else 'worker'} {variables['ray_cluster_host']}",
        "user": variables["ray_cluster_user"],
        "command": [
            *_command(variables, venv, sessions),
            *(_as_head(variables) if head else _as_worker(variables)),
            *_amounts(variables),
        ],
        "before_start": [["/bin/sh", "-c", remove_sessions, sessions, kept]],
        "private_folders": [state],
        "environment": {
            **services.search_path(venv),
            **_environment(variables),
            **(
                {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": f"{state}/gcs"}
                if head
                else {}
            ),
            **({"RAY_AUTH_TOKEN_PATH": f"/etc/tpu-fleet/services/{name}.token"} if token else {}),
            **variables["ray_cluster_env"],
        },
        "environment_files": [services.secret_file(secret) for secret in sets],
        "memory_max": variables["ray_cluster_memory_max"] or "",
        "hardening": True,
        "address": "127.0.0.1" if head else variables["ray_cluster_address"],
        "port": int(variables[f"ray_cluster_{'dashboard_port' if head else 'node_ports'}"]),
        "loopback_only": head,
        "venv": venv,
        "restart_on_upgrade": True,
        "patience": 1000,
        "needs": services.needs(venv, "ray", "ray[default]", sets),
        "keep_token": token,
        "facts": {"kind": name, "url_path": "/", "login": token, "head": _head(variables)},
    }


def _head(variables: Variables) -> str:
    return f"{variables['ray_cluster_head_address']}:{variables['ray_cluster_port']}"


def _command(variables: Variables, venv: str, sessions: str) -> list[str]:
    ports = int(variables["ray_cluster_node_ports"])
    first, last = variables["ray_cluster_worker_ports"].split("-")
    return [
        *(f"{venv}/bin/ray", "start", "--block", "--disable-usage-stats", "--log-style", "record"),
        *("--node-ip-address", variables["ray_cluster_address"]),
        *("--node-manager-port", str(ports)),
        *("--object-manager-port", str(ports + 1)),
        *("--runtime-env-agent-port", str(ports + 2)),
        *("--dashboard-agent-grpc-port", str(ports + 3)),
        *("--dashboard-agent-listen-port", str(ports + 4)),
        *("--metrics-export-port", str(ports + 5)),
        *("--min-worker-port", first),
        *("--max-worker-port", last),
        *("--temp-dir", sessions),
    ]


def _as_head(variables: Variables) -> list[str]:
    return [
        *("--head", "--port", str(variables["ray_cluster_port"])),
        *("--ray-client-server-port", str(int(variables["ray_cluster_node_ports"]) + 6)),
        *("--include-dashboard", "true", "--dashboard-host", "127.0.0.1"),
        *("--dashboard-port", str(variables["ray_cluster_dashboard_port"])),
    ]


def _as_worker(variables: Variables) -> list[str]:
    return ["--address", _head(variables)]


def _amounts(variables: Variables) -> list[str]:
    """Return the resources of the machine that Ray does not detect itself."""
    resources = dict(variables["ray_cluster_resources"])
    chips, cpus = variables["ray_cluster_chips"], variables["ray_cluster_cpus"]
    store = variables["ray_cluster_object_store_size"]
    if int(chips or 0) > 0:
        resources["TPU"] = int(chips)
    return [
        *(("--resources", json.dumps(resources, sort_keys=True)) if resources else ()),
        *(("--num-cpus", str(cpus)) if cpus is not None else ()),
        *(("--object-store-memory", str(store)) if store else ()),
    ]


def _environment(variables: Variables) -> dict[str, str]:
    seconds = variables["ray_cluster_start_timeout"]
    return {
        "RAY_AUTH_MODE": "token" if variables["ray_cluster_token"] else "disabled",
        "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": str(seconds),
        "RAY_agent_register_timeout_ms": str(seconds * 1000),
        "RAY_gcs_server_port_wait_time_s": str(seconds),
        "TPU_ACCELERATOR_TYPE": variables["ray_cluster_accelerator_type"],
        "TPU_NAME": variables["ray_cluster_slice"],
        "TPU_WORKER_ID": str(variables["ray_cluster_worker_index"]),
    }
