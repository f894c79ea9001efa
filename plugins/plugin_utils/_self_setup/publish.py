# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish what machines set themselves up with: files by their hash, and for each slice what it is.

The setup of a slice is signed with the key that Ansible logs in with.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._apply_agent.first import NAMESPACE
from ...module_utils._apply_agent.talk import PROTOCOL
from ...module_utils._core import threads
from ...module_utils._core.errors import TpuError
from ...module_utils._google.storage import Place
from .._apply.wish import Order

# Of the slice, in the inventory of its machines. It is none of theirs.
AS_PUBLISHED = "as-published"
UPLOADS = 16


@dataclass(frozen=True)
class Slice:
    """The setup of the workers of one slice."""

    name: str
    uid: str
    orders: Sequence[Order]
    # Addresses of the workers as they are now, in their order.
    addresses: Sequence[Mapping[str, str]]
    without: Sequence[str] = ()
    # What they agreed on; of what is not here, what they agreed on before.
    found: Mapping[str, Any] = field(default_factory=dict)
    # Project and owner of the fleet.
    fleet: Mapping[str, str] = field(default_factory=dict)


def pointer_of(one: Slice, agent: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the pointer, which the machines of a slice read first."""
    first = one.orders[0]
    shared = {variable: role for role, variable in shared_roles().items()}
    values = {}
    for variable, role in shared.items():
        given = first.given.get(role, "")
        if variable in one.found:
            values[variable] = {"given": given, "value": one.found[variable]}
        elif before and before.get("agreed", {}).get(variable, {}).get("given") == given:
            values[variable] = before["agreed"][variable]
    found = {variable: known["value"] for variable, known in values.items()}
    return {
        "protocol": PROTOCOL,
        "slice": one.name,
        "fleet": dict(one.fleet),
        "uid": one.uid,
        "agent": agent,
        "workers": [
            {**address, "wish": order.wish}
            for order, address in zip(one.orders, one.addresses, strict=True)
        ],
        "agreed": values,
        "found": {AS_PUBLISHED: {**found, "tpu_vm_name": one.name}} if found else {},
        "without": list(one.without),
    }


def shared_roles() -> Mapping[str, str]:
    """Return what workers of a slice agree on, by role."""
    from ...module_utils._apply_agent.wish import SHARED

    return SHARED


def publish(
    place: Place, slices: Sequence[Slice], agent: bytes, key: str, now: str, check: bool
) -> list[str]:
    """Publish slices; return the names of those that are different from before."""
    name = hashlib.sha256(agent).hexdigest()
    files = {name: agent}
    for one in slices:
        for order in one.orders:
            files.update(order.files)
    changed = []
    for one in slices:
        path = f"slices/{one.name}.json"
        before = _read(place.read(path))
        pointer = pointer_of(one, name, before)
        if before and {**before, "published": ""} == {**pointer, "published": ""}:
            continue
        changed.append((path, pointer, one.name))
    if changed and not check:
        known = {path.rpartition("/")[2] for path in place.names("files/")}
        # First what is pointed at, and then what points there.
        with threads.pool(UPLOADS) as pool:
            missing = [one for one in files if one not in known]
            list(pool.map(lambda one: place.put(f"files/{one}", files[one]), missing))
        for path, pointer, _name in changed:
            text = json.dumps({**pointer, "published": now}, sort_keys=True)
            envelope = {"pointer": text, "signature": sign(text, key)}
            place.put(path, json.dumps(envelope).encode())
    return [name for _path, _pointer, name in changed]


def _read(envelope: Mapping[str, Any] | None) -> dict[str, Any] | None:
    try:
        found = json.loads((envelope or {})["pointer"])
    except (KeyError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def sign(text: str, key: str) -> str:
    """Sign a text with a private key, or with the one of an agent that belongs to it."""
    # No module here could run it; and what it reads and writes is no file.
    # pylint: disable-next=ansible-bad-function
    done = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", key],
        input=text,
        capture_output=True,
        text=True,
        # ssh-keygen must not ask for a passphrase: there is no terminal in an apply.
        env={**os.environ, "SSH_ASKPASS_REQUIRE": "never", "DISPLAY": ""},
        start_new_session=True,
        check=False,
    )
    if done.returncode or "BEGIN SSH SIGNATURE" not in done.stdout:
        raise TpuError(
            f"What machines set themselves up with cannot be signed with {key}: "
            f"{' '.join(done.stderr.split())}",
            remedy="Use a key without a passphrase, or add it to an agent: ssh-add " + key,
        )
    return done.stdout
