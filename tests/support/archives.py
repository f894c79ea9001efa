"""An archive of a run in a small server of objects."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core import archive
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.archive import RunArchive
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from object_server import Objects

from tpu_fleet.workers.archive.declared import Archives, Kept

FIRST, SECOND = "20261129T070120Z-0a1b2c3d", "20261130T070120Z-0a1b2c3d"
AT = 1_700_000_000.0


def put(lab: Objects, name: str, content: bytes, at: float = AT) -> None:
    """Write an object with its content."""
    lab.put(name, at, len(content))
    lab.contents[name] = content


def part(
    lab: Objects, life: str, number: int, *frames: bytes, host: str = "solo", at: float = AT
) -> None:
    """Write a part of the run digits."""
    folder = f"all/digits/{host.partition('-w')[0]}/{host}/{life}/"
    put(lab, folder + archive.part_name(number, number), b"".join(frames), at)


def log(at: int, text: str, when: float = AT) -> bytes:
    """Return a frame of the log."""
    return archive.frame(archive.LOG, at, text.encode(), when)


def events(*told: dict[str, Any]) -> bytes:
    """Return a frame of events."""
    text = "".join(json.dumps(one) + "\n" for one in told)
    return archive.frame(archive.EVENTS, 0, text.encode(), AT)


def kept(lab: Objects) -> Kept:
    """Return the archive as it is listed now."""
    found = RunArchive(GoogleApis(Client("lab", endpoint=lab.url)), "lab", "all/digits/")
    return Kept("digits", "gs://lab/all", found, found.lives())


def archives(lab: Objects) -> Archives:
    """Return the archives of a fleet that declares this one."""
    return Archives(_addresses={"digits": "gs://lab/all"}, _kept={"digits": kept(lab)})
