# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply what was published for this worker, without a controller.

It applies the wish that a controller would have sent, except for secrets; the variables that
describe the machine come from its metadata. Files come from where they were published, and the
values that all workers of a slice share are those of the last apply.
"""

from __future__ import annotations

import io
import json
import re
import socket
from dataclasses import asdict, replace
from typing import Any, Dict, List, Mapping, Sequence

from . import first
from .engine import engine_of
from .place import Place, read
from .session import Session
from .store import Store, StoreError
from .talk import PROTOCOL, Line
from .wish import AT_BOOT, Known, Wish, digest

_TPU_ENV = re.compile(r"^(\w+): '(.*)'$", re.M)


class Alone(Line):
    """Replaces a controller's line: reads files from the source, and writes events to the log."""

    def __init__(self, source: Any, found: Mapping[str, Any]) -> None:
        super().__init__(io.BytesIO(), io.BytesIO())
        self._source = source
        self._found = dict(found)
        self.result: Dict[str, Any] = {}
        # Whether another process is applying roles here.
        self.held = False

    def say(self, what: str, /, **more: Any) -> None:
        """Write to the log what a user may want to know."""
        self.held = self.held or what == "waiting"
        if what == "result":
            self.result = more
        elif what == "begin":
            first.say(f"applying {', '.join(more['roles'])}")
        elif what == "event" and more.get("status") in ("changed", "failed"):
            told = f" {more.get('msg') or ''}" if more["status"] == "failed" else ""
            first.say(f"{more['status']}: {more['task']}{told}")

    def fetch(self, store: Store, names: Sequence[str]) -> None:
        """Fetch files, which are checked by their hash."""
        for name in store.missing(names):
            data = self._source.read(f"files/{name}")
            store.receive(io.BytesIO(data), name, len(data))

    def peers(self) -> Dict[str, Any]:
        """Return the values that the slice shared at the last apply."""
        return self._found


class Machine:
    """What the metadata contains about this machine; the publisher could not know it.

    Machines of a group of Compute Engine do not get its id: then the published uid stays.
    """

    def __init__(self, uid: str, zone: str, index: int, internal: List[str], external: str) -> None:
        self.uid = uid
        self.zone = zone
        self.index = index
        self.internal = internal
        self.external = external

    def variables(self) -> Dict[str, Any]:
        """Return the variables that the inventory would have for this machine."""
        return {
            **({"tpu_vm_uid": self.uid} if self.uid else {}),
            "tpu_vm_zone": self.zone,
            "tpu_vm_worker_index": self.index,
            "tpu_vm_worker_count": len(self.internal),
            "tpu_vm_internal_ip": self.internal[self.index],
            "tpu_vm_external_ip": self.external or None,
            "tpu_vm_slice_hosts": self.internal,
            "tpu_vm_state": "READY",
        }

    def instead_of(self, uid: str, workers: Sequence[Mapping[str, Any]]) -> Dict[str, str]:
        """Map uid and addresses of the published machines to those of the present ones."""
        found = {uid: self.uid}
        for old, new in zip(workers, self.internal):  # noqa: B905 - Python 3.8
            found[str(old["internal_ip"] or "")] = new
        if self.external:
            found[str(workers[self.index]["external_ip"] or "")] = self.external
        return {old: new for old, new in found.items() if old and new and old != new}


def main(words: str) -> int:
    """Apply what the startup script has fetched; return the exit code."""
    given = json.loads(words)
    pointer = given["pointer"]
    place = Place()
    source = first.source_of(given["place"])
    try:
        return be(place, pointer, source, machine(), engine_of(place))
    except (StoreError, OSError, first.Trouble) as error:
        first.note_why(str(error))
        first.say(f"not yet: {error}")
        return 1


