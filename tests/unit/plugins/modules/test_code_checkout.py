"""What check mode reports of code trees."""

from __future__ import annotations

import json
import os
import pwd
import time
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import as_user as _as_user
from ansible_collections.tpu.fleet.plugins.module_utils._host import snapshot as _snapshot
from ansible_collections.tpu.fleet.plugins.module_utils._host.as_user import UserError, as_user
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import act as effects
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import plan as rules
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout.apply import Apply


def test_check_mode_tells_which_trees_go_and_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RECORDS", str(tmp_path))
    known = {"name": "old", "owner": "root", "dest": str(tmp_path / "old"), "declared": True}
    record = tmp_path / "old.json"
    record.write_text(json.dumps(known))
    params = {"versions": {}, "incoming": "", "keep": 3, "trees": [], "slice": ""}
    apply = Apply(params, dry=True)
    apply.look()
    apply.put()
    assert apply.after == ["old is no longer declared\n"]
    assert json.loads(record.read_text()) == known


def test_check_mode_says_which_version_a_tree_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RECORDS", str(tmp_path / "records"))
    me = pwd.getpwuid(os.getuid()).pw_name
    tree = {"name": "toy", "user": me, "path": str(tmp_path / "toy"), "slices": []}
    params = {"versions": {"toy": "c" * 64}, "incoming": "", "keep": 3, "slice": ""}
    apply = Apply({**params, "trees": [tree]}, dry=True)
    apply.look()
    apply.put()
    release = str(tmp_path / ".toy.releases" / ("c" * 16))
    assert apply.records == {"toy": {"version": "c" * 64, "path": release}}
    assert list(tmp_path.iterdir()) == []


def params_of(*names: str, owner: str) -> dict[str, object]:
    trees = [
        {"name": n, "user": owner, "path": f"/nonexistent/{n}", "repo": "/r", "slices": []}
        for n in names
    ]
    return {"versions": {}, "incoming": "", "keep": 3, "trees": trees, "slice": ""}


def test_an_owner_whose_work_has_no_end_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "FETCH_SECONDS", 0.3)
    monkeypatch.setattr(effects, "RESOLVE_SECONDS", 0.3, raising=False)
    monkeypatch.setattr(effects, "resolve_here", lambda _tree: time.sleep(60))
    me = pwd.getpwuid(os.getuid()).pw_name
    apply = Apply(params_of("a", "b", "c", owner=me), dry=False)
    began = time.monotonic()
    apply.look()
    taken = time.monotonic() - began
    says = [text.partition(": ")[2] for text in apply.problems]
    assert says == [f"{me}: the work took longer than its time limit"] * 3
    assert apply.blocked == {"a", "b", "c"}
    assert list(apply.slow) == [me], f"each was waited for: {taken:.1f} s"


def test_git_ends_with_the_work_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "pid"
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\necho $$ > {told}.new && mv {told}.new {told}\nexec sleep 600\n")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # as_user brings an environment of its own.
    monkeypatch.setattr(_as_user, "environment_of", lambda _account: environment)
    account = pwd.getpwuid(os.getuid())
    with pytest.raises(UserError, match="time limit"):
        as_user(account, lambda: effects.git("status"), seconds=5)
    stat = Path(f"/proc/{int(told.read_text())}/stat")
    deadline = time.monotonic() + 20
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "git goes on"
        time.sleep(0.01)


def test_what_is_in_the_way_of_a_look_is_told_when_the_tree_is_put_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_here(_tree: rules.Tree, _version: str) -> None:
        raise UserError("/nonexistent/.a.releases: Permission denied")

    monkeypatch.setattr(effects, "look_here", look_here)
    params = params_of("a", owner=pwd.getpwuid(os.getuid()).pw_name)
    looked = Apply({**params, "versions": {"a": "0" * 40}}, dry=False)
    looked.look()
    put = Apply({**params, "versions": looked.versions}, dry=False)
    put.look()
    put.put()
    assert len(put.problems) == 1
    assert put.problems[0].endswith("/nonexistent/.a.releases: Permission denied")


def test_what_cannot_be_read_is_told_with_where_it_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {"a": "there is no such repository", "b": "abc\trefs/heads/main\n"}

    def git(*words: str, **_more: object) -> str:
        answer = next(answers[word] for word in words if word in answers)
        if answer.startswith("there is no"):
            raise UserError(f"git cannot read a as me: {answer}")
        return answer

    monkeypatch.setattr(effects, "git", git)
    me = pwd.getpwuid(os.getuid()).pw_name
    params = params_of("one", "two", "three", owner=me)
    other, one, two = params["trees"]  # type: ignore[misc]
    other["slices"] = ["elsewhere"]
    one.update(repo="a")
    two.update(repo="b", version="mian")
    apply = Apply(params, dry=False)
    apply.look()
    there = "there is no branch or tag mian in b. Did you mean main? There is main"
    assert apply.problems == [
        f"fleet_code[1] (two, /nonexistent/two): {me}: repo: git cannot read a as me: "
        "there is no such repository",
        f"fleet_code[2] (three, /nonexistent/three): {me}: version = 'mian': {there}",
    ]


def test_a_snapshot_is_sent_for_the_trees_that_need_it_and_removed_with_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees of one folder share a version; a tree that is blocked does not keep other snapshots."""
    monkeypatch.setattr(rules, "RECORDS", str(tmp_path / "records"))
    me = pwd.getpwuid(os.getuid()).pw_name
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (tmp_path / "train.py").write_text("print('step 1')\n")
    entries = _snapshot.describe(tmp_path, ["train.py"])
    version = _snapshot.digest_of(entries)
    packed = _snapshot.pack(tmp_path, entries, version)

    def apply(names: str, *blocked: str) -> Apply:
        trees = [
            {"name": n, "user": "nobody-here" if n in blocked else me, "slices": []}
            | {"path": str(tmp_path / n)}
            for n in names
        ]
        params = {"versions": dict.fromkeys(names, version), "keep": 3, "slice": ""}
        return Apply({**params, "trees": trees, "incoming": str(incoming)}, dry=False)

    def put(names: str, *blocked: str) -> Apply:
        for name in names:
            (incoming / f"{name}.tar.gz").write_bytes(packed)
        found = apply(names, *blocked)
        found.look()
        found.put()
        return found

    assert put("a").problems == []
    looked = apply("ab")
    looked.look()
    assert looked.missing == ["b"]
    refused = put("ab", "b")
    assert [text.partition(": ")[2] for text in refused.problems] == [
        "there is no user nobody-here on this host"
    ]
    assert [path.name for path in incoming.iterdir()] == ["b.tar.gz"]
