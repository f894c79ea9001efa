"""The computer of a user who was let in, and machines that move."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fleet import Fleet, wait_until


class Laptop:
    """The computer of a user: ssh as it is there, with a ~/.ssh of its own."""

    def __init__(self, folder: Path, key: Path) -> None:
        self.ssh_folder = folder / "ssh"
        self.ssh_folder.mkdir(parents=True)
        config = f"Include ~/.ssh/tpu-fleet/config\nHost *\n  IdentityFile {key}\n  BatchMode yes\n"
        (self.ssh_folder / "config").write_text(config)

    def unpack(self, folder: Path) -> None:
        """Put the folder where its text says."""
        shutil.rmtree(self.ssh_folder / "tpu-fleet", ignore_errors=True)
        shutil.copytree(folder / "tpu-fleet", self.ssh_folder / "tpu-fleet")

    def ssh(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run ssh; it takes ~ from the password file, so the folder is mounted there."""
        script = 'mount --bind "$0" ~/.ssh && exec ssh "$@"'
        Path("~/.ssh").expanduser().mkdir(mode=0o700, exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CLOUDSDK_")}
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, str(self.ssh_folder), *words],
            env={**clean, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def who(self, host: str, **env: str) -> str:
        """Log in, and say as whom and where."""
        done = self.ssh(host, "whoami; hostname", **env)
        return done.stdout.strip().replace("\n", "@") or done.stderr


def maintain(fleet: Fleet, node: str, worker: int) -> None:
    """Let a machine come back with another address."""
    before = fleet.cloud()[node]["workers"][worker]["external_ip"]
    fleet.run("tpu-fleet", "cloud", "maintain", node, "--worker", str(worker), "--wait")
    wait_until(
        f"{node} has another address",
        lambda: fleet.cloud()[node]["workers"][worker]["external_ip"] != before,
        60,
    )


def without_gcloud(folder: Path) -> str:
    """Return a PATH on which gcloud is not."""
    programs = folder / "bin"
    if not programs.exists():
        programs.mkdir()
        for place in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
            for path in Path(place).iterdir():
                link = programs / path.name
                if path.name != "gcloud" and not link.is_symlink():
                    link.symlink_to(path)
    return str(programs)
