"""The agent's side of a compilation cache; its rounds are processes, as in an agent."""

from __future__ import annotations

import getpass
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from object_server import Objects
from ports import free_port
from run_agent.act import helper, terminal
from run_agent.act.cache_watch import CompileCache
from run_agent.act.hand import Hand
from run_agent.decide.config import Config, Paths, parse
from run_definition import PUBLIC

KEY = "ab" * 32
NAME = f"jit_step-{'0f' * 32}-cache"
DATA = zlib.compress(b"code" * 1000)


def config_of(folder: Path, lab: Objects, **more: Any) -> Config:
    config = parse({**PUBLIC, "user": getpass.getuser(), "worker": 0}, {})
    paths = Paths(folder / "state", folder / "r", folder / "log/run.log", cache=folder / "cache")
    given = {
        "archive": "gs://lab/all", "storage": lab.url, "metadata": "", "port": free_port(),
        "hosts": ["127.0.0.1", "127.0.0.3"], "compile_cache_bytes": 10**6,
    }  # fmt: skip
    return replace(config, paths=paths, **{**given, **more})


def cache_of(config: Config, key: str = KEY) -> CompileCache:
    return CompileCache(config, Hand(config.user), lambda: key)


def settled(cache: CompileCache) -> None:
    thread = cache._helper._thread
    if thread is not None:
        thread.join(60)
    cache._take_in()


def test_a_start_waits_until_entries_are_here(tmp_path: Path, lab: Objects) -> None:
    config = config_of(tmp_path, lab)
    first = cache_of(config)
    assert first.obstacle(100.0, True) == "its compilation cache is being filled"
    settled(first)
    assert (first.obstacle(101.0, True), first.errors) == ("", [])
    folder = tmp_path / "cache/demo" / config.user
    (folder / NAME).write_bytes(DATA)
    first.look(200.0, idle=False)
    settled(first)
    assert [name.rpartition("/")[2] for name in lab.items] == [NAME]
    first.look(201.0, idle=False)
    assert not first._helper.is_busy  # half a minute has not passed, and nothing is new
    (folder / NAME).unlink()
    first.forget()
    assert first.obstacle(300.0, True)
    settled(first)
    assert first.obstacle(301.0, True) == ""
    assert (folder / NAME).read_bytes() == DATA
    assert first.shown() == {"folder": str(folder), "entries": 1, "fetched": 1, "errors": []}
    first.close()


def test_a_start_waits_for_a_minute_at_most(tmp_path: Path, lab: Objects) -> None:
    lab.delay = 1.0
    cache = cache_of(config_of(tmp_path, lab))
    assert cache.obstacle(100.0, True)
    assert cache.obstacle(159.0, True)
    assert cache.obstacle(161.0, True) == ""
    cache.close()
    settled(cache)


def test_nor_does_it_wait_longer_for_a_round_of_the_run(tmp_path: Path, lab: Objects) -> None:
    cache = cache_of(config_of(tmp_path, lab))
    terminal.give_cache_folder(cache._config)
    (tmp_path / "cache/demo" / cache._config.user / NAME).write_bytes(DATA)
    lab.delay = 1.0
    cache.look(90.0, idle=False)
    assert cache._helper.is_busy  # it sends what the program has written
    assert cache.obstacle(100.0, True)
    assert cache.obstacle(159.0, True)
    assert cache.obstacle(161.0, True) == ""
    cache.close()
    settled(cache)


@pytest.mark.parametrize(
    "more",
    [
        {"compile_cache_bytes": 0},
        {"env": {"JAX_COMPILATION_CACHE_DIR": "/own"}},
        {"archive": ""},
    ],
)
def test_nothing_is_waited_for(tmp_path: Path, lab: Objects, more: dict[str, Any]) -> None:
    config = config_of(tmp_path, lab, **more)
    cache = cache_of(config)
    assert cache.obstacle(100.0, True) == ""
    assert not cache._helper.is_busy
    assert (cache.shown() is None) == ("archive" not in more)
    assert (terminal.give_cache_folder(config) is None) == ("archive" not in more)


def test_without_a_key_nothing_travels(tmp_path: Path, lab: Objects) -> None:
    cache = cache_of(config_of(tmp_path, lab), key="")
    assert cache.obstacle(100.0, True) == ""
    cache.look(100.0, idle=False)
    assert (cache._helper.is_busy, cache._server, lab.requests) == (False, None, [])


def serving(tmp_path: Path, lab: Objects) -> tuple[CompileCache, Config, Path]:
    """Return worker 0's cache, which serves one entry from a folder."""
    config = config_of(tmp_path, lab, archive="")
    first = cache_of(config)
    terminal.give_cache_folder(config)
    folder = tmp_path / "cache/demo" / config.user
    (folder / NAME).write_bytes(DATA)
    first.look(100.0, idle=True)
    return first, config, folder


