"""What the agent is to stage on one worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HUB = "https://huggingface.co"
STORAGE = "https://storage.googleapis.com"
METADATA = "http://metadata.google.internal"


@dataclass(frozen=True)
class Dataset:
    """One declared data set."""

    name: str
    id: str
    source: str
    """The address, for this machine's zone."""
    path: str
    size: int
    """How many bytes it may have at most."""
    user: str = ""
    sha256: str = ""
    include: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """The data sets of one worker, and the workers of its slice."""

    datasets: tuple[Dataset, ...]
    hosts: tuple[str, ...]
    worker: int
    port: int
    key: str = ""
    """By which the workers of the slice know each other."""
    hub: str = HUB
    storage: str = STORAGE
    metadata: str = METADATA
    tokens: Mapping[str, str] = field(default_factory=dict)
    """The hub's, by the name of the data set."""

    @property
    def is_first(self) -> bool:
        """Return whether this worker downloads for the others."""
        return self.worker == 0

    @property
    def passes_on(self) -> bool:
        """Return whether one worker downloads for all: they need a key for that."""
        return len(self.hosts) > 1 and bool(self.key)


def config_of(told: Mapping[str, Any], key: str = "") -> Config:
    """Read the file that the role has written."""
    more: dict[str, Any] = {
        name: str(told[name]) for name in ("hub", "storage", "metadata") if name in told
    }
    return Config(
        datasets=tuple(_dataset(entry) for entry in told["datasets"]),
        hosts=tuple(str(host) for host in told["hosts"]),
        worker=int(told["worker"]),
        port=int(told["port"]),
        key=key,
        **more,
    )


def _dataset(entry: Mapping[str, Any]) -> Dataset:
    return Dataset(
        **{key: str(entry[key]) for key in ("name", "id", "source", "path")},
        size=int(entry["size"]),
        user=str(entry.get("user") or ""),
        sha256=str(entry.get("sha256") or ""),
        include=tuple(entry.get("include") or ()),
        secrets=tuple(entry.get("secrets") or ()),
    )
