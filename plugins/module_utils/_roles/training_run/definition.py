# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definitions of a host's runs for their run agents, and the units for systemd. No I/O.

Any changed byte in a definition restarts the run or reloads its agent, so values stay as declared:
a number that was declared as a string remains a string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..._core.archive import place_of
from ..._core.in_zone import with_addresses
from ..._host.runs import RunFiles
from ..dataset_paths import placed
from ..venv_paths import venv_path
from .definition_text import text_of
from .gangs import PAIRS_OF_PORTS, gang_ports, gangs, port_numbers

FOLDER = "/etc/tpu-fleet/runs"
# Folders below are made by the run agent, for the run's user alone.
_MADE = PurePosixPath("/var/lib/tpu-fleet")
CHECKPOINTS = f"{_MADE}/checkpoints/"
_QUEUE = "/var/lib/tpu-fleet/queue"
_UNITS = "/etc/systemd/system"
# Ports for the runs' programs: two for each run, by its name, and one between slices.
_MEGASCALE = 2 * PAIRS_OF_PORTS
# Keys that the definition takes unchanged from a run. The agent has its own default step_pattern.
_AS_DECLARED = (
    "retries",
    "stop_signal",
    "secrets",
    "restart_on_secret_change",
    "no_retry_exit_codes",
    "step_pattern",
)
# Durations and sizes, which are seconds and bytes here, by their names in the definition.
_AMOUNTS = {
    "fail_fast_seconds": "fail_fast_window",
    "grace_seconds": "grace",
    "hang_seconds": "hang_after",
    "checkpoint_lead_seconds": "checkpoint_lead",
    "min_free_bytes": "min_free",
    "compile_cache_bytes": "compile_cache_size",
}
_UNIT = """\
[Unit]
Description=Training run {run}
Documentation=https://github.com/tpu-fleet/tpu.fleet
# What the program needs while it saves itself at a shutdown goes after it.
After=network-online.target remote-fs.target nss-user-lookup.target
Wants=network-online.target
# `tpu-fleet stop` writes this file, and `tpu-fleet start` removes it.
ConditionPathExists=!{mark}

[Service]
# A reload that comes with the start waits until the agent hears it.
Type=notify
ExecStart=/usr/bin/python3 -I /opt/tpu-fleet/tpu_fleet_run.py agent --definition {folder}/%i.json
# The agent takes up new code or a new definition, and the running program with it.
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=2
# A tmux server is shared with the user's other sessions: only the agent gets the signal,
# and it ends the program itself.
KillMode=process
TimeoutStopSec={stop_seconds}
NotifyAccess=main
LimitMEMLOCK=infinity
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
"""


Run = Mapping[str, Any]
File = dict[str, Any]


