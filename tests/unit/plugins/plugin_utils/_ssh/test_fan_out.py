from __future__ import annotations

import asyncio
import itertools
import resource

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import fan_out as engine
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind, LocalTrouble
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Result,
    exit_status,
    fan_out,
    make_room,
    start_times,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_first_contacts_are_spread(jitter):
    times = list(start_times(1000, 250.0, lambda: jitter))
    assert times[0] == 0
    assert times == sorted(times)
    steps = {round(b - a, 9) for a, b in itertools.pairwise(times)}
    assert steps == {(0.5 + jitter) / 250}


@pytest.mark.parametrize(
    ("status", "signal", "wanted"),
    [(0, "", 0), (3, "", 3), (None, "", None), (None, "KILL", 137), (None, "ODD", 128)],
)
def test_exit_status(status, signal, wanted):
    assert exit_status(status, signal) == wanted


@pytest.mark.parametrize(
    ("result", "ok", "begun"),
    [
        (Result("a", Kind.DONE, 0), True, True),
        (Result("a", Kind.DONE, 1), False, True),
        (Result("a", Kind.DONE, 0, says="the dialogue broke"), False, True),
        (Result("a", Kind.CUT), False, True),
        (Result("a", Kind.TIMEOUT), False, True),
        (Result("a", Kind.REFUSED), False, False),
    ],
)
def test_results(result, ok, begun):
    assert (result.ok, result.begun) == (ok, begun)


async def all_of(*args, **kwargs):
    return [result async for result in fan_out(*args, **kwargs)]


def test_no_hosts():
    assert asyncio.run(all_of([], "true")) == []


def test_two_of_one_name():
    twice = [Target("a", "127.0.0.1"), Target("b", "127.0.0.1"), Target("a", "127.0.0.2")]
    with pytest.raises(ValueError, match="named twice: a"):
        asyncio.run(all_of(twice, "true"))


def test_input_and_dialogue_at_once():
    with pytest.raises(ValueError, match="not both"):
        asyncio.run(all_of([], "true", stdin=b"", talk=lambda channel: None))


def test_without_asyncssh(monkeypatch):
    monkeypatch.setattr(engine, "HAS_ASYNCSSH", False)
    with pytest.raises(LocalTrouble, match="asyncssh is not installed"):
        asyncio.run(all_of([], "true"))


@pytest.mark.parametrize(
    ("soft", "hard", "hosts", "wanted"),
    [
        (1024, 1_000_000, 1000, 4256),
        (1024, 2048, 1000, 2048),
        (1024, resource.RLIM_INFINITY, 1000, 4256),
        (1024, 1024, 1000, 1024),
        (65536, 65536, 1000, 65536),
        (1024, 4096, 10, 1024),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 10, resource.RLIM_INFINITY),
    ],
)
def test_room_for_files(monkeypatch, soft, hard, hosts, wanted):
    limits = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _what: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _what, new: limits.__setitem__(0, new[0]))
    assert make_room(hosts) == wanted
    assert limits == [wanted, hard]
