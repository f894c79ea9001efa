# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that each person needs on their own computer. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.plain_text import shown
from .connections import KEX_OPTION

# Where the files are on the person's own computer.
PLACE = "~/.ssh/tpu-fleet"
FOLDER = "tpu-fleet"


@dataclass(frozen=True)
class Machine:
    """A machine and how a person reaches it."""

    host: str
    slice: str
    worker: int
    workers: int
    zone: str
    project: str
    kind: str
    address: str
    internal: str
    options: Mapping[str, str] = field(default_factory=dict)
    # known_hosts lines under its alias.
    keys: tuple[str, ...] = ()

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], keys: Sequence[str] = ()) -> Machine:
        """Read a machine from the inventory's variables."""
        return cls(
            host=facts["host"],
            slice=facts["slice"],
            worker=int(facts["worker"]),
            workers=int(facts["workers"]),
            zone=facts.get("zone") or "-",
            project=facts.get("project") or "-",
            kind=facts.get("kind") or "",
            address=facts["address"],
            internal=facts.get("internal") or "-",
            options=dict(facts.get("options") or {}),
            keys=tuple(keys),
        )

    @property
    def alias(self) -> str:
        """Name under which ssh looks up the machine's keys."""
        return self.options.get("HostKeyAlias", self.host)

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names: worker 0 also has the one of its slice."""
        if self.worker == 0 and self.slice != self.host:
            return (self.host, self.slice)
        return (self.host,)


def machines_of(user: Mapping[str, Any], machines: Iterable[Machine]) -> list[Machine]:
    """List the machines that a user may log in to."""
    slices = user.get("slices") or ()
    return [machine for machine in machines if not slices or machine.slice in slices]


def ssh_files(user: str, machines: Sequence[Machine], finder: str) -> dict[str, str]:
    """Return the files of the folder that goes to ~/.ssh, by name."""
    return {
        "config": _config(user, machines),
        "hosts": "".join(_host(machine) for machine in machines),
        "addresses": "".join(
            f"Host {' '.join(machine.names)}\n  HostName {machine.address}\n"
            for machine in machines
            if "ProxyCommand" not in machine.options
        ),
        "machines": "".join(
            f"{name} {machine.slice} {machine.worker} {machine.zone} {machine.project} "
            f"{machine.internal} {machine.alias}\n"
            for machine in machines
            for name in machine.names
            if "ProxyCommand" not in machine.options
        ),
        "known_hosts": "".join(f"{line}\n" for machine in machines for line in machine.keys),
        "find": finder,
    }


def _config(user: str, machines: Sequence[Machine]) -> str:
    names = ",".join(name for machine in machines for name in machine.names)
    if not names:
        return "# Written by tpu.fleet. There is no machine for you at the moment.\n"
    return f"""\
# Written by tpu.fleet. The first line of ~/.ssh/config must be:  Include {PLACE}/config
# A machine that was maintained has another address. `find` looks first whether it is where it was,
# and corrects the file addresses if not. What ssh connects to is verified by its host key anyway.
Match originalhost {names} exec "sh {PLACE}/find %n"
Match originalhost {names}
  User {user}
Match all
Include {PLACE}/addresses
Match all
Include {PLACE}/hosts
"""


def _host(machine: Machine) -> str:
    lines = [f"Host {' '.join(machine.names)}"]
    for key, value in machine.options.items():
        # The key exchange matters only for many connections; a person opens one.
        if key != KEX_OPTION:
            place = f"{PLACE}/known_hosts" if key == "UserKnownHostsFile" else value
            lines.append(f"  {key} {place}")
    return "\n".join(lines) + "\n"


def guide(user: Mapping[str, Any], machines: Sequence[Machine], data: Mapping[str, Any]) -> str:
    """Return the README of a person, in plain English."""
    name = user["name"]
    sections = [_head(name), _connect(machines)]
    if machines:
        first = machines[0].names[-1]
        sections.append(_keys(user, machines))
        sections += [
            _around(first),
            _runs(name, machines, data),
            _places(user, machines, data),
            _servers(name, machines, data),
            _rights(user),
        ]
    return "\n".join(section for section in sections if section)


def _head(name: str) -> str:
    return f"""\
