"""Mistakes that show only on a machine: named with field, value, remedy; nothing is changed.

What a fleet file alone shows is in tests/cloud/playbooks/test_mistakes.py.
`.venv/bin/pytest tests/machines/stories/test_mistakes_on_machines.py`
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, changes
from git_server import GitServer

# In CI tests/cloud/playbooks/test_mistakes.py has the mistakes that need no machine.
pytestmark = pytest.mark.night

HOST = "mishap"
TOKEN = "ghp_the_lab"
# Seconds; a name that nobody knows was once asked for five times, for 115 s.
LIMIT = 60
URL = "git@github.com:lab/code.git"
TREE = {"name": "code", "user": "alice", "path": "/home/alice/code", "repo": URL}
VENV = {"name": "tools", "path": "/opt/venvs/tools", "python": "3.11", "packages": ["idna"]}
ALICE = {"name": "alice", "uid": 2001}
GOOD: dict[str, Any] = {
    **NOTHING,
    "fleet_apply": "push",
    "fleet_allocations": "unrestricted",
    "fleet_slices": [{"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"}],
    "fleet_base_packages": ["sudo", "tzdata"],
    "fleet_packages": ["tree"],
    "fleet_shell_packages": ["tree"],
    "fleet_users": [ALICE],
    "fleet_git_keys": [{"name": "work", "users": ["alice"], "register": "user"}],
    "fleet_code": [TREE],
    "fleet_venvs": [VENV],
}
# The role, what is written, and what is told: field, value, what is wrong and the remedy.
MISTAKES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "branch": (
        "code_checkout",
        {"fleet_code": [{**TREE, "version": "mian"}]},
        [
            "fleet_code[0] (code, /home/alice/code): alice: version = 'mian'",
            f"there is no branch or tag mian in {URL}",
            "Did you mean main?",
        ],
    ),
    "repository": (
        "code_checkout",
        {"fleet_code": [{**TREE, "repo": "git@github.com:lab/cdoe.git"}]},
        [
            "fleet_code[0] (code, /home/alice/code): alice: repo: git cannot read "
            "git@github.com:lab/cdoe.git as alice: there is no such repository, or alice may not",
            "Look at the address (repo); and see that the account which has /home/alice/",
        ],
    ),
    "Python package": (
        "python_env",
        {"fleet_venvs": [{**VENV, "packages": ["idna", "tpu-fleet-no-such-package==1.0"]}]},
        [
            "fleet_venvs (name: tools).packages[1] = 'tpu-fleet-no-such-package==1.0'",
            "no index has such a package",
            "Correct its name and version",
            "The old one is still in use.",
        ],
    ),
    "Python from where nobody is": (
        "python_env",
        {
            "fleet_venvs": [{**VENV, "python": "3.9"}],
            "fleet_python_mirror": "https://pythons.invalid/",
        },
        [
            "Cannot build the environment 'tools'. The old one is still in use. python = '3.9'",
            "It has 3.11.",
            "Declare one of these; or set a mirror (fleet_python_mirror",
            "The name of the source of uv's builds of Python cannot be resolved",
        ],
    ),
    "package of the system": (
        "host_base",
        {"fleet_packages": ["tree", "htopp"]},
        [
            "fleet_packages[1] = 'htopp': no package source of this host has a package",
            "Correct it, or add its source first. Nothing was installed.",
        ],
    ),
    "package of somebody's tools": (
        "user_shell",
        {"fleet_shell_packages": ["htop", "neovimm"]},
        [
            "fleet_shell_packages[1] = 'neovimm': no package source of this host has a package of",
            "Correct it, or add its source first. Nothing was installed.",
        ],
    ),
    "user of the image": (
        "user_accounts",
        {"fleet_users": [ALICE, {"name": "ubuntu", "uid": 2016}]},
        [
            "fleet_users[1].name = 'ubuntu': is an account of the image",
            "Take another name, such as that of the person.",
        ],
    ),
    # Whoever changes a key, or takes a token that is not valid any more; told before all roles.
    "token": (
        "all",
        {"fleet_git_keys": [{"name": "more", "users": ["alice"], "register": "user"}]},
        [
            "The token in GITHUB_TOKEN: GitHub answered 401 to GET /user/keys: Bad credentials",
            "Give a token that is valid: set GITHUB_TOKEN, or fleet_github_token",
        ],
    ),
}
# All that the roles above make, and that it works for alice.
LOOK = r"""
readlink -f /opt/venvs/tools /home/alice/code
/opt/venvs/tools/bin/python -c "import idna, sys; print(sys.version)"
sudo -u alice cat /home/alice/code/train.py
getent passwd; getent group
dpkg-query -W
sudo sh -c "find /etc/ssh /opt/venvs /home/alice -path /home/alice/.cache -prune -o -print | sort"
sudo sh -c "cat /etc/ssh/ssh_config.d/* /home/alice/.ssh/* | sha256sum"
"""


@pytest.fixture(scope="module")
def fleet(_cloud: Fleet) -> Iterator[Fleet]:
    """One machine as declared, and the GitHub and git server that it has it from."""
    url = f"http://127.0.0.1:{_cloud.port}/"
    bare = {name: GOOD[name] for name in ("fleet_apply", "fleet_allocations", "fleet_slices")}
    with _cloud.holding({**NOTHING, **bare}):
        server = GitServer(_cloud.ssh(HOST, "ip -4 route show default").split()[2], url)
        for asked in (
            {"accounts": [{"token": TOKEN, "login": "alice"}]},
            {"repositories": [{"name": "lab/code", "admins": ["alice"]}]},
        ):
            requests.post(f"{url}_cloud/github", json=asked, timeout=30).raise_for_status()
        server.add_repository("lab/code", {"train.py": "print()\n"})
        GOOD["fleet_git_hosts"] = [server.declaration()]
        GOOD["fleet_github_api_url"] = f"{url}api/v3"
        with server:
            configure(_cloud, {}, "all")
            yield _cloud


def configure(fleet: Fleet, mistake: dict[str, Any], tags: str, token: str = TOKEN) -> str:
    """Configure the machine with a mistake; return what was printed."""
    fleet.declare({**GOOD, **mistake})
    # Without localhost nobody looks at the fleet file beforehand, nor asks GitHub.
    limit = f"{HOST},localhost" if tags == "all" else HOST
    words = ("ansible-playbook", "tpu.fleet.configure", "--limit", limit, "--tags", tags)
    return fleet.run(*words, ok=not mistake, GITHUB_TOKEN=token)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_and_changes_nothing(fleet: Fleet, mistake: str) -> None:
    tags, fragment, words = MISTAKES[mistake]
    before = fleet.ssh(HOST, LOOK)
    began = time.monotonic()
    out = configure(fleet, fragment, tags, "ghp_wrong" if mistake == "token" else TOKEN)
    took = time.monotonic() - began
    # Of a module's failure; that of an action is in its result alone.
    errors = re.findall(r"^\[ERROR\]: (?:Task failed: )?(.*)$", out, re.M)
    told = "\n".join([*errors, *re.findall(r"^fatal: .*?(?=^$|\Z)", out, re.M | re.S)])
    assert [word for word in words if word not in told] == [], told or out
    assert took < LIMIT, told
    assert fleet.ssh(HOST, LOOK) == before
    # For who wants to read them: pytest -rP
    print(f"{mistake} ({took:.0f} s): {told}")


def test_then_there_is_nothing_to_mend(fleet: Fleet) -> None:
    assert changes(configure(fleet, {}, "all"))[HOST] == (0, 0, 0)
