"""What examples/lab/fleet.yml needs around it when there is no Internet."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml
from fleet import ROOT, Fleet
from git_server import GitServer

TOKEN = "ghp_the_lab"
# What a person would have in the environment when they run the playbooks.
SECRETS = {
    "GITHUB_TOKEN": TOKEN,
    "WANDB_API_KEY": "canary-wandb-0f3a9c",
    "AWS_ACCESS_KEY_ID": "AKIACANARY7Q2M",
    "AWS_SECRET_ACCESS_KEY": "canary-aws-51be77",
}
APP = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "app"
version = "1.0"
""",
    "requirements.txt": "tomli==2.0.2\n",
    "app.py": "import tomli\n\nprint('the app runs with tomli from', tomli.__file__)\n",
}

# What oh-my-zsh is to those who start it; the real one is fetched from its own place.
OHMYZSH = {
    "oh-my-zsh.sh": ". $ZSH/themes/$ZSH_THEME.zsh-theme\n",
    "themes/robbyrussell.zsh-theme": "PROMPT='%c $ '\n",
}
TORCH = "2.13.0"


class Lab:
    """The fleet, its GitHub, and the git server behind it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fleet = Fleet(folder, {})
        self.fleet.env.update(SECRETS)
        self.server: GitServer | None = None
        self.downloads: Downloads | None = None
        self.commit = ""
        self.url = f"http://127.0.0.1:{self.fleet.port}/"
        variables = self.fleet.inventory / "group_vars" / "all"
        shutil.copy(ROOT / "examples/lab/fleet.yml", variables / "fleet.yml")

    def begin(self) -> None:
        """Bring up the cloud with its slices, and what is to stand for the Internet."""
        self.fleet.up()
        github = {
            "accounts": [{"token": TOKEN, "login": "lab"}],
            "repositories": [{"name": "lab/app", "admins": ["lab"]}],
        }
        requests.post(f"{self.url}_cloud/github", json=github, timeout=30).raise_for_status()
        self.fleet.declare(self.instead())
        self.fleet.play("tpu.fleet.provision")
        gateway = self.fleet.ssh("solo", "ip -4 route show default").split()[2]
        self.server = GitServer(gateway, self.url)
        self.commit = self.server.add_repository("lab/app", APP)
        self.server.start()
        self.downloads = Downloads(self.folder / "mirror", gateway)
        self.fetch_torch(self.downloads.folder / "torch" / "torch")
        self.fleet.declare(
            self.instead(
                fleet_git_hosts=[self.server.declaration()],
                fleet_torch_index_url=f"{self.downloads.url}/torch",
                **self.downloads.add_ohmyzsh(),
            )
        )

    def instead(self, **more: Any) -> dict[str, Any]:
        """Return what the lab's file cannot know: where the things are that stand for others.

        NFS takes machines with a kernel of their own; those have no data disks. So the pair shares
        its folder, and solo, which has the disk, passes it over.
        """
        declared = yaml.safe_load((ROOT / "examples/lab/fleet.yml").read_text())
        for entry in declared["fleet_slices"]:
            if entry["name"] == "pair":
                entry["metadata"] = {"local-cloud-kernel": "own"}
        for run in declared["fleet_runs"]:
            # For as long as there is something to look at, however long that takes here.
            assert "--steps 3000 " in run["command"]
            run["command"] = run["command"].replace("--steps 3000 ", "--steps 1000000 ")
        return {
            "fleet_slices": declared["fleet_slices"],
            "fleet_runs": declared["fleet_runs"],
            "fleet_github_api_url": f"{self.url}api/v3",
            "fleet_share_when_unsupported": "skip",
            # There are none that Ray could find.
            "fleet_ray_chips": 4,
            # Three machines on one small computer.
            "fleet_ray_cpus": 2,
            "fleet_ray_object_store_size": "100MiB",
            **more,
        }

    def fetch_torch(self, folder: Path) -> None:
        """Fetch PyTorch as this computer's pip finds it; it may know a build for the CPU."""
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(folder),
        ]
        wheel = ["--python-version", "3.12", "--only-binary", ":all:", f"torch=={TORCH}"]
        subprocess.run([*pip, *wheel], check=True)

    def end(self) -> None:
        """Take everything away."""
        if self.server:
            self.server.stop()
        if self.downloads:
            self.downloads.stop()
        self.fleet.down()

    def as_user(
        self, user: str, host: str, command: str, ok: bool = True, limit: float = 120
    ) -> str:
        """Run a command as a person who logs in with a key of their own."""
        config = self.fleet.ssh_config
        words = ("ssh", "-F", str(config), "-o", "LogLevel=ERROR", "-l", user, host, command)
        return self.fleet.run(*words, ok=ok, limit=limit)


class Downloads:
    """A folder that machines download from, until it is stopped."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        folder.mkdir()
        handler = functools.partial(Quiet, directory=str(folder))
        self._server = ThreadingHTTPServer((address, 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://{address}:{self._server.server_port}"

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()

    def add_ohmyzsh(self) -> dict[str, str]:
        """Pack the stand-in; return what a fleet file says to take it."""
        tree = self.folder / "ohmyzsh-1"
        for name, text in OHMYZSH.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        with tarfile.open(self.folder / "ohmyzsh.tar.gz", "w:gz") as archive:
            archive.add(tree, "ohmyzsh-1")
        for words in (["init", "-q"], ["add", "--all"]):
            subprocess.run(["git", "-C", str(tree), *words], check=True)
        write = ["git", "-C", str(tree), "write-tree"]
        name = subprocess.run(write, check=True, capture_output=True, text=True).stdout.strip()
        return {
            "fleet_ohmyzsh_url": f"{self.url}/ohmyzsh.tar.gz",
            "fleet_ohmyzsh_tree": name,
        }


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a word about it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
