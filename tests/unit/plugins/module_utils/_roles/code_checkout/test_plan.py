"""Which commit is meant, what is in the way, what may go."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import plan as rules
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout.plan import Look, Tree
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access import trouble

A, B, C = "a" * 40, "b" * 40, "c" * 40
REFS = (
    f"{A}\tHEAD\n{A}\trefs/heads/main\n{B}\trefs/tags/v1\n{C}\trefs/tags/v1^{{}}\n"
    f"{A}\trefs/heads/both\n{B}\trefs/tags/both\n"
)


@pytest.mark.parametrize(
    ("version", "commit"),
    [
        ("HEAD", A),
        ("main", A),
        ("v1", C),
        ("refs/tags/both", B),
        ("refs/heads/both", A),
        (B, B),
        ("d" * 64, "d" * 64),
    ],
)
def test_which_commit_is_meant(version: str, commit: str) -> None:
    assert rules.resolve(version, REFS) == commit


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("both", "is a branch and a tag; write refs/heads/both or refs/tags/both"),
        ("nothing", "there is no branch or tag nothing"),
        ("abcdef1", "a commit needs its full id"),
    ],
)
def test_what_cannot_be_told(version: str, why: str) -> None:
    with pytest.raises(rules.CannotResolve, match=why):
        rules.resolve(version, REFS)


def test_a_commit_needs_no_question() -> None:
    assert rules.patterns(A) == []
    assert rules.patterns("v1") == ["refs/heads/v1", "refs/tags/v1", "refs/tags/v1^{}"]


TREE = Tree("code", "alice", "/home/alice/code", repo="r")
HERE, OLD = TREE.release(A), TREE.release(B)


def test_where_versions_are() -> None:
    assert HERE == "/home/alice/.code.releases/aaaaaaaaaaaaaaaa"


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (Look(), ""),
        (Look("link", HERE, there=True), ""),
        (Look("link", HERE, there=True, changes=("a.py",)), ""),
        (Look("link", OLD), ""),
        (Look("link", OLD, changes=("a.py",)), f"{OLD} has local changes: a.py."),
        (Look("link", "/elsewhere"), "is a link to /elsewhere, which this role did not create"),
        (Look("directory"), "is a directory that this role did not create"),
    ],
)
def test_what_is_in_the_way(look: Look, says: str) -> None:
    found = rules.obstacle(TREE, A, look)
    assert found == says if not says else says in found


def test_changes_may_stay_behind() -> None:
    keeping = Tree("code", "alice", "/home/alice/code", repo="r", local_changes="keep")
    assert rules.obstacle(keeping, A, Look("link", OLD, changes=("a.py",))) == ""


@pytest.mark.parametrize(
    ("used", "keep", "gone"),
    [
        ([], 1, ["/r/3", "/r/2"]),
        ([], 2, ["/r/2"]),
        (["/r/2/sub/train.py"], 1, ["/r/3"]),
        (["/r/3"], 1, ["/r/2"]),
        (["/r/33"], 1, ["/r/3", "/r/2"]),
        ([], 0, ["/r/4", "/r/3", "/r/2"]),
    ],
)
def test_what_may_go(used: list[str], keep: int, gone: list[str]) -> None:
    releases = [(float(number), f"/r/{number}") for number in (1, 2, 3, 4)]
    assert rules.may_go(releases, "/r/1", used, keep) == gone


@pytest.mark.parametrize(
    ("entry", "keys"),
    [
        ({"repo": "git@github.com:a/b.git"}, []),
        ({"repo": "ssh://git@host/a"}, []),
        ({"repo": "https://github.com/a/b"}, []),
        ({"repo": "https://alice:hush@github.com/a/b"}, ["repo"]),
        ({"repo": "https://hush@github.com/a/b"}, ["repo"]),
        ({"repo": "--upload-pack=x"}, ["repo"]),
        ({"repo": "/r", "version": "-f"}, ["version"]),
        ({"repo": "/r", "version": "a b"}, ["version"]),
        ({"repo": "/r", "path": "code"}, ["path"]),
        ({"repo": "/r", "local_path": "f"}, [""]),
        ({}, [""]),
    ],
)
def test_what_is_wrong_with_a_tree(entry: dict[str, Any], keys: list[str]) -> None:
    found = rules.problems_of({"name": "one", "user": "alice", **entry})
    assert [key for key, _message, _remedy in found] == keys
    assert "hush" not in str(found)


@pytest.mark.parametrize("cause", trouble.CAUSES, ids=lambda cause: cause.key)
def test_every_cause_is_told_by_what_git_says(cause: trouble.Cause) -> None:
    assert trouble.cause_of(cause.sample) is cause
    url = "git@github.com:lab/code.git"
    said = trouble.explain(cause.sample, url, "alice", ["/home/alice/.ssh/id"])
    assert said.startswith(f"git cannot read {url} as alice: ")
    assert said.endswith(f"git says: {cause.sample}")
    assert "{" not in said


@pytest.mark.parametrize(
    ("server", "keys", "remedy", "by_role"),
    [
        ("github.com", ["/k/id"], "Register /k/id.pub at github.com. fleet_git_keys with", True),
        ("git.lab", ["/k/id"], "Register /k/id.pub at git.lab. git says", False),
        ("git.lab", [], "Register the public half of a key that fleet_git_keys declares", False),
    ],
)
def test_which_key_is_to_be_registered_where(
    server: str, keys: list[str], remedy: str, by_role: bool
) -> None:
    denied = "git: Permission denied (publickey)."
    told = trouble.explain(denied, f"git@{server}:lab/code.git", "matt", keys)
    assert remedy in told
    assert ("GITHUB_TOKEN" in told) is by_role


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("git@github.com:lab/code.git", "github.com"),
        ("github.com:lab/code.git", "github.com"),
        ("ssh://git@git.example:2222/lab/code.git", "git.example"),
        ("https://github.com/lab/code.git", "github.com"),
        ("ssh://git@[2001:db8::7]:22/x", "2001:db8::7"),
        ("/srv/code.git", ""),
        ("file:///srv/code.git", ""),
    ],
)
def test_the_server_of_a_repository(url: str, host: str) -> None:
    assert trouble.host_of(url) == host


def test_what_git_says_is_fit_to_be_shown() -> None:
    evil = "\x1b]0;x\x07\u202efatal: https://alice:ghp_token@github.com/x is bad\nfatal: no\n"
    for said in (evil, f"{evil}Repository not found\x1b[2J"):
        told = trouble.explain(said, "git@h:x", "alice")
        assert not set("\x1b\x07\u202e\n") & set(told)
        assert "ghp_token" not in told


def test_which_branches_there_are() -> None:
    refs = f"{A}\trefs/heads/add/slt-1\n{A}\trefs/heads/main\n{B}\trefs/tags/v1\n"
    said = "Did you mean add/slt-1? There is add/slt-1, main, v1"
    assert rules.there_is("add/slt-2", refs) == said
    assert rules.there_is("x", refs) == "There is add/slt-1, main, v1"
    assert "push one" in rules.there_is("x", "")
