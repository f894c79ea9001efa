"""Code trees from a real git server over SSH: what is there, and why one cannot be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import act as effects
from emulator import ROOT, Emulator
from git_server import GitServer

MAIN = """
import json, sys
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import act, plan
act._PAUSE = 0
asked = json.loads(sys.argv[1])
tree = plan.tree_of(asked["tree"])
try:
    commit = act.resolve_here(tree)
    if asked["fetch"]:
        act.fetch_git(tree, commit)
    print(commit)
except act.UserError as error:
    print(error)
"""


class Remote:
    """A git server, and ssh on this computer as the role git_access sets it up."""

    def __init__(self, cloud: Emulator, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        token = {"accounts": [{"token": "ghp_alice", "login": "alice"}]}
        cloud.control("github", token)
        cloud.control("github", {"repositories": [{"name": "lab/code", "admins": ["alice"]}]})
        self.server = GitServer("127.0.0.1", cloud.url)
        self.commit = self.server.add_repository("lab/code", {"train.py": "print()\n"})
        self.settings = folder / "ssh_config.d"
        self.settings.mkdir()
        self.key = folder / "key"
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)]
        subprocess.run(keygen, check=True)
        self.know(self.server.host_key)

    def know(self, *host_keys: str, port: int | None = None) -> None:
        """Write what git_access writes, with these host keys."""
        known = self.folder / "known_hosts"
        known.write_text("".join(f"git.example {key}\n" for key in host_keys))
        (self.settings / "git.conf").write_text(
            f"Host git.example\n  HostName 127.0.0.1\n  Port {port or self.server.port}\n"
            f"  HostKeyAlias git.example\n  UserKnownHostsFile {known}\n"
            f"  StrictHostKeyChecking yes\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
        )

    def register(self) -> None:
        """Let the server admit our key."""
        requests.post(
            f"{self.cloud.url}api/v3/user/keys",
            headers={"Authorization": "Bearer ghp_alice"},
            json={"title": "t", "key": (self.folder / "key.pub").read_text()},
            timeout=10,
        ).raise_for_status()

    def ask(self, fetch: bool = False, **tree: Any) -> str:
        """Return the commit of a tree, or what is said when it cannot be had."""
        entry = {"name": "code", "user": "root", "repo": "git@git.example:lab/code.git", **tree}
        asked = json.dumps({"tree": entry, "fetch": fetch})
        script = f'mount --bind {self.settings} /etc/ssh/ssh_config.d && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", MAIN, asked]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
        env.pop("SSH_AUTH_SOCK", None)
        done = subprocess.run(
            words, env=env, check=False, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def remote(cloud: Emulator, tmp_path: Path) -> Iterator[Remote]:
    made = Remote(cloud, tmp_path)
    with made.server:
        yield made


def git(folder: Path, *words: str) -> str:
    """Run git as a user to whom the repositories of the server are no strangers."""
    settings = {"user.name": "t", "user.email": "t@example.org", "safe.directory": "*"}
    file = folder / ".gitconfig.test"
    file = file if not (folder / ".git").is_dir() else folder / ".git/test"
    for key, value in settings.items():
        subprocess.run(["git", "config", "--file", str(file), key, value], check=True)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(file)}
    argv = ["git", "-C", str(folder), *words]
    done = subprocess.run(argv, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_reason_has_its_words_and_its_remedy(remote: Remote) -> None:
    url = "git@git.example:lab/code.git"
    # No key registered: by far the most frequent.
    said = remote.ask()
    assert f"git cannot read {url} as root: git.example does not know the key of root" in said
    assert f"Register {remote.key}.pub at git.example." in said
    assert "Permission denied (publickey)" in said
    remote.register()
    assert remote.ask() == remote.commit
    # Nothing of this name for this key.
    said = remote.ask(repo="git@git.example:lab/secret.git")
    assert "repo: git cannot read git@git.example:lab/secret.git as root: there is no such" in said
    assert f"the account which has {remote.key}.pub may read it" in said
    assert "git says: ERROR: Repository not found." in said
    # No such branch.
    said = remote.ask(version="mian")
    there = f"there is no branch or tag mian in {url}. Did you mean main? There is main"
    assert said == f"version = 'mian': {there}"
    # Host keys.
    remote.know()
    said = remote.ask()
    assert "no host key of git.example is known" in said
    assert "fleet_git_hosts" in said
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    remote.know(other)
    said = remote.ask()
    assert "git.example shows another host key than the known one" in said
    assert "do not connect before you know" in said
    # The way there.
    remote.know(remote.server.host_key, port=1)
    assert "git.example does not answer" in remote.ask()
    said = remote.ask(repo="git@nowhere.invalid:lab/code.git")
    assert "the name nowhere.invalid cannot be resolved" in said
    assert "getent hosts nowhere.invalid" in said


def test_a_branch_that_was_asked_for_is_a_branch(remote: Remote, tmp_path: Path) -> None:
    remote.register()
    bare = remote.server.folder / "repositories/lab/code.git"
    git(bare, "tag", "v1", "main")
    for version, branch in (("HEAD", "main"), ("main", "main"), ("v1", ""), (remote.commit, "")):
        dest = tmp_path / f"dest-{version}"
        tree = {"path": str(dest), "version": version}
        (tmp_path / f".dest-{version}.releases").mkdir()
        assert remote.ask(fetch=True, **tree) == remote.commit
        release = tmp_path / f".dest-{version}.releases" / remote.commit[:16]
        assert git(release, "branch", "--show-current") == branch, version
        if branch:
            assert git(release, "rev-parse", "--abbrev-ref", "@{upstream}") == "origin/main"
            url = "git@git.example:lab/code.git"
            assert git(release, "remote", "get-url", "--push", "origin") == url


def test_what_was_pulled_is_no_change_and_what_was_committed_is_kept(
    remote: Remote, tmp_path: Path
) -> None:
    remote.register()
    (tmp_path / ".dest.releases").mkdir()
    tree = {"path": str(tmp_path / "dest"), "version": "main"}
    assert remote.ask(fetch=True, **tree) == remote.commit
    release = tmp_path / ".dest.releases" / remote.commit[:16]
    bare = remote.server.folder / "repositories/lab/code.git"
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", str(bare), str(work))
    git(work, "commit", "-q", "--allow-empty", "-m", "Next")
    git(work, "push", "-q", "origin", "main")
    # As `git pull` does, which needs the key.
    git(release, "fetch", "-q", str(bare), "+refs/heads/*:refs/remotes/origin/*")
    git(release, "merge", "-q", "--ff-only", "@{upstream}")
    assert git(release, "rev-parse", "HEAD") != remote.commit
    assert effects.changes_in(str(release)) == []
    # The version that a run began with is still named.
    assert git(release, "rev-parse", "refs/tpu-fleet/release") == remote.commit
    git(release, "commit", "-q", "--allow-empty", "-m", "Mine")
    mine = git(release, "rev-parse", "HEAD")
    assert effects.changes_in(str(release)) == [f"commit {mine[:12]}"]
    git(release, "checkout", "-q", "--detach", "@{upstream}")
    assert "branch main" in effects.changes_in(str(release))
    git(release, "checkout", "-q", "main")
    git(release, "branch", "idea")
    assert "branch idea" in effects.changes_in(str(release))
