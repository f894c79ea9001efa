"""A git server over SSH, with the keys that are registered at the local GitHub.

A real sshd with a host key of its own, and git behind it. Who may do what is what the local cloud's
GitHub says at that moment: keys of users for the repositories that they administer or read, deploy
keys for theirs.

    with GitServer("10.99.0.1", "http://127.0.0.1:8470/") as server:
        server.add_repository("lab/private", {"README.md": "hello\\n"})
        declared = {"fleet_git_hosts": [server.declaration()]}

It needs root: sshd sees a user called git that nobody else sees.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from ports import free_port

# sshd asks it for the lines that fit a key, each time somebody comes.
KEYS = """
import json, os, sys, urllib.request
url, folder, kind, key = sys.argv[1:]
with urllib.request.urlopen(url + "_cloud/github", timeout=10) as answer:
    known = json.load(answer)
# The local cloud answers nobody but its own users: what serves reads it here.
with open(f"{folder}/known.{os.getpid()}", "w") as file:
    json.dump(known, file)
os.rename(file.name, folder + "/known.json")
for one in known["keys"]:
    if one["key"] == f"{kind} {key}":
        command = f"{sys.executable} {folder}/serve.py {folder} {one['id']}"
        print(f'restrict,command="{command}" {one["key"]}')
"""
# What runs after a login: git, if this key may.
SERVE = """
import json, os, re, sys
folder, number = sys.argv[1:]
with open(folder + "/known.json") as file:
    known = json.load(file)
asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
verbs, name = "(git-upload-pack|git-receive-pack)", r"([\\w.-]+/[\\w.-]+?)"
match = re.fullmatch(verbs + " '/?" + name + r"(?:\\.git)?'", asked)
key = next((one for one in known["keys"] if str(one["id"]) == number), None)
if not match or key is None:
    sys.exit("Hi! You've successfully authenticated, but GitHub does not provide shell access.")
verb, name = match.groups()
repository = {one["name"]: one for one in known["repositories"]}.get(name)
if key["kind"] == "deploy":
    reads = bool(repository) and key["of"] == name
    writes = reads and not key["read_only"]
else:
    writes = bool(repository) and key["of"] in repository["admins"]
    reads = writes or (bool(repository) and key["of"] in repository["readers"])
with open(folder + "/access.log", "a") as log:
    log.write(json.dumps({"verb": verb, "repository": name, "title": key["title"]}) + "\\n")
if not reads:
    sys.exit("ERROR: Repository not found.")
if verb == "git-receive-pack" and not writes:
    sys.exit("ERROR: The key you are authenticating with has been marked as read only.")
