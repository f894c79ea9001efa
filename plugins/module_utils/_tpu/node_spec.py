# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wanted state of a TPU node, and the request that creates it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._core.errors import BadRequest
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL, check_labels, check_name, check_owner
from .._schema.accelerators import (
    API_ENUM,
    PREFIXES,
    RUNTIMES_BY_GENERATION,
    default_runtime,
    parse,
    runtime_fits,
)
from .._schema.sizes import in_unit
from .versions import api_version_of

SPEC_LABEL = "tpu-fleet-spec"
TIERS = ("on_demand", "spot", "preemptible", "reserved")
# Options of modules that make nodes, of which only one can be given.
NODE_EXCLUSIVE = [("accelerator_type", "accelerator_config")]
READ_WRITE, READ_ONLY = "READ_WRITE", "READ_ONLY"

SSH_KEYS = "ssh-keys"
STARTUP_SCRIPT = "startup-script"
GUEST_ATTRIBUTES = "enable-guest-attributes"


class DataDisk(NamedTuple):
    """A disk to attach; without worker ids, to every worker."""

    source: str
    mode: str
    worker_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeSpec:
    """A wanted node; a field that is None is not compared."""

    name: str
    zone: str
    project: str
    accelerator_type: str | None = None
    accelerator_version: str | None = None
    topology: str | None = None
    runtime_version: str | None = None
    tier: str | None = None
    network: str | None = None
    subnetwork: str | None = None
    external_ips: bool | None = None
    service_account: str | None = None
    description: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    data_disks: tuple[DataDisk, ...] = ()
    boot_disk_size_gb: int | None = None
    ssh_keys: tuple[str, ...] = ()
    startup_script: str | None = None
    owner: str | None = None
    purge: frozenset[str] = frozenset()
    # Of Compute Engine only, where the topology stands beside the accelerator type.
    machine_type: str | None = None

    @classmethod
    def from_params(cls, params: Mapping[str, Any], project: str) -> NodeSpec:
        """Return the spec that a module's options describe; raise BadRequest for wrong options."""
        config = params.get("accelerator_config") or {}
        zone = params["zone"]
        spec = cls(
            name=params["name"],
            zone=zone,
            project=project,
            accelerator_type=params.get("accelerator_type"),
            accelerator_version=str(config["type"]).upper() if config else None,
            topology=config.get("topology") or params.get("topology"),
            runtime_version=params.get("runtime_version"),
            tier=params.get("tier"),
            network=params.get("network"),
            subnetwork=params.get("subnetwork"),
            external_ips=params.get("external_ips"),
            service_account=params.get("service_account"),
            description=params.get("description"),
            labels=_texts("labels", params.get("labels"), "true", "false"),
            metadata=_texts("metadata", params.get("metadata"), "TRUE", "FALSE"),
            tags=tuple(params.get("tags") or ()),
            data_disks=tuple(
                DataDisk(
                    disk_path(disk["source_disk"], project, zone),
                    disk_mode(disk.get("read_only")),
                    tuple(str(worker) for worker in disk.get("workers") or ()),
                )
                for disk in params.get("data_disks") or ()
            ),
            boot_disk_size_gb=gib_of("boot_disk_size", params.get("boot_disk_size")),
            ssh_keys=tuple(key.strip() for key in params.get("ssh_keys") or ()),
            startup_script=params.get("startup_script"),
            owner=params.get("owner"),
            purge=frozenset(params.get("purge") or ()),
            machine_type=params.get("machine_type"),
        )
        spec.check()
        return spec

    @property
    def has_hardware(self) -> bool:
        """Return whether the spec has what a creation needs."""
        return bool(self.accelerator_type or self.topology)

    @property
    def effective_runtime(self) -> str:
        """Return the runtime version that the node is created with."""
        return self.runtime_version or default_runtime(self._type_for_runtime())

    @property
    def api_version(self) -> str:
        """Return the version of the API that knows all fields of the spec."""
        return api_version_of(self.create_body())

    def check(self) -> None:
        """Raise BadRequest for values that every zone would refuse, before any request."""
        check_name("TPU node", self.name)
        check_labels(self.labels, lambda key: key in (OWNER_LABEL, SPEC_LABEL))
        check_owner(self.owner)
        for key in self.ssh_keys:
            if not re.fullmatch(r"[^\s:]+:\S+ \S+.*", key):
                raise BadRequest(
                    f"The ssh key {key[:40]!r} is not of the form USER:TYPE KEY COMMENT.",
                    remedy="Put the user's name and a colon before the public key.",
                )
        kind = self._type_for_runtime()
        if self.runtime_version and kind and not runtime_fits(kind, self.runtime_version):
            known = parse(kind)
            fitting = RUNTIMES_BY_GENERATION.get(known.generation, ()) if known else ()
            raise BadRequest(
                f"The runtime version {self.runtime_version} does not fit the accelerator type "
                f"{self.accelerator_type or self.accelerator_version}: the node would start, and "
                "programs would not find its chips.",
                remedy=f"Use {' or '.join(fitting)}.",
            )

    def owned_labels(self) -> dict[str, str]:
        """Return the labels with the node's owner and the hash of its spec."""
        return {OWNER_LABEL: self.owner or DEFAULT_OWNER, SPEC_LABEL: self.digest()}

    def digest(self) -> str:
        """Return a short hash of the fields that are fixed at creation."""
        fixed = [
            self.accelerator_type or f"{self.accelerator_version}:{self.topology}",
            self.effective_runtime,
            self.tier or TIERS[0],
            self.network or "default",
            self.subnetwork or "",
            self.service_account or "",
        ]
        if self.boot_disk_size_gb is not None:
            fixed.append(str(self.boot_disk_size_gb))
        return hashlib.sha256(json.dumps(fixed).encode()).hexdigest()[:16]

    def create_body(self) -> dict[str, Any]:
        """Return the body of the request that creates the node."""
        network: dict[str, Any] = {
            "network": self.network or "default",
            "enableExternalIps": self.external_ips is not False,
        }
        if self.subnetwork:
            network["subnetwork"] = self.subnetwork
        body: dict[str, Any] = {
            "runtimeVersion": self.effective_runtime,
            "networkConfig": network,
            "labels": {**self.labels, **self.owned_labels()},
            "metadata": self.wanted_metadata({GUEST_ATTRIBUTES: "TRUE"}),
        }
        if self.accelerator_type:
            body["acceleratorType"] = self.accelerator_type
        else:
            body["acceleratorConfig"] = {
                "type": self.accelerator_version,
                "topology": self.topology,
            }
        if self.tier in TIERS[1:]:
            body["schedulingConfig"] = {self.tier: True}
        if self.service_account:
            body["serviceAccount"] = {"email": self.service_account}
        if self.description:
            body["description"] = self.description
        if self.tags:
            body["tags"] = list(self.tags)
        if self.data_disks:
            body["dataDisks"] = [as_disk(*disk) for disk in self.data_disks]
        if self.boot_disk_size_gb is not None:
            # The API writes 64-bit numbers as strings.
            body["bootDiskConfig"] = {"diskSizeGb": str(self.boot_disk_size_gb)}
        return body

    def wanted_metadata(self, have: Mapping[str, str]) -> dict[str, str]:
        """Return the metadata that the node should have, given its present metadata."""
        wanted = dict(have)
        if "metadata" in self.purge:
            # The option ssh_keys decides about users' keys; guest attributes carry the host keys.
            wanted = {key: have[key] for key in (SSH_KEYS, GUEST_ATTRIBUTES) if key in have}
        wanted.update(self.metadata)
        if self.startup_script is not None:
            wanted[STARTUP_SCRIPT] = self.startup_script
        if self.ssh_keys or "ssh_keys" in self.purge:
            lines = [] if "ssh_keys" in self.purge else wanted.get(SSH_KEYS, "").splitlines()
            wanted[SSH_KEYS] = "\n".join(merge_keys(lines, self.ssh_keys))
        return wanted

    def _type_for_runtime(self) -> str:
        """Return a type of the wanted generation, because runtimes differ only by generation."""
        if self.accelerator_type:
            return self.accelerator_type
        generations = {enum: generation for generation, enum in API_ENUM.items()}
        generation = generations.get(self.accelerator_version or "", "")
        return f"{PREFIXES[generation]}-8" if generation else ""


