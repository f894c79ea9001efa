"""Resource policies. A workload policy says which topology the VMs of a group form."""

from __future__ import annotations

import re

from ..compute_errors import ComputeError, invalid
from ..model.cloud import Cloud
from . import uses
from .kept import Document, Kept, kept

COLLECTION = "resourcePolicies"
KINDS = (
    "workloadPolicy",
    "groupPlacementPolicy",
    "instanceSchedulePolicy",
    "snapshotSchedulePolicy",
    "diskConsistencyGroupPolicy",
)
_TOPOLOGY = re.compile(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?")


def _read(_cloud: Cloud, _scope: str, wanted: Document) -> Document:
    kinds = [kind for kind in KINDS if kind in wanted]
    if len(kinds) != 1:
        text = f"Resource policy must have exactly one of [{', '.join(KINDS)}]."
        raise ComputeError(400, "invalid", text)
    if kinds == ["workloadPolicy"]:
        _check(wanted["workloadPolicy"])
    return kept(wanted, "description", *kinds)


def _show(_cloud: Cloud, _policy: Document) -> Document:
    return {"status": "READY"}


def _refuse_deletion(cloud: Cloud, policy: Document) -> None:
    uses.refuse(cloud, "resource_policy", POLICIES.tail(policy))


def _check(policy: Document) -> None:
    """Raise if a workload policy says what Google does not accept."""
    kind, topology = policy.get("type", ""), policy.get("acceleratorTopology", "")
    if not kind:
        raise invalid("workloadPolicy.type", "", "Workload policy type must be specified.")
    field = "workloadPolicy.acceleratorTopology"
    if topology and not _TOPOLOGY.fullmatch(topology):
        raise invalid(field, topology, f"Must be a match of regex '{_TOPOLOGY.pattern}'")
    if topology and kind != "HIGH_THROUGHPUT":
        why = "Accelerator topology requires the workload policy type HIGH_THROUGHPUT."
        raise invalid(field, topology, why)
    if topology and policy.get("maxTopologyDistance"):
        why = "Accelerator topology and max topology distance cannot both be specified."
        raise invalid(field, topology, why)


POLICIES = Kept(
    COLLECTION,
    "resource_policies",
    "compute#resourcePolicy",
    {"regions": COLLECTION},
    _read,
    _show,
    _refuse_deletion,
)
METHODS = POLICIES.methods()
