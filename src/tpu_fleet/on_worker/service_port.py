"""The listener on the port of a service: its socket unit, its user, or a stranger.

Every user of a worker can bind a port of the loopback address that is free. A client would
give such a user the token of the service.
"""

from __future__ import annotations

import json
import pwd
import subprocess
import sys
from typing import Any

from .listeners import ANY, Listener, described, of_port

SYSTEMCTL = "/usr/bin/systemctl"


def main() -> int:
    """Print what is known of the port that the last argument names."""
    name, port, user = json.loads(sys.argv[-1])
    print(json.dumps(told(name, of_port(port), uid_of(user))))
    return 0


def uid_of(user: str) -> int | None:
    """Return a user's id; None if there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def told(name: str, found: list[Listener], uid: int | None) -> dict[str, Any]:
    """Return whether there is a listener, and the one that is not the service's."""
    reached = [one for one in found if one.loopback or one.address in ANY]
    strangers = [
        one for one in reached if one.uid != uid and not (one.uid == 0 and held_by_systemd(name))
    ]
    return {"listens": bool(reached), "stranger": described(strangers[0]) if strangers else ""}


def held_by_systemd(name: str) -> bool:
    """Return whether the socket unit of the service listens."""
    unit = f"tpu-fleet-port-{name}.socket"
    return not subprocess.run([SYSTEMCTL, "is-active", "--quiet", unit], check=False).returncode