Your TPU machines
=================

You are {name} there, and log in with your SSH key; there is no password.

1. Put the folder {FOLDER} beside this text into ~/.ssh of your computer, so that there is
   {PLACE}/config. (Again whenever you get a new one.)
2. Make this the first line of ~/.ssh/config, a new file if you have none:

     Include {PLACE}/config
"""


def _connect(machines: Sequence[Machine]) -> str:
    if not machines:
        return "There is no machine for you at the moment. You get a new folder when there is.\n"
    width = max(len(machine.host) for machine in machines)
    lines = ["3. Log in:", "", f"     ssh {machines[0].names[-1]}", "", "These are yours:", ""]
    for machine in machines:
        also = f", also {machine.names[1]}" if len(machine.names) > 1 else ""
        which = f", worker {machine.worker} of {machine.workers}" if machine.workers > 1 else ""
        lines.append(f"  {machine.host:{width}}  {machine.kind} in {machine.zone}{which}{also}")
    return (
        "\n".join(lines)
        + """

The names stay. Addresses change when Google maintains a machine; ssh then finds the new one by
itself, through another machine of yours, or through gcloud if you have it. If it says it cannot,
ask for a new folder. You need one too when a slice was deleted and created again.

A warning that a host identification has changed is never normal here: do not go on, and ask.
(On Windows without `sh`, addresses are not looked up: ask for a new folder when they change.)
"""
    )


def _keys(user: Mapping[str, Any], machines: Sequence[Machine]) -> str:
    """Say which keys open the machines, and how ssh finds one under another name."""
    lines = [f"  {found}" for key in user.get("keys") or () if (found := fingerprint(str(key)))]
    names = dict.fromkeys(
        name
        for one in machines
        for name in (one.slice, *([f"{one.slice}-w*"] if one.workers > 1 else []))
    )
    return "\n".join(
        [
            "Your key",
            "--------",
            "",
            "The machines know these public keys of yours:",
            "",
            *(lines or ["  none yet: send the one line of your .pub file to your administrator"]),
            "",
            "`ssh-keygen -lf FILE.pub` prints the same of a file. ssh offers the usual files by",
            "itself (~/.ssh/id_ed25519, ~/.ssh/id_rsa, ...). With another name it is refused with",
            "`Permission denied (publickey)`: add this to ~/.ssh/config, below the Include line:",
            "",
            f"     Host {' '.join(names)}",
            "       IdentityFile ~/.ssh/NAME-OF-YOUR-KEY",
            "",
        ]
    )


def fingerprint(key: str) -> str:
    """Show a public key as ssh-keygen -l does, without its size; empty if it is no key."""
    kind, blob, comment = [*key.split(None, 2), "", "", ""][:3]
    try:
        digest = hashlib.sha256(base64.b64decode(blob, validate=True)).digest()
    except ValueError:
        return ""
    mark = base64.b64encode(digest).decode().rstrip("=")
    return shown(f"{kind} SHA256:{mark} {comment.strip()}") if blob else ""


def _around(host: str) -> str:
    return f"""\
Every day
---------

  ssh -t {host} tmux new -A -s work     a session that stays when your connection goes
  scp file {host}:                      copy; rsync -a folder {host}: for many files
  mosh {host}                           for bad networks, if the fleet's firewall lets it in (UDP)
  ssh -N -L 8080:localhost:8080 {host}  open a port of the machine on your computer

