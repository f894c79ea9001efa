"""The evidence of a worker is parsed, or refused with worker, field and value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Frame,
    evidence,
    evidence_of,
)

THREAD = {
    "tid": 7,
    "name": "MainThread",
    "state": "S",
    "wchan": "futex_wait_queue",
    "syscall": "futex",
    "python": [["put", "queue.py", 140], ["main", "data.py", 88]],
}
WHOLE: dict[str, Any] = {
    "worker": 3,
    "host": "pair-w3",
    "at": 1.8e9,
    "took_s": 1.2,
    "run": {"name": "train", "attempt": 2, "state": "running", "step": 41, "step_age_s": 840.0},
    "processes": [{"pid": 7, "state": "S", "command": "python t.py", "threads": [THREAD]}],
    "error": ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "E: x"],
    "chips": {"present": 4, "holders": [{"chip": "/dev/accel0", "pid": 7}]},
    "monitoring": {
        "reached": True,
        "cores": [{"core": 0, "state": "running", "launch_id": 812, "queued": ["jit_step"]}],
        "metrics": {"duty_cycle_pct": [0.0, 1.5], "uptime": 3},
    },
    "ports": {
        "listening": [[8476, 7, True]],
        "connecting": [{"pid": 7, "address": "10.0.0.2", "port": 8476, "state": "SYN_SENT"}],
        "peers": [{"worker": 0, "port": 8476, "result": "timeout"}],
    },
    "disk": [{"path": "/var/log", "what": "log", "free_bytes": 0, "size_bytes": 10}],
    "memory": {"free_bytes": 1, "size_bytes": 2, "oom": False},
    "versions": {"jax": "0.12.0"},
    "notes": ["py-spy is not there"],
}


def test_the_whole_evidence_goes_through_and_comes_back() -> None:
    found = evidence("w", json.dumps(WHOLE))
    assert found.processes[0].threads[0].python == (
        Frame("put", "queue.py", 140),
        Frame("main", "data.py", 88),
    )
    assert found.error is not None
    assert found.error[1].startswith("  File")  # the indent stays
    assert found.monitoring is not None
    assert found.monitoring.metrics == {"duty_cycle_pct": (0.0, 1.5), "uptime": 3.0}
    assert found.ports.peers[0].result == "timeout"
    assert evidence("w", json.dumps(found.to_dict())) == found


def test_only_who_and_which_run_must_be_there() -> None:
    told = {key: WHOLE[key] for key in ("worker", "host", "at")}
    found = evidence_of("w", {**told, "run": {"name": "train"}})
    assert (found.processes, found.error, found.chips) == ((), None, None)
    for key in told:
        with pytest.raises(AnswerError, match=rf"^w: .*{key} is 'nothing'"):
            evidence_of("w", {"run": {"name": "t"}, **told, key: None})


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("run.name", "../../etc"),
        ("run.step", 1e300),
        ("run.problems", ["x"] * (bounds.PROBLEMS + 1)),
        ("processes.0.pid", -1),
        ("processes.0.state", "RR"),
        ("processes.0.threads.0.python", [["f", "x.py"]]),
        ("processes.0.threads.0.python", [["f", "x.py", True]]),
        ("processes.0.threads.0.python", [["f", "x", 1]] * (bounds.FRAMES + 1)),
        ("processes", [{"pid": 1, "threads": [THREAD] * (bounds.THREADS // 2 + 1)}] * 2),
        ("ports.listening", [[0, 1]]),
        ("ports.listening", [3]),
        ("ports.connecting", [{"pid": 1, "address": "$(id)", "port": 1, "state": "SYN_SENT"}]),
        ("ports.peers", [{"worker": 0, "port": 1, "result": "open; rm"}]),
        ("monitoring.cores.0.core", 5000),
        ("monitoring.metrics", {"x": float("inf")}),
        ("monitoring.metrics", {"\n": 1}),
        ("memory.oom", "no"),
        ("disk", [{"path": "/", "free_bytes": -1}]),
        ("at", 1e300),
        ("error", [{}]),
    ],
)
def test_what_is_out_of_bounds_is_refused(place: str, value: Any) -> None:
    told = json.loads(json.dumps(WHOLE))
    *way, last = place.split(".")
    at = told
    for key in way:
        at = at[int(key)] if isinstance(at, list) else at[key]
    at[last] = value
    with pytest.raises(AnswerError, match=r"^evil: its answer is not accepted") as found:
        evidence_of("evil", told)
    assert "\n" not in str(found.value)


def test_a_users_texts_are_made_safe_to_show() -> None:
    told = json.loads(json.dumps(WHOLE))
    told["processes"][0]["command"] = "\x1b[2Jpython\nroot: all well"
    told["error"] = ["\x1b]0;x\x07 oh\u202e\nsecond"]
    found = evidence_of("w", told)
    assert found.processes[0].command == "python root: all well"
    assert found.error is not None
    assert all(char.isprintable() for line in found.error for char in line if char != "\ufffd")


def test_more_bytes_than_any_evidence_has_are_not_read() -> None:
    with pytest.raises(AnswerError, match="at most"):
        evidence("w", b" " * (bounds.ANSWER + 1))
