"""The watcher's memory, stored on disk because the watcher may be killed at any time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..notify.outbox import Outbox
from .trouble import Trouble

SCHEMA = 1


@dataclass(frozen=True)
class SliceMemory:
    """The knowledge of one slice."""

    uid: str = ""
    """The node that was last seen."""
    phase: str = ""
    boots: Mapping[str, str] = field(default_factory=dict)
    """The boot of each worker that was last seen."""
    away: Mapping[str, float] = field(default_factory=dict)
    """Workers that do not answer, and since when."""
    due: tuple[str, ...] = ()
    """Why it must be set up; empty if there is nothing to do."""
    lost_as: str = ""
    lost_at: float = 0.0
    failures: int = 0
    next_at: float = 0.0
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    """On what the checkpoints of each run are, as its workers last said."""
    healed: str = ""
    """The title and text about its setup, until they are sent."""
    resumed: tuple[str, ...] = ()
    """Missing runs for which it has already been set up once."""
    mark: str = ""
    """Hash of the runs that its workers recorded as applied."""
    applied: str = ""
    asked_at: float = 0.0
    """When all its workers were last asked."""
    idle_since: float = 0.0
    """Since when it is idle; 0 if it is used."""
    rest_failures: int = 0
    """How often it could not be stopped or deleted."""
    rest_at: float = 0.0
    """When that is tried again."""
    recreated: tuple[float, ...] = ()
    """When it was recreated for chips that did not initialise."""
    recreate_failures: int = 0
    recreate_at: float = 0.0
    """When that is tried again."""


NOTHING = SliceMemory()


@dataclass(frozen=True)
class Memory:
    """Everything that a watcher must keep."""

    slices: Mapping[str, SliceMemory] = field(default_factory=dict)
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)
    known: bool = False
    """Whether there was a poll before this one."""
    hosts_known: tuple[str, ...] = ()
    """Nodes whose workers were asked before."""
    book: str = ""
    """Nodes and addresses in the ssh configuration."""
    failures: int = 0
    """Failures in a row of playbooks that send requests to the API."""
    next_at: float = 0.0
    pids: Mapping[str, float] = field(default_factory=dict)
    """Running playbooks, and when they were started."""
    spend: Mapping[str, Any] = field(default_factory=dict)
    """What the slices have cost, as `spend.Spend` writes it; empty without a budget."""
    clock: Mapping[str, Any] = field(default_factory=dict)
    """The stored reading of the clock that all these times use."""

    def slice(self, name: str) -> SliceMemory:
        """Return the knowledge of a slice."""
        return self.slices.get(name) or NOTHING

    def with_slice(self, name: str, known: SliceMemory) -> Memory:
        """Return the memory with changes for a slice."""
        return replace(self, slices={**self.slices, name: known})

    def after_a_boot(self) -> Memory:
        """Return the memory after an unknown time without a watcher."""
        slices = {name: replace(known, asked_at=0.0) for name, known in self.slices.items()}
        return replace(self, slices=slices)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        rest = {k: v for k, v in vars(self).items() if k not in ("slices", "troubles", "outbox")}
        return {
            "schema": SCHEMA,
            **rest,
            "slices": {name: asdict(known) for name, known in self.slices.items()},
            "troubles": {key: asdict(trouble) for key, trouble in self.troubles.items()},
            "outbox": self.outbox.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Memory:
        """Return the content of a file, without fields of other versions."""
        slices = {name: _slice(known) for name, known in (data.get("slices") or {}).items()}
        troubles = {key: Trouble(**one) for key, one in (data.get("troubles") or {}).items()}
        plain = {
            key: data[key]
            for key in ("known", "book", "failures", "next_at", "pids", "spend")
            if key in data
        }
        reading = data.get("clock") or {}
        if reading:
            plain["clock"] = {
                "boot": str(reading["boot"]),
                "ahead": float(reading["ahead"]),
                "now": float(reading["now"]),
            }
        return cls(
            slices=slices,
            troubles=troubles,
            outbox=Outbox.from_dict(data.get("outbox") or {}),
            hosts_known=tuple(data.get("hosts_known") or ()),
            **plain,
        )


def _slice(data: Mapping[str, Any]) -> SliceMemory:
    known = {key: value for key, value in data.items() if key in SliceMemory.__dataclass_fields__}
    for name in ("due", "resumed", "recreated"):
        known[name] = tuple(known.get(name) or ())
    return SliceMemory(**known)


def load(path: Path) -> Memory:
    """Read the file; a missing or broken file means no past."""
    try:
        return Memory.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Memory()
    except (ValueError, TypeError, KeyError, AttributeError):
        # Kept for inspection; starting without it is safe, because everything is seen again.
        path.replace(path.with_suffix(".broken"))
        return Memory()
