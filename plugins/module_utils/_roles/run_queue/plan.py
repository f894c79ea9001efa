# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a worker needs to serve the queue: settings, the keys of people, the unit. No I/O."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ..._core.checkpoints import bucket_and_folder
from ..._schema.accelerators import parse
from ..._schema.durations import seconds_in
from ..here import is_on
from ..training_run.definition_text import text_of

FOLDER = "/etc/tpu-fleet/queue"
UNIT = "/etc/systemd/system/tpu-fleet-queue.service"
# Of the agents of all submitted and declared runs.
_DROP_IN = "/etc/systemd/system/tpu-fleet-run@.service.d/queue.conf"
NAMESPACE = "tpu-fleet-queue"
"""What a person's signature under a definition is for; under anything else it is for nothing."""
DEFAULT_EVERY = "5m"
# The ports of the run agents' gangs are the 20 before it.
_PORTS_OF_RUNS = 20
# What a submitted run on this slice must not take: the names and ports of declared ones.
_OF_DECLARED = ("name", "slices", "multislice", "peer_port")
# Variables of role training_run that this role has under its own name.
_OF_RUNS = ("lost_after", "log_size", "log_files", "metadata_url", "peer_port_base", "port_base")
_KEY = re.compile(
    r"(?:^|\s)((?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+|sk-[a-z0-9-]+@openssh\.com)"
    r"\s+[A-Za-z0-9+/]+=*)"
)
_UNIT = """\
[Unit]
Description=Queue of submitted runs
Documentation=https://github.com/tpu-fleet/tpu.fleet
After=network-online.target nss-user-lookup.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/bin/python3 -I /opt/tpu-fleet/tpu_fleet_queue.py agent
Restart=always
RestartSec=2
# At the end of a machine it gives its run back.
TimeoutStopSec=45
KillMode=mixed

[Install]
WantedBy=multi-user.target
"""
# At a shutdown runs end before the queue agent, which then writes how far they came.
_AFTER = "[Unit]\nAfter=tpu-fleet-queue.service\n"


def plan(variables: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role puts on a machine.

    `variables` are those of the role; `defaults` has the defaults of the keys of a run.
    """
    own = {name.removeprefix("run_queue_"): value for name, value in variables.items()}
    queue = own["queue"] or {}
    place = bucket_and_folder(str(queue.get("bucket")))
    serves = place is not None and is_on(queue, own["slice"])
    settings = text_of(_settings(own, queue, defaults)) if serves else ""
    return {
        "serves": serves,
        "address": queue.get("bucket") or "",
        "unit": UNIT,
        "settings": settings,
        "secret_files": _secret_files(settings, own["key"]) if serves else [],
        "files": _files(own) if serves else _gone_files(),
    }


def _settings(
    own: Mapping[str, Any], queue: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    known = parse(own["accelerator_type"])
    limits, persons = queue.get("limits") or {}, _names(own["users"])
    others = queue.get("submit_as") or {}
    return {
        "slice": own["slice"],
        "zone": own["zone"],
        "node": own["node"],
        "type": own["accelerator_type"],
        "chips": known.chips if known else 0,
        "hosts": own["slice_hosts"],
        "worker": int(own["worker_index"]),
        "port": int(own["peer_port_base"]) + _PORTS_OF_RUNS,
        "queue": queue["bucket"],
        "declared_first": queue.get("declared_first") is not False,
        "take_after": seconds_in(str(queue.get("take_after"))),
        "limits": {key: limits.get(key) for key in ("chips", "runs", "chip_hours")},
        "reserved": (queue.get("reserved") or {}).get(own["slice"]),
        "on_result": _rule(queue.get("on_result")),
        "users": {person: [person, *(others.get(person) or ())] for person in persons},
        "secrets": queue.get("secrets") or {},
        "people": _names(_here(own["users"], own["slice"])),
        "venvs": _names(_here(own["venvs"], own["slice"])),
        "venvs_on_need": _names(_here(filter(_on_need, own["venvs"]), own["slice"])),
        "venvs_elsewhere": _names(own["venvs"]),
        "metadata": own["metadata_url"] or "",
        "training": _training(own),
        "run_defaults": defaults["training_run_runs"],
    }


def _rule(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not found:
        return None
    return {
        "command": shlex.split(found["command"]),
        "every": seconds_in(str(found.get("every") or DEFAULT_EVERY)),
    }


def _training(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of role training_run from which a definition is made, by their names."""
    declared = [{key: run[key] for key in _OF_DECLARED if key in run} for run in own["runs"]]
    found = {
        **{key: own[key] for key in _OF_RUNS},
        **{key: own[key] for key in ("slice", "zone", "slice_hosts")},
        "worker_index": int(own["worker_index"]),
        "venvs": [{key: one.get(key) for key in ("name", "path")} for one in own["venvs"]],
        "runs": declared,
        "peers": [],
        "keys": {},
        "stopped": {},
        "multislice": {},
    }
    return {f"training_run_{key}": value for key, value in found.items()}


def _present(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in entries if one.get("state", "present") == "present"]


def _here(entries: Iterable[Mapping[str, Any]], slice_name: str) -> list[Mapping[str, Any]]:
    return [one for one in _present(entries) if is_on(one, slice_name)]


def _on_need(venv: Mapping[str, Any]) -> bool:
    """Return whether an environment is built when a submitted run needs it."""
    return bool(venv.get("on_need"))


def _names(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(one["name"]) for one in _present(entries)]


def _secret_files(settings: str, key: str) -> list[dict[str, Any]]:
    files = [{"path": f"{FOLDER}/settings.json", "mode": "0600", "content": settings}]
    if key:
        files.append({"path": f"{FOLDER}/key", "mode": "0600", "content": f"{key}\n"})
    return files


def _files(own: Mapping[str, Any]) -> list[dict[str, Any]]:
    reserved = ((own["queue"] or {}).get("reserved") or {}).get(own["slice"])
    users = _here(own["users"], own["slice"])
    signers = allowed_signers(one for one in users if reserved is None or one["name"] in reserved)
    return [
        {"path": FOLDER, "state": "directory", "mode": "0700"},
        {"path": f"{FOLDER}/allowed_signers", "mode": "0600", "content": signers},
        {"path": _DROP_IN, "content": _AFTER},
        {"path": UNIT, "content": _UNIT},
    ]


def _gone_files() -> list[dict[str, Any]]:
    paths = (UNIT, _DROP_IN, FOLDER)
    return [{"path": path, "state": "absent"} for path in paths]


def allowed_signers(users: Iterable[Mapping[str, Any]]) -> str:
    """Return the file by which ssh-keygen verifies whose signature is under a definition.

    The principal is the person's name. A certificate authority among a person's keys signs nothing.
    """
    return "".join(
        f'{user["name"]} namespaces="{NAMESPACE}" {key}\n' for user in users for key in _keys(user)
    )


def _keys(user: Mapping[str, Any]) -> list[str]:
    """Return type and text of a person's keys, without options and comment."""
    lines = [str(line) for line in user.get("keys") or ()]
    found = [_KEY.search(line) for line in lines if "cert-authority" not in line.split("ssh-")[0]]
    return [" ".join(one[1].split()) for one in found if one]
