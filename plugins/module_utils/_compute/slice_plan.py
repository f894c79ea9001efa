# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with one slice on Compute Engine: (wanted, seen) to steps. Pure.

Other than a node of the Cloud TPU API, a slice itself waits for capacity here, and an instance that
was stopped can start again, also after Google took it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._core.errors import BadRequest, Refused
from .._schema.accelerators import GENERATIONS
from .._tpu.model import Node, map_in, text_in
from .._tpu.node_plan import Decision, Difference, Subject, decide_about, plan
from .._tpu.node_spec import NodeSpec
from .._tpu.queued_spec import parse_duration, seconds_of
from .._tpu.workers import node_facts
from .groups import FAILED, UNDECIDED, WAITING, Seen, leftovers, slice_nodes, slice_requests
from .machine_types import shape_of
from .slice_bodies import Shape

_HERE = ", ".join(row.prefix for row in GENERATIONS.values() if row.machines)


@dataclass(frozen=True)
class Wanted:
    """A slice that a module is to make, change or delete."""

    spec: NodeSpec
    # None if the options do not say what to make.
    shape: Shape | None
    # Whether it is a group of machines, or one alone.
    several: bool
    valid_for: float | None = None

    @classmethod
    def from_params(cls, params: Mapping[str, Any], project: str, several: bool) -> Wanted:
        """Return what a module's options describe; raise BadRequest for wrong options."""
        valid_for = params.get("valid_for")
        waits = None if valid_for is None else seconds_of("valid_for", valid_for)
        shape = _shape(params, None if several else waits)
        hardware: dict[str, Any] = {"accelerator_type": None}
        if shape is not None:
            _check_size(shape, several)
            hardware = {
                "accelerator_type": shape.accelerator_type,
                "machine_type": shape.machine_type,
                "topology": shape.whole_topology,
            }
        if waits is not None and shape is not None and shape.tier != "flex_start":
            raise BadRequest(
                f"valid_for is {valid_for!r}, and tier is {shape.tier!r}, whose requests do not "
                "wait.",
                remedy="Use tier: flex_start, or leave valid_for out.",
            )
        spec = NodeSpec.from_params({**params, **hardware}, project)
        return cls(spec, shape, several, waits)

    @property
    def noun(self) -> str:
        """Return what it is called."""
        return "slice" if self.several else "instance"

    @property
    def where(self) -> str:
        """Return what it is called, and where."""
        return f"{self.noun} {self.spec.name} in {self.spec.zone}"


def _shape(params: Mapping[str, Any], valid_for: float | None) -> Shape | None:
    kind, topology = params.get("machine_type") or "", params.get("topology") or ""
    accelerator_type = params.get("accelerator_type")
    if accelerator_type:
        kind, topology = shape_of(accelerator_type, topology)
        if not kind:
            asked = f" in {params['topology']}" if params.get("topology") else ""
            raise BadRequest(
                f"accelerator_type is {accelerator_type!r}{asked}, which Compute Engine does not "
                "have.",
                remedy=f"Use one of {_HERE}, or tpu.fleet.tpu_vm for older TPUs.",
            )
    if not kind:
        return None
    return Shape(
        machine_type=kind,
        topology=topology,
        tier=params.get("tier") or "on_demand",
        max_run_duration=params.get("max_run_duration"),
        valid_for=valid_for,
        reservation=params.get("reservation"),
        repair=bool(params.get("repair")),
    )


def _check_size(shape: Shape, several: bool) -> None:
    """Raise if the shape has one machine where several are meant, or the other way round."""
    what = f"{shape.machine_type} in {shape.whole_topology}"
    if several and shape.workers == 1:
        raise BadRequest(
            f"{what} is one machine.", remedy="Use tpu.fleet.tpu_instance, or set topology."
        )
    if not several and shape.workers > 1:
        raise BadRequest(
            f"{what} is a slice of {shape.workers} machines.", remedy="Use tpu.fleet.tpu_slice."
        )