def plan(
    variables: Mapping[str, Any],
    defaults: Mapping[str, Any],
    records: Mapping[str, Any] | None = None,
    gone: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what the role changes for the runs of a host.

    `variables` are those of the role, `defaults` are by list and key. `records` has the installed
    version of each code tree; without it, there are no files of definitions. `gone` are runs that
    are no longer declared.
    """
    here = [
        _in_zone(
            {**defaults["training_run_runs"], **run, "step_pattern": run.get("step_pattern", "")},
            variables["training_run_zone"],
        )
        for run in variables["training_run_runs"]
        if variables["training_run_slice"] in run["slices"]
    ]
    places = gangs(
        here,
        variables["training_run_slice"],
        variables["training_run_slice_hosts"],
        variables["training_run_peers"],
    )
    # Without all addresses, the run would have no leader.
    waiting = [name for name, slices in places.items() if not slices]
    ready = [run for run in here if run["name"] not in waiting]
    keys = variables["training_run_keys"]
    planned = {
        "folder": FOLDER,
        "names": [run["name"] for run in here],
        "waiting": waiting,
        # Ansible prints the items of a loop, and the environment of a run has secrets.
        "runs": [
            {"name": run["name"], "enabled": run["enabled"], "paths": _paths(run["name"])}
            for run in ready
        ],
        "enabled": [run["name"] for run in ready if run["enabled"]],
        "stopped": {
            name: by
            for name, by in variables["training_run_stopped"].items()
            if name in (run["name"] for run in ready)
        },
        "trees": _trees(ready),
        "gone_files": gone_files(gone),
        "secret_files": [file for run in ready for file in _secret_files(run, keys)],
    }
    if records is not None:
        planned["files"] = _files(ready, variables, places, records)
    return planned


# Keys with addresses of buckets, in which {region} and {zone} are those of the host.
IN_ZONE = ("checkpoint_dir", "archive", "command", "checkpoint_command")


def _in_zone(run: Run, zone: str) -> Run:
    """Return a run with the addresses of its buckets for a host in a zone."""
    env = {key: with_addresses(value, zone) for key, value in (run.get("env") or {}).items()}
    places = {key: with_addresses(run[key], zone) for key in IN_ZONE if key in run}
    return {**run, **places, "env": env}


def _files(
    runs: Sequence[Run],
    variables: Mapping[str, Any],
    places: Mapping[str, list[list[str]]],
    records: Mapping[str, Any],
) -> list[File]:
    """Return the definition and the unit of each run."""
    base, peer_base = (
        int(variables[f"training_run_{name}"]) for name in ("port_base", "peer_port_base")
    )
    # Of all runs, because the slices of one run must all get the same port.
    peer_ports = gang_ports(variables["training_run_runs"], peer_base)
    numbers = port_numbers(variables["training_run_runs"])
    files = []
    for position, run in enumerate(runs):
        definition = {
            **_of_run(run, base, numbers[run["name"]]),
            **_of_code(run, records),
            **_of_data(run, variables),
            **_of_place(run, variables, places.get(run["name"], [])),
            **_of_host(variables),
            "venv": venv_path(run.get("venv", ""), variables["training_run_venvs"]),
            "peer_port": peer_ports[run["name"]],
            "position": position,
        }
        path = f"{FOLDER}/{run['name']}.json"
        files += [{"path": path, "content": text_of(definition)}, _unit_file(run)]
    return files


def gone_files(names: Sequence[str]) -> list[File]:
    """Return the files of runs that are no longer declared."""
    return [
        {"path": path, "state": "absent"}
        for name in names
        for path in (
            f"{_UNITS}/tpu-fleet-run@{name}.service",
            *_paths(name),
            f"{_QUEUE}/{name}.json",
            str(RunFiles().mark(name)),
        )
    ]


def _paths(name: str) -> list[str]:
    """Return the paths of the files that the agent of a run reads."""
    return [f"{FOLDER}/{name}.{end}" for end in ("env.json", "key", "json")]


def _trees(runs: Sequence[Run]) -> list[str]:
    """Return the code trees whose version is part of a definition."""
    names = (run.get("code") for run in runs)
    return list(dict.fromkeys(name for name in names if name and not name.startswith("/")))


def _secret_files(run: Run, keys: Mapping[str, str]) -> list[File]:
    name = run["name"]
    files = [
        {"path": f"{FOLDER}/{name}.env.json", "mode": "0600", "content": text_of(run["env"])},
    ]
    if name in keys:
        content = f"{keys[name]}\n"
        files.append({"path": f"{FOLDER}/{name}.key", "mode": "0600", "content": content})
    return files


def _unit_file(run: Run) -> File:
    return {
        "path": f"{_UNITS}/tpu-fleet-run@{run['name']}.service",
        "content": _UNIT.format(
            run=run["name"],
            folder=FOLDER,
            mark=RunFiles().mark(run["name"]),
            stop_seconds=int(run["grace"]) + 30,
        ),
    }


def _of_run(run: Run, port_base: int, number: int) -> dict[str, Any]:
    """Return the part that is the same on all workers of the run."""
    name = run["name"]
    port = port_base + 2 * number if run.get("port") is None else int(run["port"])
    return {
        "run": name,
        "user": run["user"],
        "command": run["command"],
        "port": port,
        "coordinator_port": port + 1,
        "megascale_port": port_base + _MEGASCALE + number,
        "checkpoint_dir": checkpoint_folder(run),
        # Only where it is so: another key would restart all runs that were made before.
        **({"attempt_folders": True} if run.get("fence") == "attempt" else {}),
        **({"mtls": True} if run.get("mtls") else {}),
        "needs_tpu": str(run.get("needs_tpu", "auto")).lower(),
        "checkpoint_signal": run.get("checkpoint_signal", ""),
        "checkpoint_command": run.get("checkpoint_command", ""),
        **_archived(run),
        **{key: run[key] for key in _AS_DECLARED},
        # The agent's word for an amount that is off.
        **{key: run.get(own) or 0 for key, own in _AMOUNTS.items()},
    }


def checkpoint_folder(run: Run) -> Any:
    """Return the folder or bucket that a run has for checkpoints; empty if it wants none."""
    return run.get("checkpoint_dir", f"{CHECKPOINTS}{run.get('name')}") or ""


def misplaced(place: str, run: str) -> str:
    """Return why a run that a person submits may not have checkpoints there; empty if it may.

    Below root's folders it gets only its own: another one would become the folder of its user.
    """
    if place.startswith("gs://"):
        return ""
    folder, own = PurePosixPath(place), f"{CHECKPOINTS}{run}"
    if not folder.is_absolute() or ".." in folder.parts:
        return "it is no bucket and no whole path. Write gs://BUCKET/FOLDER"
    if _MADE in (folder, *folder.parents) and str(folder) != own:
        return f"a run has no folder there but {own}. Write gs://BUCKET/FOLDER"
    return ""


def _archived(run: Run) -> dict[str, Any]:
    """Return where a run is archived, and what; without an archive nothing."""
    archive = archive_of(run)
    return {"archive": archive, "results": run.get("results") or []} if archive else {}


def archive_of(run: Run) -> str:
    """Return the address at which a run's logs and results are archived; empty if nowhere."""
    return place_of(run, str(checkpoint_folder(run) or ""))


def _of_code(run: Run, records: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the code is, and its version if another version is to restart the run."""
    tree = run.get("code") or ""
    record = records.get(tree, {})
    version = record.get("version", "") if run["restart_on_code_change"] else ""
    return {
        "workdir": tree if tree.startswith("/") else record.get("path", ""),
        "code": {"tree": tree, "version": version},
    }


def _of_data(run: Run, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data sets that a run waits for; nothing for one that names none."""
    found = placed(run.get("datasets") or (), variables.get("training_run_datasets") or ())
    return {"datasets": found} if found else {}


def _of_place(
    run: Run, variables: Mapping[str, Any], slices: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return the host's number among the workers of the run: in a gang, of all its slices."""
    own = variables["training_run_slice"]
    before = sum(len(hosts) for hosts in slices[: run["slices"].index(own)])
    # A run that trains on each slice separately has a fence for each.
    several = len(run["slices"]) > 1 and not slices
    return {
        "slice": own,
        "slices": slices,
        "hosts": [host for hosts in slices for host in hosts]
        or variables["training_run_slice_hosts"],
        "worker": before + int(variables["training_run_worker_index"]),
        "multislice": {"num_slices": len(slices)}
        if slices
        else variables["training_run_multislice"],
        "fence": f"{run['name']}.{own}" if several else run["name"],
    }


def _of_host(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part that is the same for all runs of the host."""
    return {
        "timing": {"lost": variables["training_run_lost_after"]},
        "log": {
            "bytes": variables["training_run_log_size"],
            "files": variables["training_run_log_files"],
        },
        "metadata": variables["training_run_metadata_url"] or "",
    }
