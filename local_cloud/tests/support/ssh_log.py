"""Count what small machines of a local cloud saw of ssh: their sshd's logs say it exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tpu_local_cloud.machines.layout import Layout

_CONNECTION = re.compile(r"^Connection from \S+ port \d+ on ", re.MULTILINE)
_LOGIN = re.compile(r"^Accepted \S+ for ", re.MULTILINE)
# A command, a shell or a subsystem such as sftp; several may share one connection.
_EXECUTION = re.compile(r"^Starting session: ", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """What one machine saw."""

    connections: int
    """Of whatever kind, also of a client that only looks whether sshd is there."""
    logins: int
    executions: int


def count(text: str) -> Seen:
    """Count in the text of a log."""
    return Seen(*(len(pattern.findall(text)) for pattern in (_CONNECTION, _LOGIN, _EXECUTION)))


class SshLogs:
    """The logs of all small machines of a cloud, from this moment on."""

    def __init__(self, state_dir: Path) -> None:
        self._paths = {
            path.parent.name: path for path in (Layout(state_dir).home / "small").glob("*/sshd.log")
        }
        self._starts = {name: path.stat().st_size for name, path in self._paths.items()}

    def count(self) -> dict[str, Seen]:
        """Return by machine, as it is called in the cloud, what it has seen since."""
        found = {}
        for machine_id, path in self._paths.items():
            with path.open("rb") as file:
                file.seek(self._starts[machine_id])
                # sshd ends its lines as a terminal would.
                found[machine_id] = count(file.read().decode(errors="replace").replace("\r", ""))
        return found