def be(place: Place, pointer: Mapping[str, Any], source: Any, here: Machine, engine: Any) -> int:
    """Apply the published wish; return the exit code."""
    if pointer["protocol"] != PROTOCOL:
        raise first.Trouble(f"what is published speaks protocol {pointer['protocol']}")
    if len(here.internal) != len(pointer["workers"]):
        raise first.Trouble(
            f"the slice has {len(here.internal)} workers now, and what is published is for "
            f"{len(pointer['workers'])}: that is left to a controller"
        )
    line, store = Alone(source, pointer["found"]), Store(place.store)
    wish = Wish.read(pointer["workers"][here.index]["wish"])
    line.fetch(store, wish.files)
    wish = _for_here(wish, store, pointer, here)
    if not _due(place):
        first.note("left", why="a controller has set this machine up")
        return 0
    first.note("begun", published=pointer["published"], without=pointer["without"])
    request = {"wish": asdict(wish), "who": AT_BOOT, "follow": bool(pointer["found"])}
    # Without patience: a controller that works here has newer values.
    code = Session(place, line, engine, patience=0.0).be(request)
    about = {"published": pointer["published"], "without": pointer["without"]}
    if line.held:
        why = str(line.result.get("problem", ""))
        first.note("waiting", why=why)
        raise first.Trouble(why)
    if code:
        failed = line.result.get("counts", {}).get("failed", 0)
        why = line.result.get("problem") or f"{failed} task failed"
        first.note("failed", why=f"{why}; see {first.LOG} and {place.logs}", **about)
        return code
    first.note("done", **about)
    for text in pointer["without"]:
        first.say(f"set up without {text}")
    return 0


def _due(place: Place) -> bool:
    """Return whether roles are due that no controller has begun or finished."""
    data = read(place.known)
    if data is None:
        return True
    roles = Known.read(data).roles.values()
    ours = first.read_status().get("state") in first.BEGUN
    return ours and any(role.status != "ok" for role in roles)


def machine() -> Machine:
    """Return this machine as the metadata server describes it."""
    env = dict(_TPU_ENV.findall(first.metadata("instance/attributes/tpu-env", "")))
    index = int(first.metadata("instance/attributes/agent-worker-number"))
    endpoints = first.metadata("instance/attributes/worker-network-endpoints")
    interface = "instance/network-interfaces/0/"
    return Machine(
        uid=env.get("UID") or _own_id(),
        zone=env.get("ZONE") or first.metadata("instance/zone").rpartition("/")[2],
        index=index,
        internal=[address(one) for one in endpoints.split(",")],
        external=first.metadata(f"{interface}access-configs/0/external-ip", "").strip(),
    )


def _own_id() -> str:
    """Return the id of the slice on Compute Engine, whose `tpu-env` has none; empty for a group."""
    is_grouped = first.metadata("instance/attributes/created-by", "")
    return "" if is_grouped else first.metadata("instance/id").strip()


def address(endpoint: str) -> str:
    """Return a worker's address from `name:uid:address`; Compute Engine has only its name there."""
    word = endpoint.strip().rpartition(":")[2]
    if re.fullmatch(r"[0-9.]+", word):
        return word
    try:
        return socket.gethostbyname(word)
    except OSError as error:
        raise first.Trouble(f"worker {word} of the slice has no address yet: {error}") from error


def _for_here(wish: Wish, store: Store, pointer: Mapping[str, Any], here: Machine) -> Wish:
    """Write the variables for this machine to the store, under their hash."""
    path = store.path(wish.variables)
    given = json.loads(path.read_text(encoding="utf-8"))
    instead = here.instead_of(pointer["uid"], pointer["workers"])
    for kind in ("templates", "plain"):
        given[kind] = rewritten(given[kind], instead)
    for name, value in here.variables().items():
        if given["templates"].pop(name, None) is not None or name in given["plain"]:
            given["plain"][name] = value
    name = digest(given)
    data = json.dumps(given, sort_keys=True, separators=(",", ":")).encode()
    if store.missing([name]):
        store.receive(io.BytesIO(data), name, len(data))
    return replace(wish, variables=name)


def rewritten(value: Any, instead: Mapping[str, str]) -> Any:
    """Replace old values by present ones, as whole words in all texts of a value."""
    if not instead:
        return value
    words = "|".join(re.escape(old) for old in sorted(instead, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.])(?:{words})(?![\w]|\.\w)")

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            return pattern.sub(lambda found: instead[found.group()], part)
        if isinstance(part, dict):
            return {name: walk(inner) for name, inner in part.items()}
        return [walk(inner) for inner in part] if isinstance(part, list) else part

    return walk(value)