VS Code: install "Remote - SSH", then "Remote-SSH: Connect to Host", and take {host}.
It reads the same ~/.ssh/config.
"""


def _at(entry: Mapping[str, Any], machines: Sequence[Machine]) -> list[Machine]:
    """List the machines that an entry of the fleet file is on."""
    slices = entry.get("slices") or ()
    return [machine for machine in machines if not slices or machine.slice in slices]


def _where(entry: Mapping[str, Any], machines: Sequence[Machine]) -> str:
    """Return on which of a person's machines an entry is, if not on all of them."""
    workers = entry.get("workers") or ()
    places = [m.host for m in _at(entry, machines) if not workers or m.worker in workers]
    return f", on {', '.join(places)}" if len(places) < len(machines) else ""


def _runs(name: str, machines: Sequence[Machine], data: Mapping[str, Any]) -> str:
    lines = []
    for run in data.get("runs") or ():
        places = _at(run, machines)
        if run.get("user") != name or not places:
            continue
        host = places[0].names[-1]
        lines += [
            f"  {run['name']} on {', '.join(sorted({machine.slice for machine in places}))}",
            f"    ssh -t {host} tmux attach -t {run['name']}      look on; Ctrl-B D leaves it",
            f"    ssh {host} tail -f /var/log/tpu-fleet/runs/{run['name']}/run.log",
        ]
    if not lines:
        return ""
    return "\n".join(["Your runs", "---------", "", *lines]) + "\n"


def _places(user: Mapping[str, Any], machines: Sequence[Machine], data: Mapping[str, Any]) -> str:
    lines = [f"  {user.get('home') or '/home/' + user['name']}  your home, one on each machine"]
    for venv in data.get("venvs") or ():
        if venv.get("user") in (None, "root", user["name"]) and _at(venv, machines):
            path = venv.get("path") or f"/opt/venvs/{venv['name']}"
            where = _where(venv, machines)
            lines.append(f"  {path}  Python{where}: source {path}/bin/activate")
    for key, what in (
        ("shares", "shared, the same on all machines"),
        ("disks", "data disk"),
        ("buckets", "bucket"),
    ):
        for entry in data.get(key) or ():
            path = entry.get("path")
            if path and _at(entry, machines):
                readable = ", read only" if entry.get("read_only") else ""
                lines.append(f"  {path}  {what}{readable}{_where(entry, machines)}")
    return "\n".join(["Where things are", "----------------", "", *lines]) + "\n"


def _servers(name: str, machines: Sequence[Machine], data: Mapping[str, Any]) -> str:
    lines = []
    for key, what in (("notebooks", "notebook"), ("boards", "TensorBoard")):
        for entry in data.get(key) or ():
            places = [m for m in _at(entry, machines) if m.worker == int(entry.get("worker") or 0)]
            port = entry.get("port")
            if entry.get("user") not in (None, name) or not port or entry.get("enabled") is False:
                continue
            for machine in places:
                host = machine.names[-1]
                lines += [
                    f"  {entry['name']}, a {what} on {host}:",
                    f"    ssh -N -L {port}:localhost:{port} {host}",
                    f"    then http://localhost:{port}/ in your browser",
                ]
                if key == "notebooks" and entry.get("token") == "secret":
                    lines.append("    its token: JUPYTER_TOKEN of your secrets")
                elif key == "notebooks":
                    token = f"/etc/tpu-fleet/services/notebook-{entry['name']}.token"
                    lines.append(f"    its token: ssh {host} cat {token}")
    if not lines:
        return ""
    return "\n".join(["In your browser", "---------------", "", *lines]) + "\n"


def _rights(user: Mapping[str, Any]) -> str:
    sudo = user.get("sudo")
    if not sudo:
        what = "You have no sudo. Ask for what needs it."
    elif sudo == "all":
        what = "You may do everything as root, with sudo. Others work there too."
    else:
        what = "With sudo you may run: " + ", ".join(sudo)
    return f"""\
Good to know
------------

{what}
A TPU belongs to one program at a time. What is not in a share, on a data disk, in a bucket or
pushed is gone when a slice is deleted or preempted.
"""
