"""Compute Engine's quotas of TPUs, in chips per region, which are apart from the TPU API's.

What is bound to a reservation in calendar mode needs none.
"""

from __future__ import annotations

from ... import errors
from ...compute_errors import quota_exceeded
from ...errors import ApiError
from ...tables._schema.accelerators import GENERATIONS, parse
from ..shared import catalog
from ..shared.faults import Fault
from ..shared.ledger import Ledger
from ..shared.records import PREEMPTIBLE, NodeRecord
from . import reservations
from .records import IDLE

_BY_FAMILY = "tpus_per_tpu_family"
_HERE = {name: row for name, row in GENERATIONS.items() if row.machines}
_FAMILIES = [row.series.partition("-")[0].upper() for row in _HERE.values()]
# The metrics of quotas of one generation, and the tier that each is for.
_METRICS = {f"preemptible_tpu_{name.removeprefix('tpu')}": "spot" for name in _HERE} | {
    row.quota[0]: "on_demand" for row in _HERE.values() if row.quota[0] != _BY_FAMILY
}


def refusal(ledger: Ledger, node: NodeRecord) -> ApiError | None:
    """Return the error if a fault sets a quota that a record would exceed."""
    if reservations.end_of(ledger, node) is not None:
        return None
    more = _chips(node)

    def exceeded(fault: Fault) -> bool:
        return used(ledger, node) + more > _limit(fault)

    fault = ledger.faults.hit("quota", ledger.clock.now(), exceeded, **ledger.place(node))
    if fault is None:
        return None
    name, metric, family = quota_of(node)
    return quota_exceeded(name, metric, _limit(fault), errors.region_of(node.zone), family)


def quota_of(node: NodeRecord) -> tuple[str, str, str]:
    """Return the quota that a record uses: its limit's name, its metric and the TPU's family."""
    kind = parse(node.accelerator_type)
    generation = kind.generation if kind else ""
    short = generation.removeprefix("tpu").upper()
    if node.tier in PREEMPTIBLE:
        return f"PREEMPTIBLE-TPU-{short}-per-project-region", f"preemptible_tpu_{short}".lower(), ""
    metric, family = GENERATIONS[generation].quota if kind else (_BY_FAMILY, "")
    return f"{metric.upper().replace('_', '-')}-per-project-region", metric, family


def used(ledger: Ledger, node: NodeRecord) -> int:
    """Return how many chips of a record's quota others use."""
    region, quota = errors.region_of(node.zone), quota_of(node)
    return sum(
        _chips(other)
        for other in ledger.nodes.values()
        if other.api == "compute"
        and other is not node
        and other.state not in IDLE
        and errors.region_of(other.zone) == region
        and quota_of(other) == quota
        and reservations.end_of(ledger, other) is None
    )


def limits(ledger: Ledger, metric: str) -> list[tuple[dict[str, str], int]] | None:
    """Return the limits of a metric that faults set, by what they hold for; None if unknown.

    A fault that names machines or types is no quota of the project, so it does not show.
    """
    if metric == _BY_FAMILY:
        kinds = [("on_demand", {"tpu_family": family}) for family in _FAMILIES]
    elif metric in _METRICS:
        kinds = [(_METRICS[metric], {})]
    else:
        return None
    found: list[tuple[dict[str, str], int]] = [({}, -1)]
    for tier, dimensions in kinds:
        for zone in catalog.COMPUTE_ZONES:
            where = {"zone": zone, "tier": tier, "service": "compute"}
            here = {**dimensions, "region": errors.region_of(zone)}
            found += [(here, int(_limit(fault))) for fault in _set(ledger, where)][:1]
    return found


def _set(ledger: Ledger, where: dict[str, str]) -> list[Fault]:
    """Return the faults that set a quota somewhere, without using them up."""
    found: list[Fault] = []

    def note(fault: Fault) -> bool:
        found.append(fault)
        return False

    ledger.faults.hit("quota", ledger.clock.now(), note, **where)
    return found


def _chips(node: NodeRecord) -> int:
    kind = parse(node.accelerator_type)
    return kind.chips if kind else 0


def _limit(fault: Fault) -> float:
    return float(fault.options.get("limit", 0))