os.execvp("git", ["git", "shell", "-c", f"{verb} '{folder}/repositories/{name}.git'"])
"""
UID = 61234


class GitServer:
    """One sshd on one address, until it is stopped."""

    def __init__(self, address: str, cloud_url: str, port: int = 0) -> None:
        # Not below pytest's folder, which is closed to the user git.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="tpu-fleet-git-"))
        folder.chmod(0o755)
        self.address = address
        self.cloud_url = cloud_url.rstrip("/") + "/"
        self.port = port or free_port(address)
        self._sshd: subprocess.Popen[bytes] | None = None
        (folder / "repositories").mkdir(parents=True)
        (folder / "home").mkdir()
        (folder / "keys.py").write_text(KEYS)
        (folder / "serve.py").write_text(SERVE)
        (folder / "access.log").touch()
        (folder / "access.log").chmod(0o666)
        self._write_users()
        self.new_host_key()

    @property
    def host_key(self) -> str:
        """Return the public host key."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def new_host_key(self) -> None:
        """Make another host key; a running server keeps the old one until it is restarted."""
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink(missing_ok=True)
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "host_key"))

    def declaration(self, name: str = "github.com") -> dict[str, Any]:
        """Return the entry of fleet_git_hosts with which machines find it under a name."""
        return {
            "name": name,
            "hostname": self.address,
            "port": self.port,
            "keys": [self.host_key],
        }

    def add_repository(self, name: str, files: dict[str, str]) -> str:
        """Make a repository with one commit on main, and return that commit."""
        work = self.folder / "work" / name
        work.mkdir(parents=True)
        _run("git", "-C", str(work), "init", "-q", "-b", "main")
        commit = self._commit(work, files)
        bare = self.folder / "repositories" / f"{name}.git"
        _run("git", "clone", "-q", "--bare", str(work), str(bare))
        self._hand_over(bare)
        return commit

    def add_branch(self, name: str, branch: str, files: dict[str, str]) -> str:
        """Make a branch with one more commit of these files, and return that commit."""
        work = self.folder / "work" / name
        _run("git", "-C", str(work), "checkout", "-q", "-b", branch, "main")
        commit = self._commit(work, files)
        bare = self.folder / "repositories" / f"{name}.git"
        _run("git", "-c", "safe.directory=*", "-C", str(bare), "fetch", "-q", str(work), branch)
        _run("git", "-c", "safe.directory=*", "-C", str(bare), "branch", branch, commit)
        self._hand_over(bare)
        return commit

    def _commit(self, work: Path, files: dict[str, str]) -> str:
        for path, content in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(content)
        who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        _run("git", "-C", str(work), "add", "--all")
        _run("git", "-C", str(work), *who, "commit", "-q", "-m", "Begin")
        return _run("git", "-C", str(work), "rev-parse", "HEAD").strip()

    def _hand_over(self, bare: Path) -> None:
        for path in (bare.parent, bare, *bare.rglob("*")):
            shutil.chown(path, UID, UID)

    def content(self, name: str, path: str, ref: str = "main") -> str:
        """Return what a repository holds now."""
        bare = self.folder / "repositories" / f"{name}.git"
        return _run("git", "-c", "safe.directory=*", "-C", str(bare), "show", f"{ref}:{path}")

    def accesses(self) -> list[dict[str, str]]:
        """Return who came for what: verb, repository, and the title of the key."""
        return [json.loads(line) for line in (self.folder / "access.log").read_text().splitlines()]

    def start(self) -> None:
        """Serve until stopped."""
        config = self.folder / "sshd_config"
        python = sys.executable
        # sshd trusts a program only below folders of root alone; python's own may be another's.
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else python
        config.write_text(
            f"ListenAddress {self.address}:{self.port}\n"
            f"HostKey {self.folder}/host_key\n"
            "PidFile none\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nStrictModes no\nAllowUsers git\n"
            "AuthorizedKeysFile none\nAuthorizedKeysCommandUser root\n"
            f"AuthorizedKeysCommand {python} {self.folder}/keys.py {self.cloud_url} "
            f"{self.folder} %t %k\n"
        )
        hidden = "; ".join(
            f"mount --bind {self.folder}/{name} /etc/{name}" for name in ("passwd", "group")
        )
        script = f"set -e; mkdir -p /run/sshd; {hidden}; exec /usr/sbin/sshd -D -e -f {config}"
        with (self.folder / "sshd.log").open("ab") as log:
            self._sshd = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stderr=log)
        deadline = time.monotonic() + 20
        while not _answers(self.address, self.port):
            if self._sshd.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "sshd.log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop serving."""
        if self._sshd is not None:
            self._sshd.terminate()
            self._sshd.wait(20)
            self._sshd = None

    def close(self) -> None:
        """Stop serving, and remove everything."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> GitServer:
        """Serve."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and leave nothing."""
        self.close()

    def _write_users(self) -> None:
        for name, line in (
            ("passwd", f"git:*:{UID}:{UID}::{self.folder}/home:/bin/sh\n"),
            ("group", f"git:*:{UID}:\n"),
        ):
            others = [
                other
                for other in Path("/etc", name).read_text().splitlines(keepends=True)
                if not other.startswith("git:")
            ]
            (self.folder / name).write_text("".join([*others, line]))


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stderr}")
    return done.stdout


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True
