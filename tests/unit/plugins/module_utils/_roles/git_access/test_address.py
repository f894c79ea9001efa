"""Addresses of repositories, as people write them."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access import address


@pytest.mark.parametrize(
    "repo",
    [
        "git@github.com:a/b.git",
        "github.com:a/b",
        "ssh://git@host/a",
        "https://github.com/a/b",
        "git://127.0.0.1:8518/dotfiles",
        "file:///srv/a.git",
        "/srv/a.git",
        "git@lab.example:m 2.git",
    ],
)
def test_an_address(repo: str) -> None:
    assert address.problem_of(repo) is None


@pytest.mark.parametrize(
    ("repo", "message", "remedy"),
    [
        ("git clone git@lab.example:a/b.git", "is a command", "leave out `git clone`"),
        (" git  clone https://bob:hush@lab/a b", "is a command", "leave out `git clone`"),
        ("git@github.com/x/y.git", "has a slash where ssh", "Write git@github.com:x/y.git"),
        ("https://bob:hush@lab/a", "has a password", "Use SSH"),
        ("--upload-pack=x", "begins with a dash", "Set the URL"),
        ("x/y", "is not the address", "Write https://HOST/OWNER/NAME.git or"),
        ("github.com", "is not the address", "git@HOST:OWNER/NAME.git"),
    ],
)
def test_what_is_no_address(repo: str, message: str, remedy: str) -> None:
    found = address.problem_of(repo)
    assert found is not None
    assert found[0].startswith(message)
    assert remedy in found[1]
    assert "hush" not in str(found)