@dataclass(frozen=True)
class Sight:
    """What there is of one slice: a node, whose state is WAITING or FAILED if it is a request."""

    node: Node | None = None
    # Why it failed, or was not served yet, as a google.rpc.Status.
    error: dict[str, Any] = field(default_factory=dict)
    valid_until: str | None = None
    # Whether its group is gone or was never made, and something that belongs to it is there.
    is_rest: bool = False

    @property
    def state(self) -> str:
        """Return its state; empty if there is none."""
        return "" if self.node is None else self.node.state

    @property
    def waits(self) -> bool:
        """Return whether it waits for capacity."""
        return self.state == WAITING

    @property
    def in_words(self) -> str:
        """Return its state, and what is known about the reason."""
        if self.node is None:
            return "not there"
        return f"{self.node.in_words} ({self.reason})" if self.reason else self.node.in_words

    @property
    def reason(self) -> str:
        """Return why it waits or has failed, as far as it is known."""
        said = text_in(self.error, "message")
        return said or (UNDECIDED if self.waits else "")

    def facts(self) -> dict[str, Any]:
        """Return it as the modules do; empty if there is none."""
        if self.node is None:
            return {}
        more = {"reason": self.reason, "valid_until": self.valid_until}
        return {**node_facts(self.node), **more}


def sights(seen: Seen) -> list[Sight]:
    """Return all slices, those that wait, and what is left of others."""
    requests = [
        Sight(
            # Its state as a request says more than that of the node to be.
            Node.from_api({**request.nodes[0].raw, "state": request.state}),
            request.error,
            request.valid_until,
        )
        for request in slice_requests(seen).items
    ]
    rest = [Sight(node, is_rest=True) for node in leftovers(seen)]
    return [*(Sight(node) for node in slice_nodes(seen).items), *requests, *rest]


def sight_of(wanted: Wanted, seen: Seen) -> Sight:
    """Return what there is of a slice; raise if something else has its name."""
    spec = wanted.spec
    alone = [one for one in seen.instances.items if one.name == spec.name]
    if wanted.several and alone:
        raise _taken(f"There is an instance {spec.name} in {spec.zone}", "tpu_instance")
    if not wanted.several and seen.groups.items:
        raise _taken(f"There is a group {spec.name} in {spec.zone}", "tpu_slice")
    for one in alone:
        if not one.has_tpus:
            raise _taken(f"The instance {spec.name} in {spec.zone} has no TPUs")
        if not one.is_single:
            text = f"The instance {spec.name} in {spec.zone} is a worker of {one.slice_name}"
            raise _taken(text, "tpu_slice")
    found = [
        one
        for one in sights(seen)
        if one.node and (one.node.name, one.node.zone) == (spec.name, spec.zone)
    ]
    if seen.groups.items and not found:
        raise _taken(f"The group {spec.name} in {spec.zone} has no machines with TPUs")
    return found[0] if found else Sight()


def _taken(text: str, module: str = "") -> Refused:
    remedy = f"Use another name, or tpu.fleet.{module}." if module else "Use another name."
    return Refused(f"{text}.", remedy=remedy)


def differences_of(wanted: Wanted, node: Node) -> list[Difference]:
    """Return the differences; what the options do not say never differs."""
    found = plan(wanted.spec, node)
    lives = wanted.shape.max_run_duration if wanted.shape else None
    if lives is not None:
        scheduling = map_in(node.raw, "schedulingConfig")
        seconds = text_in(map_in(scheduling, "maxRunDuration"), "seconds")
        if seconds != str(parse_duration(lives)):
            have = f"{seconds}s" if seconds else ""
            found.insert(0, Difference("max_run_duration", have, lives))
    return found


def decide(
    state: str,
    wanted: Wanted,
    sight: Sight,
    *,
    adopt: bool = False,
    recreate: bool = False,
    wait: bool = True,
) -> Decision:
    """Return the steps from the seen to the wanted state, or refuse with the remedy."""
    node = sight.node
    lacks = f"Set accelerator_type, or machine_type{' and topology' if wanted.several else ''}."
    subject = Subject(
        wanted.spec,
        node,
        wanted.noun,
        in_words=sight.in_words,
        lacks=lacks if wanted.shape is None else "",
        several=wanted.several,
        lost=sight.in_words if node and (node.is_lost or sight.state == FAILED) else "",
        restarts=not wanted.several,
        waits=sight.waits,
        is_rest=sight.is_rest,
        differences=() if node is None else tuple(differences_of(wanted, node)),
    )
    return decide_about(subject, state, adopt=adopt, recreate=recreate, wait=wait)
