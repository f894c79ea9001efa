"""The machine as the test sees it: what runs there as mallory, and what root finds out."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from fleet import ROOT, Fleet

from . import shared

HERE = Path(__file__).parent / "on_machine"
PLACE = "/srv/hostile"
ROLES = (
    "user_accounts",
    "git_access",
    "env_secrets",
    "user_shell",
    "code_checkout",
    "python_env",
    "tensorboard_server",
    "training_run",
)
PREPARE = f"""set -eu
mkdir -p {PLACE} /srv/canary /srv/roots/folder /srv/judge
chmod 755 {PLACE}
chmod 777 /srv/canary
chmod 700 /srv/roots /srv/judge
: > {shared.CANARY}
chmod 666 {shared.CANARY}
echo SECRET-OF-ROOT > /srv/roots/secret
echo SECRET-OF-ROOT > /srv/roots/folder/secret
chmod 600 /srv/roots/secret
# There is no chip: a device that few programs open stands for one, as the run agent looks who uses
# the device's number under any name.
mknod -m 666 /dev/accel0 c 1 7
# Who reads without end is ended here, and not the computer's other work. Where machines are
# containers there may be no other limit of memory.
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\\nDefaultLimitAS=4G\\n' > /etc/systemd/system.conf.d/hostile.conf
systemctl daemon-reexec
systemctl restart ssh
"""


class Machine:
    """One worker, reached by ssh as the owner of the fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def prepare(self) -> None:
        """Bring what runs there, and lay out what is not to be touched."""
        self.root(PREPARE)
        for name in ("mallory.py", "look.py", "roles.py"):
            self.root(f"cat > {PLACE}/{name}", (HERE / name).read_text())

    def ssh(self, command: str, given: str = "", limit: float = 120) -> str:
        """Run a command there; return what it wrote to its standard output."""
        config = str(self.fleet.ssh_config)
        done = subprocess.run(
            ["ssh", "-F", config, "-o", "LogLevel=ERROR", shared.HOST, command],
            cwd=ROOT,
            env=self.fleet.env,
            input=given,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def root(self, script: str, given: str = "", limit: float = 120) -> str:
        """Run a shell script there as root."""
        return self.ssh(f"sudo bash -c {shlex.quote(script)}", given, limit)

    def mallory(self, *words: str, given: str = "") -> Any:
        """Do something there as mallory."""
        program = shlex.join(["/usr/bin/python3", "-I", f"{PLACE}/mallory.py", *words])
        clean = "/usr/sbin/runuser -u mallory -- /usr/bin/env -i PATH=/usr/bin:/bin"
        return json.loads(self.root(f"cd / && {clean} {program}", given))

    def look(self, what: str) -> Any:
        """Look at the whole machine as root."""
        told = self.root(f"/usr/bin/python3 -I {PLACE}/look.py {what}", limit=240)
        return json.loads(told) if told else None

    def who_ran(self) -> list[str]:
        """Return what mallory's programs noted since the last time: a user's number, and what."""
        noted = self.root(f"cat {shared.CANARY}; : > {shared.CANARY}")
        return noted.splitlines()
