"""Why a host cannot be set up, said before anything is half done."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.host_base import (
    apt_trouble as _apt_trouble,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.host_base import (
    first_boot as _first_boot,
)

DPKG = """git 1:2.39.5-0+deb12u2 ii
tzdata 2024a-0 it
vim  un
old 1.0 rc
half 1.0 iH
slow 1 iF
broken 2 iiR
held 3 hi
"""


def test_packages_are_read() -> None:
    packages = _first_boot.read_packages(DPKG)
    assert packages.unfinished == ["half", "slow", "broken"]
    wanted = ["git", "git:amd64", "git=1:2.39.5-0+deb12u2", "git=2", "vim", "old", "held", "slow"]
    assert packages.missing([*wanted, "tzdata", "nothing"]) == [
        "git=2", "vim", "old", "slow", "nothing",
    ]  # fmt: skip


def test_room() -> None:
    free = {"/": 10 << 30, "/var/cache/apt/archives": 3 << 20}
    assert _first_boot.too_full(free, 0) is None
    assert _first_boot.too_full(free, 2) is None
    told = _first_boot.too_full(free, 512) or ""
    assert "/var/cache/apt/archives (3 MB free)" in told
    assert "/ (" not in told


ANSWER = "distribution=ubuntu 20.04\npython=Python 3.8.10\nfree=/ 4000000\nfree=/tmp 4000000\n"


@pytest.mark.parametrize(
    ("told", "answer", "words"),
    [
        ("Ansible requires Python 3.9", ANSWER, ["ubuntu 20.04", "3.8.10", "ansible-core 2.19"]),
        ("SyntaxError", ANSWER.replace("3.8.10", "3.7.3"), ["3.7.3", "ansible-core 2.17"]),
        (
            "not found",
            ANSWER.replace("Python 3.8.10", ""),
            ["no Python", "apt-get install python3"],
        ),
        ("Traceback", ANSWER.replace("/ 4000000", "/ 12"), ["is full: no space is left on /,"]),
        ("OSError: No space left on device", "", ["disk of this host is full"]),
    ],
)
def test_why_no_module_runs(told: str, answer: str, words: list[str]) -> None:
    text = _first_boot.explain(told, answer, "2.21.5", (3, 9)) or ""
    assert all(word in text for word in words), text


def test_what_is_not_known_is_not_explained() -> None:
    fine = ANSWER.replace("3.8.10", "3.11.2")
    assert _first_boot.explain("Traceback", fine, "2.21.5", (3, 9)) is None
    assert _first_boot.explain("Traceback", "", "2.21.5", (3, 9)) is None


def test_old_releases_are_refused_with_the_way_out() -> None:
    assert _first_boot.unsupported("debian", "12") == ""
    assert _first_boot.unsupported("ubuntu", "24.04") == ""
    assert "tpu-ubuntu2204-base" in _first_boot.unsupported("ubuntu", "20.04")


LOCKED = (
    "'/usr/bin/apt-get -y install zsh' failed: E: Could not get lock /var/lib/dpkg/lock-frontend. "
    "It is held by process 555 (unattended-upgr)"
)


@pytest.mark.parametrize(
    ("msg", "words"),
    [
        (LOCKED, ["another process", "process 555 (unattended-upgr)", "apt_lock_timeout"]),
        (
            "Failed to update apt cache after 5 retries: W:Updating from such a repository",
            ["index"],
        ),
        ("No package matching 'zhs' is available", ["not known", "fleet_base_packages"]),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", ["disk is full"]),
        ("dpkg: error: No space left on device", ["disk is full"]),
        ("E: dpkg was interrupted, you must manually run", ["was interrupted"]),
        ("Something nobody has seen", ["apt says: Something nobody has seen"]),
    ],
)
def test_why_packages_could_not_be_installed(msg: str, words: list[str]) -> None:
    text = _apt_trouble.explain({"msg": msg, "rc": 100})
    assert text.startswith("The packages could not be installed")
    assert all(word in text for word in words), text


def test_an_unknown_package_is_told_with_the_variable_that_names_it() -> None:
    variables = {"fleet_base_packages": ["git"], "fleet_packages": ["zsh", "zhs=1"]}
    text = _apt_trouble.explain({"msg": "No package matching 'zhs' is available"}, variables)
    assert text.startswith("fleet_packages[1] = 'zhs=1': no package source of this host")
    assert "Correct it" in text
    # One of no variable, as locales.
    text = _apt_trouble.explain({"msg": "No package matching 'zsh2' is available"}, variables)
    assert text.startswith("The packages could not be installed")