def merge_keys(lines: Iterable[str], added: Iterable[str]) -> list[str]:
    """Return the key lines with each user's key once; an existing line is kept as it is."""
    merged: dict[tuple[str, ...], str] = {}
    for line in (*lines, *added):
        if line.strip():
            # A different comment or end date (Google's own form) does not make a different key.
            merged.setdefault(tuple(line.split()[:2]), line.strip())
    return list(merged.values())


def disk_path(source: str, project: str, zone: str) -> str:
    """Return the full name of a disk, which may be given by its short name."""
    if "/" in source:
        return source[source.find("projects/") :] if "projects/" in source else source
    return f"projects/{project}/zones/{zone}/disks/{source}"


def disk_mode(read_only: bool | None) -> str:
    """Return how Google calls the way in which a disk is attached."""
    return READ_ONLY if read_only else READ_WRITE


def as_disk(source: str, mode: str, worker_ids: Iterable[str] = ()) -> dict[str, Any]:
    """Return a data disk as the API writes it."""
    workers = list(worker_ids)
    return {"sourceDisk": source, "mode": mode, **({"workerIds": workers} if workers else {})}


def gib_of(option: str, value: str | None) -> int | None:
    """Return the GiB of an option's size; raise BadRequest, with the remedy, for anything else."""
    try:
        return None if value is None else in_unit(value, "GiB")
    except ValueError as error:
        raise BadRequest(f"{option} = {error}") from None


def _texts(option: str, values: Mapping[str, Any] | None, yes: str, no: str) -> dict[str, str]:
    """Return a map of strings; YAML reads numbers and booleans where text was meant."""
    texts = {}
    for key, value in (values or {}).items():
        if isinstance(value, (dict, list)):
            raise BadRequest(
                f"{option}.{key} is a {type(value).__name__}.", remedy="Set a string instead."
            )
        if isinstance(value, bool):
            value = yes if value else no
        texts[str(key)] = "" if value is None else str(value)
    return texts
