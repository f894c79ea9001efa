# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data that the doctor gathers on the controller: the API, and a login to each worker.

Every function here may hang or fail, so each runs in a separate process, see `probe.py`.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .._compute.client import Compute
from .._compute.groups import slice_nodes
from .._compute.slices import ComputeSlices
from .._core.checkpoints import WHOLE, Checkpoint
from .._core.errors import TpuError
from .._core.ownership import OWNER_LABEL
from .._fleet.plan_terms import World
from .._fleet.resting import RestBook
from .._fleet.usage import missing_slices, world_of
from .._fleet_file.declared import KEEP, Fleet, Slice
from .._fleet_file.grant import holdings_of, parse_allocations
from .._google.apis import GoogleApis
from .._google.bucket_plan import BucketSpec, lacking
from .._google.bucket_policy import read_policy
from .._google.checkpoints import CheckpointFolder
from .._schema.accelerators import parse as parse_accelerator
from .._tpu.client import ALL_ZONES, Client
from .._tpu.model import COMPUTE, TPU
from .._tpu.queued_facts import reason_of
from .._tpu.queued_spec import seconds_of
from .._wire.auth import HAS_GOOGLE_AUTH, AuthOptions, destination, find_credentials, token_errors
from .._wire.transport import Quoted, Transport

DEAD = ("SUSPENDED", "FAILED")


def credentials(endpoint: str, auth: AuthOptions) -> dict[str, Any]:
    """Find credentials as the client does, and request a token."""
    place = destination(endpoint)
    answer = {"place": place, "found": "", "error": "", "remedy": ""}
    if place != "google":
        return answer
    if auth.access_token:
        return {**answer, "found": "a given access token"}
    if not HAS_GOOGLE_AUTH:
        return {
            **answer,
            "error": "the Python package google-auth is missing",
            "remedy": "Run: pip install google-auth",
        }
    try:
        found = find_credentials(auth)
        import google.auth.transport.requests

        with token_errors():
            found.refresh(google.auth.transport.requests.Request())
    except TpuError as error:
        return {**answer, "error": error.message, "remedy": error.remedy}
    return {**answer, "found": _described(found, auth)}


def _described(found: Any, auth: AuthOptions) -> str:
    """Return the owner and the source of credentials, never the credentials themselves."""
    who = getattr(found, "service_account_email", None) or getattr(found, "account", None) or ""
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    kind = type(found).__name__
    if kind == "GcloudCredentials":
        source = "gcloud's login"
    elif auth.service_account_file:
        source = f"service account file {auth.service_account_file}"
    elif named:
        source = f"GOOGLE_APPLICATION_CREDENTIALS={named}"
    elif "compute_engine" in type(found).__module__:
        source = "this machine's service account"
    else:
        source = "application default credentials"
    whose = f" of {who}" if who else ""
    as_whom = f", acting as {auth.impersonate_service_account}"
    return f"{source}{whose}{as_whom if auth.impersonate_service_account else ''}: valid"


def api(client: Client) -> dict[str, Any]:
    """Send a free request to the API."""
    try:
        listing = client.nodes.list(ALL_ZONES)
        zones = client.locations.list()
    except TpuError as error:
        return {"error": error.message, "remedy": error.remedy, "kind": error.kind}
    return {
        "error": "",
        "remedy": "",
        "project": client.project,
        "zones": len(zones.items),
        "unreachable": list(dict.fromkeys(listing.unreachable)),
        "ahead": _ahead(client.transport),
    }


