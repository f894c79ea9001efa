"""What a watcher knows of the past. All of it is on disk, for it may be killed at any moment."""

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
    """What is known of one slice."""

    uid: str = ""
    """The node that was last seen."""
    phase: str = ""
    boots: Mapping[str, str] = field(default_factory=dict)
    """The boot of each worker that was last seen."""
    away: Mapping[str, float] = field(default_factory=dict)
    """Workers that did not answer, and since when."""
    due: tuple[str, ...] = ()
    """Why it is to be set up; empty when there is nothing to do."""
    lost_as: str = ""
    lost_at: float = 0.0
    failures: int = 0
    next_at: float = 0.0
    healed: str = ""
    """What was done, until it is told: a line as title, then the text."""
    resumed: tuple[str, ...] = ()
    """Runs that were missing, and for which it was set up once."""
    mark: str = ""
    """Of the runs that its workers were told of, by what is noted there as applied."""
    applied: str = ""
    asked_at: float = 0.0
    """When its workers were asked last, all of them."""
    idle_since: float = 0.0
    """Since when nobody uses it; 0 when somebody does."""
    rest_failures: int = 0
    """How often it could not be put to rest."""
    rest_at: float = 0.0
    """When that is tried again."""


NOTHING = SliceMemory()


@dataclass(frozen=True)
class Memory:
    """All that a watcher has to keep."""

    slices: Mapping[str, SliceMemory] = field(default_factory=dict)
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)
    known: bool = False
    """Whether there was a look before this one."""
    hosts_known: tuple[str, ...] = ()
    """Nodes whose workers were asked before."""
    book: str = ""
    """Of which nodes and addresses the ssh configuration tells."""
    failures: int = 0
    """Of playbooks that ask the API for something, in a row."""
    next_at: float = 0.0
    pids: Mapping[str, float] = field(default_factory=dict)
    """Our playbooks that run, and when they were started."""
    clock: Mapping[str, Any] = field(default_factory=dict)
    """The reading of the clock by which all of this is, as it was kept."""

    def slice(self, name: str) -> SliceMemory:
        """Return what is known of a slice."""
        return self.slices.get(name) or NOTHING

    def with_slice(self, name: str, known: SliceMemory) -> Memory:
        """Return the memory with something new of a slice."""
        return replace(self, slices={**self.slices, name: known})

    def after_a_boot(self) -> Memory:
        """Return the memory when nobody watched for a while that is not known."""
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
        """Return what a file says; fields that another version wrote are passed over."""
        slices = {name: _slice(known) for name, known in (data.get("slices") or {}).items()}
        troubles = {key: Trouble(**one) for key, one in (data.get("troubles") or {}).items()}
        plain = {
            key: data[key]
            for key in ("known", "book", "failures", "next_at", "pids")
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
    for name in ("due", "resumed"):
        known[name] = tuple(known.get(name) or ())
    return SliceMemory(**known)


def load(path: Path) -> Memory:
    """Read the file; without one, and when it is broken, there is no past."""
    try:
        return Memory.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Memory()
    except (ValueError, TypeError, KeyError, AttributeError):
        # Kept for whoever wants to know; to begin anew is safe, for all is seen again.
        path.replace(path.with_suffix(".broken"))
        return Memory()