def fetched(cache: CompileCache, theirs: str = "") -> None:
    """Ask for a start's entries until it waits for none: the server's process begins first."""
    at = 100.0
    while cache.obstacle(at, True, theirs):
        settled(cache)
        at += 0.01
    assert cache.errors == []


def test_what_worker_0_has_had_before_is_not_fetched_again(tmp_path: Path, lab: Objects) -> None:
    first, config, folder = serving(tmp_path, lab)
    other = replace(config, worker=1, paths=replace(config.paths, cache=tmp_path / "cache1"))
    second, named = cache_of(other), first.offered()
    assert named
    fetched(second, named)
    heir = cache_of(other)
    heir.take_over(second)
    assert heir.obstacle(200.0, True, first.offered()) == ""
    assert not heir._helper.is_busy
    # A program wrote another entry there, or changed this folder, or worker 0 names none.
    (folder / NAME.replace("step", "eval")).write_bytes(DATA)
    heir.forget()
    assert heir.obstacle(300.0, True, first.offered())
    settled(heir)
    assert heir.shown() is not None
    assert [len(heir._known), heir._last_fetched] == [2, 1]
    heir.forget()
    (tmp_path / "cache1/demo" / config.user / NAME).unlink()
    assert heir.obstacle(400.0, True, first.offered())
    settled(heir)
    heir.forget()
    assert heir.obstacle(500.0, True, "")
    for one in (first, heir):
        one.close()
    settled(heir)


def test_worker_0_serves_the_others(tmp_path: Path, lab: Objects) -> None:
    first, config, _folder = serving(tmp_path, lab)
    server = first._server
    assert server is not None
    first.look(101.0, idle=True)
    assert first._server is server
    other = replace(config, worker=1, paths=replace(config.paths, cache=tmp_path / "cache1"))
    second = cache_of(other)
    assert second.obstacle(100.0, False)
    assert not second._helper.is_busy  # worker 0 has not answered yet
    fetched(second)
    assert (tmp_path / "cache1/demo" / config.user / NAME).read_bytes() == DATA
    heir = cache_of(config)
    heir.take_over(first)
    heir.look(102.0, idle=True)
    assert (heir._server, server.poll()) == (server, None)
    later = cache_of(config, key="cd" * 32)
    later.take_over(heir)  # with another key none of them could ask it
    assert (later._server, server.wait(20) is not None) == (None, True)


def test_the_next_agent_begins_no_round_for_what_the_one_before_has_seen(
    tmp_path: Path, lab: Objects
) -> None:
    config = config_of(tmp_path, lab)
    first = cache_of(config)
    terminal.give_cache_folder(config)
    (tmp_path / "cache/demo" / config.user / NAME).write_bytes(DATA)
    first.look(100.0, idle=False)
    settled(first)
    assert first._known == [NAME]
    heir = cache_of(config)
    heir.take_over(first)
    heir.look(200.0, idle=False)
    assert (heir._helper.is_busy, heir._known) == (False, [NAME])
    heir.close()


def test_what_a_round_says_is_read_with_care(
    tmp_path: Path, lab: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = cache_of(config_of(tmp_path, lab))
    odd = json.dumps({"known": ["../x", 3, NAME], "errors": ["a\nb", 3, {}, "", ""]})
    monkeypatch.setattr(helper.installed, "command", lambda *_: ["/bin/echo", odd])
    cache.obstacle(100.0, True)
    settled(cache)
    assert (cache._known, cache.errors) == ([NAME], ["a b", "3", "{}"])
    monkeypatch.setattr(helper.installed, "command", lambda *_: ["/bin/false"])
    cache.forget()
    cache.obstacle(200.0, True)
    settled(cache)
    assert cache.errors == ["no answer"]


def test_the_folder_is_the_users_alone(tmp_path: Path, lab: Objects) -> None:
    config = config_of(tmp_path, lab)
    folder = terminal.give_cache_folder(config)
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert terminal.give_cache_folder(config) is None


def test_a_worker_0_that_does_not_serve_holds_a_start_for_seconds(
    tmp_path: Path, lab: Objects
) -> None:
    cache = cache_of(config_of(tmp_path, lab, archive="", worker=1))
    for at in (100.0, 105.0, 109.0):
        assert cache.obstacle(at, True)
        settled(cache)
        assert "refused" in cache.errors[0]
    assert cache.obstacle(110.0, True) == ""
    assert not cache._helper.is_busy