def grant(client: Client, params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the use of the grant, find dead queued resources, and slices that do not exist.

    `params` are the options of the module.
    """
    warn_before, owner = seconds_of("warn_before", params["warn_before"]), params["owner"]
    try:
        granted = parse_allocations(params["allocations"])
        world = world_of(params, client)
        held = holdings_of(world.nodes, world.queued)
        warnings = granted.warnings(held, world.now, warn_before, owner)
        missing = _missing(client, params, world)
    except TpuError as error:
        return {"error": error.message}
    dead = [
        {"name": item.name, "zone": item.zone, "state": reason_of(item)}
        for item in world.queued
        if item.state in DEAD and item.labels.get(OWNER_LABEL) == owner
    ]
    found = {"declared": granted.declared, "warnings": warnings, "dead": dead}
    return {"error": "", "missing": missing, **found}


def _missing(client: Client, params: Mapping[str, Any], world: World) -> list[dict[str, Any]]:
    """Return the declared slices without a node, but for those that were put to rest."""
    try:
        fleet = Fleet.from_params(params, client.project)
        missing = missing_slices(fleet, world)
        may_rest = fleet.holds or any(one.on_finish != KEEP for one in fleet.slices)
        if not missing or not may_rest:
            return missing
        book = RestBook(lambda: Compute(GoogleApis(client)), fleet.owner, None).read()
    except TpuError:
        return []  # the check of the fleet file says why
    resting = {name for name, rest in book.items() if not rest.awake}
    return [one for one in missing if one["name"] not in resting]


def _ahead(transport: Transport) -> float:
    """Return how many seconds this computer is ahead of the API."""
    return time.time() - transport.server_time().timestamp()


def compute(client: Client) -> dict[str, Any]:
    """Send a free request to Compute Engine."""
    try:
        slices = ComputeSlices(client)
        seen = slices.list(leftovers=False)
    except TpuError as error:
        return {"error": error.message, "remedy": error.remedy}
    nodes = slice_nodes(seen)
    return {
        "error": "",
        "remedy": "",
        "slices": len(nodes.items),
        "unreachable": list(nodes.unreachable),
        "ahead": _ahead(slices.transport),
    }


def quota(apis: GoogleApis) -> dict[str, Any]:
    """Read the project's quotas of the TPU API."""
    try:
        return {"error": "", "metrics": apis.items("serviceusage", _metrics(apis, TPU), "metrics")}
    except TpuError as error:
        return {"error": error.message}


def compute_quota(apis: GoogleApis, metrics: Iterable[str]) -> dict[str, Any]:
    """Read these quotas of Compute Engine, which has some hundred more."""
    found = []
    try:
        for metric in dict.fromkeys(metrics):
            name = quote(f"compute.googleapis.com/{metric}", safe="")
            known = apis.find("serviceusage", Quoted(f"{_metrics(apis, COMPUTE)}/{name}"))
            found += [] if known is None else [known]
    except TpuError as error:
        return {"error": error.message}
    return {"error": "", "metrics": found}


def _metrics(apis: GoogleApis, service: str) -> str:
    services = f"v1beta1/projects/{apis.project}/services"
    return f"{services}/{service}.googleapis.com/consumerQuotaMetrics"


def wanted(
    slices: Iterable[Mapping[str, Any]], zone: str, allocations: Any
) -> list[dict[str, Any]]:
    """Return how much quota the declared slices would use, in each of their zones."""
    try:
        granted = parse_allocations(allocations)
    except TpuError:
        granted = None  # The check of the grant says why.
    found = []
    for wish in slices:
        one = Slice.read(wish, zone or None, grant=granted)
        kind = parse_accelerator(one.types[0]) if one.types else None
        for place in one.candidates:
            if kind is None or place.accelerator_type != kind.name:
                continue
            number = kind.name.rpartition("-")[2]
            counts_name = place.api == TPU and number.isdigit()
            found.append(
                {
                    "slice": one.name,
                    "type": kind.name,
                    "generation": kind.generation,
                    "tier": "reserved" if one.reservation else one.tier,
                    "zone": place.zone,
                    "api": place.api,
                    "units": int(number) if counts_name else kind.chips,
                }
            )
    return found


SHOWN = (
    *("name", "location", "customPlacementConfig", "storageClass", "softDeletePolicy"),
    *("versioning", "lifecycle"),
)
"""What is read of a bucket."""
SUBMITS = tuple(f"storage.objects.{verb}" for verb in ("create", "delete", "get", "list", "update"))
"""The permissions that submitting needs."""


def bucket(apis: GoogleApis, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Read one bucket, and how often runs save into their folders.

    `asked` has its name, the zones of its slices, and the folders of its runs.
    """
    seen = {**asked, "location": "", "resource": {}, "saves": [], "error": ""}
    try:
        found = apis.find("storage", f"b/{asked['name']}")
    except TpuError as error:
        return {**seen, "error": error.message}
    if found is None:
        return {**seen, "error": "there is no bucket of this name"}
    resource = {key: found[key] for key in SHOWN if key in found}
    saves = [_saves(apis, str(asked["name"]), folder) for folder in asked["folders"]]
    return {
        **seen,
        "location": str(found.get("location", "")),
        "resource": resource,
        **(_access(apis, found, asked["access"]) if asked.get("access") else {}),
        "saves": [one for one in saves if one is not None],
    }


def _access(
    apis: GoogleApis, bucket: Mapping[str, Any], wanted: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return who lacks which roles in a bucket, and what this caller may not do.

    What may not be seen is left out: this caller needs no right to read the policy.
    """
    name = str(bucket["name"])
    accounts, writers, readers = (
        tuple(wanted.get(key) or ()) for key in ("accounts", "writers", "readers")
    )
    spec = BucketSpec(name, "", accounts=accounts, writers=writers, readers=readers)
    path = f"b/{name}/iam/testPermissions"
    found: dict[str, Any] = {}
    with contextlib.suppress(TpuError):
        mine = apis.transport("storage").read(path, {"permissions": [*SUBMITS]})
        found["forbidden"] = sorted({*SUBMITS} - {*(mine.get("permissions") or ())})
    with contextlib.suppress(TpuError):
        policy = read_policy(apis, name)
        found["lacking"] = lacking(policy, spec, str(bucket.get("projectNumber") or ""))
    return found


def _saves(apis: GoogleApis, name: str, folder: str) -> dict[str, float] | None:
    """Return the size of a run's newest checkpoint and the time between two; None if unknown."""
    try:
        contents = CheckpointFolder(apis, name, folder).contents()
    except TpuError:  # What a bucket may show is another right than what its objects are.
        return None
    return pace(contents.checkpoints)


def pace(checkpoints: Sequence[Checkpoint]) -> dict[str, float] | None:
    """Return the bytes of the newest whole checkpoint, and the mean seconds between two."""
    whole = sorted((one for one in checkpoints if one.state == WHOLE), key=lambda one: one.at)
    if len(whole) < 2 or whole[-1].at <= whole[0].at:
        return None
    seconds = (whole[-1].at - whole[0].at) / (len(whole) - 1)
    return {"bytes": float(whole[-1].size), "seconds": seconds}


def tools(key: str, ansible: str) -> dict[str, Any]:
    """Gather the state of this computer."""
    path = Path(key).expanduser() if key else None
    there = path is not None and path.exists()
    return {
        "ssh": bool(shutil.which("ssh")),
        "ansible": ansible,
        "python": platform.python_version(),
        "key": {
            "path": str(path),
            "there": there,
            "mode": path.stat().st_mode & 0o777 if path is not None and there else 0,
        }
        if path is not None
        else None,
    }


def login(worker: Mapping[str, Any], limit: float) -> dict[str, Any]:
    """Log in to a worker as Ansible does, through a separate connection.

    The time limit must exceed ssh's connection timeout, so that ssh can report its error.
    """
    fixed = {
        "BatchMode": "yes",
        "ConnectTimeout": str(max(1, int(limit) - 4)),
        "ControlMaster": "no",
        "ControlPath": "none",
        "LogLevel": "ERROR",
    }
    argv = ["ssh", *(f"-o{name}={value}" for name, value in fixed.items())]
    argv += shlex.split(str(worker.get("arguments") or ""))
    if worker.get("key"):
        argv += ["-o", "IdentitiesOnly=yes", "-i", str(worker["key"])]
    if worker.get("port"):
        argv += ["-p", str(worker["port"])]
    if worker.get("user"):
        argv += ["-l", str(worker["user"])]
    # In a separate process without an AnsibleModule, so without run_command.
    # pylint: disable-next=ansible-bad-function
    done = subprocess.run(
        [*argv, "--", str(worker["address"]), "true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return {"code": done.returncode, "said": done.stdout.decode("utf-8", "replace")[-2000:]}
