"""The five authors of the guides, each with a newcomer's files, on one local cloud."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from fleet import NOTHING, ROOT, Fleet, wait_until
from git_server import GitServer
from lab import Downloads

from tpu_local_cloud.machines.layout import Layout
from tpu_local_cloud.machines.network import Network

GUIDES = ROOT / "tests" / "machines" / "lab" / "guides"


class Guide(Fleet):
    """One author: a copy of their folder, and the keys that they made."""

    def __init__(self, name: str, people: tuple[str, ...], cloud: Fleet, github: str) -> None:
        folder = cloud.folder / name
        super().__init__(folder, {}, GUIDES / name / "inventory", cloud.port)
        for part in (GUIDES / name).iterdir():
            if part.is_dir() and part.name != "inventory":
                shutil.copytree(part, folder / part.name)
        # What needs no login there is fetched from another place here.
        self.edit("https://github.com/", github)
        self.mail = GUIDES / name / "mail.txt"
        self.keys = folder / "keys"
        self.keys.mkdir()
        for person in people:
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.keys / person)]
            subprocess.run([*make, "-C", person], check=True)
        self.env["TPU_FLEET_CLOUD_DIR"] = cloud.env["TPU_FLEET_CLOUD_DIR"]
        self.url = f"http://127.0.0.1:{cloud.port}/"

    def edit(self, old: str, new: str) -> None:
        """Replace words of the fleet file, as a person with an editor."""
        file = self.inventory / "group_vars" / "all" / "fleet.yml"
        file.write_text(file.read_text().replace(old, new))

    def import_grant(self, first_day: str) -> None:
        """Make the mail part of the fleet file."""
        grant = self.inventory / "group_vars" / "all" / "grant.yml"
        command = f"tpu-fleet grant import --first-day {first_day} --output {grant} --force"
        self.run("sh", "-c", f"{command} < {self.mail}")

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the cloud for what only its API shows."""
        answer = requests.request(method, self.url + path, json=body, timeout=60)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def as_user(self, user: str, host: str, command: str, ok: bool = True) -> str:
        """Run a command as a person, with the key of theirs if they made one."""
        own = ("-i", str(self.keys / user)) if (self.keys / user).exists() else ()
        words = ("ssh", "-F", str(self.ssh_config), "-o", "LogLevel=ERROR", *own, "-l", user)
        return self.run(*words, host, command, ok=ok, limit=120)

    def trains(self, host: str, run: str, attempt: int, further: int = 60) -> tuple[int, int]:
        """Wait for some steps of an attempt; return where it began and where it is."""

        def look() -> tuple[int, int] | None:
            begun = re.findall(rf"attempt {attempt} begins at step (\d+)", self.log(host, run))
            steps = self.steps(host, run)
            return (int(begun[-1]), steps) if begun and steps >= int(begun[-1]) + further else None

        def there() -> tuple[int, int] | None:
            # While it reboots it says nothing, or cannot be reached.
            try:
                return look()
            except (AssertionError, subprocess.TimeoutExpired):
                return None

        try:
            return wait_until(f"attempt {attempt} of {run} trains", there, 180)
        except AssertionError as error:
            seen = f"{self.status(host, run)}\n{self.log(host, run)[-3000:]}"
            raise AssertionError(f"{error}\n{seen}") from None

    def kill(self, host: str, run: str) -> None:
        """End the program of a run as the kernel would."""
        self.ssh(host, f"sudo kill -9 {self.status(host, run)['pid']}")

    @contextmanager
    def tunnel(self, name: str) -> Iterator[str]:
        """Have the address at which a service is reached from here."""
        tunnel = self.start("tpu-fleet", "tunnel", name)
        try:
            assert tunnel.stdout is not None
            told = ""
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", told)):
                line = tunnel.stdout.readline()
                assert line, told
                told += line
            yield found[0]
        finally:
            tunnel.terminate()
            tunnel.wait(30)


class Guides:
    """The cloud of all authors, and what stands for GitHub and other places of the Internet."""

    def __init__(self, folder: Path) -> None:
        self.cloud = Fleet(folder, NOTHING)
        self.server: GitServer | None = None
        self.downloads: Downloads | None = None
        self.elsewhere: dict[str, Any] = {}

    def begin(self) -> None:
        """Bring up the cloud, and serve what the authors have on GitHub."""
        self.cloud.up()
        chosen = json.loads(Layout(self.cloud.folder / "cloud").host_file.read_text())
        gateway = Network(**chosen["network"]).gateway
        self.server = GitServer(gateway, f"http://127.0.0.1:{self.cloud.port}/")
        self.server.add_repository("timaeus-research/icl", files_of("timaeus-research/icl"))
        devinterp = files_of("timaeus-research/devinterp")
        branch = {"devinterp/slt.py": devinterp.pop("devinterp/slt.py")}
        self.server.add_repository("timaeus-research/devinterp", devinterp)
        self.server.add_branch("timaeus-research/devinterp", "add/slt-1", branch)
        self.server.add_repository("wangcongcong123/ttt", files_of("wangcongcong123/ttt"))
        self.server.start()
        self.downloads = Downloads(self.cloud.folder / "downloads", gateway)
        public = self.downloads.folder / "wangcongcong123" / "ttt.git"
        shutil.copytree(self.server.folder / "repositories/wangcongcong123/ttt.git", public)
        trusted = ("git", "-c", "safe.directory=*", "-C", str(public))
        subprocess.run([*trusted, "update-server-info"], check=True)
        self.elsewhere = {
            "fleet_github_api_url": f"http://127.0.0.1:{self.cloud.port}/api/v3",
            "fleet_git_hosts": [self.server.declaration()],
            **self.downloads.add_ohmyzsh(),
        }

    def end(self) -> None:
        """Take everything away."""
        if self.server:
            self.server.close()
        if self.downloads:
            self.downloads.stop()
        self.cloud.down()

    def guide(self, name: str, *people: str) -> Guide:
        """Return an author's folder, with keys for these people."""
        assert self.downloads is not None
        return Guide(name, people, self.cloud, f"{self.downloads.url}/")


def files_of(repository: str) -> dict[str, str]:
    """Return the files that an author has on GitHub."""
    folder = GUIDES / "github" / repository
    files = [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in str(path)
    ]
    return {str(path.relative_to(folder)): path.read_text() for path in files}
