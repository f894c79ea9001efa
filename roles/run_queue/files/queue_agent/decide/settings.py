"""What the role wrote for one worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..shared._core.checkpoints import bucket_and_folder
from ..shared._queue.limits import Limits
from ..shared._queue.objects import Owner
from ..shared._queue.order import Serving
from .rule import Rule

STORAGE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class Places:
    """Where the queue agent keeps its things, and finds those of the run agents."""

    root: Path = Path("/")

    @property
    def settings(self) -> Path:
        """Return the folder that role run_queue writes, for root alone."""
        return self.root / "etc/tpu-fleet/queue"

    @property
    def state(self) -> Path:
        """Return the folder of what the agent needs after a reboot."""
        return self.root / "var/lib/tpu-fleet/queue_agent"

    @property
    def code(self) -> Path:
        """Return the folder of the code of submitted runs."""
        return self.root / "var/lib/tpu-fleet/submitted"

    @property
    def venvs(self) -> Path:
        """Return the folder in which role python_env records what it built."""
        return self.root / "var/lib/tpu-fleet/venvs"

    @property
    def failed_builds(self) -> Path:
        """Return the folder in which the machine says why it could not build for a run."""
        return self.root / "var/lib/tpu-fleet/apply/needed"

    @property
    def runs(self) -> Path:
        """Return the folder of the definitions of all runs."""
        return self.root / "etc/tpu-fleet/runs"

    @property
    def units(self) -> Path:
        """Return the folder of systemd's units."""
        return self.root / "etc/systemd/system"

    @property
    def tickets(self) -> Path:
        """Return the folder in which the runs of the slice have their turns on the chips."""
        return self.root / "var/lib/tpu-fleet/queue"


@dataclass(frozen=True)
class Settings:
    """One worker of a slice that serves the queue."""

    slice: str
    zone: str
    node: str
    type: str
    chips: int
    hosts: tuple[str, ...]
    worker: int
    port: int
    bucket: str
    folder: str
    declared_first: bool
    take_after: float | None
    limits: Limits
    users: Mapping[str, tuple[str, ...]]
    """The Unix users as whom a person of the fleet may submit."""
    secrets: Mapping[str, tuple[str, ...]]
    """The sets of secrets that a person's runs may have."""
    people: frozenset[str]
    """Those of the persons who may use this slice."""
    on_result: Rule | None
    """What may stop arms of a sweep early."""
    reserved: frozenset[str] | None
    """The people whose runs alone this slice takes; None: those of all."""
    venvs: frozenset[str]
    venvs_elsewhere: frozenset[str]
    venvs_on_need: frozenset[str] = frozenset()
    """Those that are built here when a run needs them."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """The variables of role training_run."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    metadata: str = ""
    storage: str = STORAGE
    systemctl: str = "/usr/bin/systemctl"

    @property
    def leads(self) -> bool:
        """Return whether this worker decides for its slice."""
        return self.worker == 0

    @property
    def declared(self) -> frozenset[str]:
        """Return the names of the declared runs."""
        return frozenset(run["name"] for run in self.training["training_run_runs"])

    def owner(self, boot: str, machine: str) -> Owner:
        """Return this machine as the owner of a run; it has an id where its node's is not given."""
        node = self.node or machine
        return Owner(self.slice, self.zone, self.type, self.chips, node, boot)

    def serving(self, busy: str, without: frozenset[str] = frozenset()) -> Serving:
        """Return this slice as one that serves the queue, and why it takes no run now.

        `without` are venvs that it cannot have.
        """
        venvs = self.venvs - without
        return Serving(self.slice, self.type, self.chips, venvs, busy, self.reserved)


def parse(found: Mapping[str, Any]) -> Settings:
    """Turn the content of the settings file into Settings."""
    place = bucket_and_folder(found["queue"])
    if place is None:
        raise ValueError(f"{found['queue']} is no address of a bucket")
    reserved, rule = found.get("reserved"), found.get("on_result")
    made: dict[str, Any] = {
        **{key: found[key] for key in _AS_IT_IS},
        **{key: found[key] for key in ("storage", "systemctl") if found.get(key)},
        **{key: frozenset(found[key]) for key in ("people", "venvs", "venvs_elsewhere")},
        "reserved": None if reserved is None else frozenset(reserved),
        "on_result": Rule(tuple(rule["command"]), rule["every"]) if rule else None,
        "venvs_on_need": frozenset(found.get("venvs_on_need", ())),
        "users": {person: tuple(names) for person, names in found["users"].items()},
        "secrets": {person: tuple(names) for person, names in found["secrets"].items()},
        "hosts": tuple(found["hosts"]),
    }
    return Settings(
        bucket=place[0],
        folder=place[1],
        limits=Limits(**found["limits"]),
        **made,
    )


_AS_IT_IS = (
    *("slice", "zone", "node", "type", "chips", "worker", "port", "declared_first", "take_after"),
    *("training", "run_defaults", "metadata"),
)
