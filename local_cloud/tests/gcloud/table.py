"""The commands of gcloud that are run here, and what each has to ask and show: commands/*.yml.

What the requests should be was recorded from gcloud 528.0.0. A row says:

    name      of the test, after that of the file
    run       the command
    tracks    the release tracks it is run in, default as it is written; alpha asks v2alpha1 where
              GA asks v2
    disks     that exist before
    nodes     READY nodes that exist before: name -> accelerator type, or -> body of the node
    queued    queued resources that exist before: name -> body
    compute   requests to Compute Engine before: path below the project -> bodies; those with a name
              make a resource
    stopped   nodes that are stopped
    set       fields of nodes, set past the API: name -> fields
    before    faults that are on from the beginning
    faults    faults that are on when the command runs
    project_metadata, env (null takes a variable away)
    exit      of gcloud, default 0
    requests  that reach the cloud, in order: METHOD /path?query [-> status], with a body as the
              value of a mapping. `*` stands for a page token, for a group of operations, and for an
              operation, which is polled until it is done; how often is a matter of time. The calls
              of a batch follow it, each after `batch: `.
    stdout, stderr   texts that have to be in them
    rows      the lines of stdout, however wide their columns are
    shown     what has to be in the YAML or JSON of stdout; null: must not be there
    differs   why a recording of gcloud with a plain answering machine looks different
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

COMMANDS = Path(__file__).parent / "commands"
# In place of the answer that gcloud read just before, in which it changes some fields. Of an
# instance it sends all metadata again.
AS_READ = "node as read, with"
METADATA = "instance as read, with"


@dataclass(frozen=True)
class Command:
    """One row."""

    group: str
    name: str
    run: str
    tracks: list[str] = field(default_factory=lambda: [""])
    disks: list[str] = field(default_factory=list)
    nodes: dict[str, Any] = field(default_factory=dict)
    queued: dict[str, dict[str, Any]] = field(default_factory=dict)
    compute: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    set: dict[str, dict[str, Any]] = field(default_factory=dict)
    before: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    project_metadata: dict[str, str] = field(default_factory=dict)
    env: dict[str, str | None] = field(default_factory=dict)
    exit: int = 0
    requests: list[str | dict[str, Any]] = field(default_factory=list)
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    rows: list[str] | None = None
    shown: Any = None
    differs: str = ""

    def in_track(self, track: str) -> Command:
        """Return the same command in another release track."""
        if not track:
            return self
        asked = _renamed(self.requests, "/v2/", "/v2alpha1/") if track == "alpha" else self.requests
        run = self.run.replace("gcloud ", f"gcloud {track} ", 1)
        return replace(self, name=f"{self.name}-{track}", run=run, requests=asked)


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {key.replace(old, new): item for key, item in value.items()}
    return [_renamed(item, old, new) for item in value]


def table() -> Iterator[Command]:
    """Return all rows, one for each track."""
    known = {item.name for item in fields(Command)} - {"group"}
    for path in sorted(COMMANDS.glob("*.yml")):
        for row in yaml.safe_load(path.read_text())["commands"]:
            unknown = set(row) - known
            if unknown:
                raise ValueError(f"{path.name}: {row.get('name')}: unknown keys {sorted(unknown)}")
            command = Command(path.stem, **row)
            for track in command.tracks:
                yield command.in_track("" if track == "ga" else track)
