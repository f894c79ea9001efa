"""Each kind of evidence has its sentence: sentences.txt beside this file has all of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import evidence_of
from run_evidence import (
    ALL_REDUCE,
    BARRIER_OF_SAVE,
    BREAKPOINT,
    CHILD,
    CHIPS,
    CODE,
    COMPILE,
    CONNECT,
    LOADER,
    MODULE,
    QUEUE_GET,
    QUEUE_PUT,
    REQUEST,
    RESTORE,
    SAVE,
    SITE,
    STD,
    STEP,
    TORCH_REDUCE,
    TRAIN,
    case,
    own,
    process,
    seen,
    thread,
    with_odd,
)

from tpu_fleet.why.case import Case, Worker
from tpu_fleet.why.causes import CAUSES, NOTE
from tpu_fleet.why.judge import judge

FAST = {"step_age_s": 0.3, "log_age_s": 0.3}
EARLY = {"step": None, "step_age_s": None, "started_age_s": 90.0, "log_age_s": 90.0}
YOUNG = {"step": None, "step_age_s": None, "started_age_s": 20.0, "log_age_s": 5.0}
PENDING = {"state": "pending", "program": ""}
ENDED = {"program": "ended"}
RUNS = {"state": "R", "wchan": "", "syscall": ""}
NFS = {"wchan": "rpc_wait_bit_killable", "syscall": "read", "state": "D", "on": "/data/x.tar"}
NAP = {"wchan": "hrtimer_nanosleep", "syscall": "clock_nanosleep"}
POLL = {"wchan": "do_sys_poll", "syscall": "poll"}
TERMINAL = {"wchan": "wait_woken", "syscall": "read", "on": "/dev/pts/3"}
SOCKET = {"wchan": "sk_wait_data", "syscall": "recvfrom", "on": "34.1.2.3:443"}
DISK = {"path": "/data", "what": "checkpoints", "size_bytes": 10**11, "free_bytes": 0}
LOG_DISK = {**DISK, "path": "/var/log", "what": "log"}
TRACE = [
    "Traceback (most recent call last):",
    f'  File "{CODE}/train.py", line 51, in main',
    f'  File "{CODE}/data.py", line 88, in next_batch',
    f'  File "{SITE}/numpy/core.py", line 3, in f',
    "KeyError: 'label'",
]
LOST_PEER = ["jax.errors.JaxRuntimeError: UNAVAILABLE: another task died"]
HELD = [{"chip": "/dev/vfio/0", "pid": 77, "command": "python x.py", "user": "bob"}]
IMPORT = [["find_spec", "<frozen importlib._bootstrap>", 1], MODULE]
EVENT = [["wait", f"{STD}/threading.py", 655], *own("go", "sync.py", 4)]
TRACES = [
    ["loss", f"{CODE}/model.py", 12],
    ["trace_to_jaxpr_dynamic", f"{SITE}/jax/_src/interpreters/partial_eval.py", 2100],
    *TRAIN,
]
LOCKS = [
    process(4003, thread(4003, own("step", "train.py", 33)), thread(9, own("flush", "log.py", 9)))
]
STOPPED = [process(4003, thread(4003, QUEUE_GET, state="T"), state="T")]


WAITS = "all-reduce.3 (train_step)"


def in_programs(*places: str) -> dict[str, Any]:
    """Return what the monitoring port says of cores that are at these places of one program."""
    told = [{"core": at, "launch_id": 812, "hlo": hlo} for at, hlo in enumerate(places)]
    return {"reached": True, "cores": told}


def cores(*launches: int, **more: Any) -> dict[str, Any]:
    """Return what the monitoring port says of cores that are at these launches."""
    each = [
        {"core": number, "launch_id": at, "program": "jit_step", **more}
        for number, at in enumerate(launches)
    ]
    return {"reached": True, "cores": each}


def four(frames: Any, **run: Any) -> list[dict[str, Any]]:
    """Return four workers at the same place."""
    return [seen(number, frames, run=run) for number in range(4)]


def at_port(result: str, *blocked: int, run: Any = YOUNG, port: int = 8476) -> Case:
    """Return four workers that connect, of which some get this result from worker 0."""
    peers = [{"worker": 0, "port": port, "result": result}]
    opened = [{"worker": 0, "port": port, "result": "open"}]
    told = [{"peers": peers if at in blocked else opened if at else []} for at in range(4)]
    return case(*[seen(at, CONNECT, run=run, ports=ports) for at, ports in enumerate(told)])


def with_loader(**waits: Any) -> list[dict[str, Any]]:
    """Return the program of worker 3, which waits for a process that loads data."""
    main = process(4003, thread(4003, LOADER))
    return [main, process(4711, thread(4711, own("read", "data.py", 20), **waits), parent=4003)]


CASES = {
    # Data
    "stuck queue": lambda: with_odd(seen(3, QUEUE_GET)),
    "the example of 16 workers": lambda: case(
        *[seen(at, TORCH_REDUCE, monitoring=cores(812)) for at in range(16) if at != 3],
        seen(3, QUEUE_PUT, monitoring=cores(811)),
    ),
    "torch loader": lambda: with_odd(seen(1, LOADER), 2, TORCH_REDUCE),
    "loader sleeps": lambda: with_odd(seen(3, processes=with_loader(**NAP))),
    "loader reads a share": lambda: with_odd(seen(3, processes=with_loader(**NFS))),
    "two loaders": lambda: case(*four(ALL_REDUCE)[:2], seen(2, QUEUE_GET), seen(3, QUEUE_GET)),
    "all loaders": lambda: case(*four(QUEUE_GET)),
    "the only worker": lambda: case(seen(0, QUEUE_GET)),
    # Other waits of one worker
    "dead lock": lambda: with_odd(seen(3, processes=LOCKS)),
    "one lock": lambda: with_odd(seen(3, own("step", "train.py", 33))),
    "one lock of a newer kernel": lambda: with_odd(
        seen(3, own("step", "train.py", 33), waits={"wchan": "futex_do_wait"})
    ),
    "event": lambda: with_odd(seen(3, EVENT)),
    "sleep": lambda: with_odd(seen(3, own("nap", "train.py", 70), waits=NAP)),
    "computes": lambda: with_odd(seen(3, own("augment", "data.py", 70), waits=RUNS)),
    "breakpoint": lambda: case(seen(0, BREAKPOINT), seen(1, STEP)),
    "input": lambda: case(seen(0, own("ask", "train.py", 5), waits=TERMINAL), seen(1, STEP)),
    "request": lambda: with_odd(seen(3, REQUEST, waits=SOCKET)),
    "child": lambda: with_odd(seen(3, CHILD, waits={"wchan": "do_wait", "syscall": "wait4"})),
    "share": lambda: with_odd(seen(3, own("load", "data.py", 3), waits=NFS)),
    "never connects": lambda: case(
        *four(CONNECT, **EARLY)[:3], seen(3, own("words", "data.py", 12), run=EARLY, waits=RUNS)
    ),
    "elsewhere": lambda: with_odd(seen(3, own("other", "train.py", 60), waits=POLL), 4, TRAIN),
    "JAX on CPUs": lambda: case(seen(0, TRAIN), seen(1, QUEUE_GET)),
    "JAX on CPUs without a function": lambda: case(seen(0, [MODULE]), seen(1, QUEUE_GET)),
    "all in a step on CPUs": lambda: case(*four(TRAIN)),
    # Compiling, restoring, saving
    "one compiles": lambda: with_odd(seen(3, COMPILE, waits=RUNS)),
    "all compile": lambda: case(*four(COMPILE, **EARLY)),
    "all trace": lambda: case(*four(TRACES, **EARLY)[:2]),
    "one restores": lambda: case(seen(0, RESTORE, run=EARLY), *four(ALL_REDUCE, **EARLY)[1:]),
    "all restore": lambda: case(*four(RESTORE, **EARLY)),
    "one saves": lambda: case(seen(0, SAVE), *four(BARRIER_OF_SAVE)[1:]),
    # Chips
    "all in a barrier": lambda: case(*four(BARRIER_OF_SAVE)),
    "all on chips": lambda: case(*four(STEP)),
    "behind in steps": lambda: case(*four(STEP)[:3], seen(3, STEP, run={"step": 811})),
    "stuck core": lambda: case(
        *[seen(at, STEP, monitoring=cores(812, 812, 811 if at == 3 else 812)) for at in range(4)]
    ),
    "stuck cores of a worker": lambda: case(
        *[seen(at, STEP, monitoring=cores(812, 812)) for at in range(3)],
        seen(3, STEP, monitoring=cores(811, 811, queued=["jit_step"])),
    ),
    "core in a program": lambda: case(
        *[seen(at, STEP, monitoring=in_programs(WAITS, WAITS)) for at in range(3)],
        seen(3, STEP, monitoring=in_programs(WAITS, "fusion.7 (train_step)")),
    ),
    "not launched": lambda: case(
        *[seen(at, STEP, monitoring=cores(812)) for at in range(3)],
        seen(3, STEP, monitoring=cores(811)),
    ),
    "core error": lambda: case(
        seen(0, STEP), seen(1, STEP, monitoring=cores(812, error="HBM ECC uncorrectable."))
    ),
    "chips held": lambda: case(
        seen(0, processes=[], run=PENDING),
        seen(1, processes=[], run=PENDING, chips={"present": 4, "holders": HELD}),
    ),
    "chips missing": lambda: case(
        *(seen(number, ALL_REDUCE, chips={"present": 4}) for number in range(3)),
        seen(3, CHIPS, chips={"present": 3}),
    ),
    "chips never initialise": lambda: case(*four(CONNECT, **EARLY)[:3], seen(3, CHIPS, run=EARLY)),
    # Workers and programs that are not there
    "no answer": lambda: with_odd("3: Connection timed out"),
    "refused answer": lambda: case(
        seen(0, STEP, run=FAST),
        Worker(1, "pod-w1", None, "its answer is not accepted.", "bad_answer"),
    ),
    "run is missing": lambda: with_odd(
        Worker(3, "pod-w3", None, "it does not have the run", "run_missing")
    ),
    "earlier agent": lambda: case(
        seen(0, STEP, run=FAST), Worker(1, "pod-w1", None, "its run agent is older", "old_agent")
    ),
    "never starts": lambda: with_odd(
        seen(3, processes=[], run={"program": "", "reason": "the venv /opt/venvs/jax is missing"})
    ),
    "agent gone": lambda: with_odd(seen(3, processes=[], run={"agent": False})),
    "ended": lambda: with_odd(seen(3, processes=[], run={**ENDED, "exit": 3})),
    "killed": lambda: with_odd(seen(3, processes=[], run={**ENDED, "signal": 9})),
    "stopped": lambda: with_odd(seen(3, processes=STOPPED)),
    "stopped on CPUs": lambda: case(*four(TRAIN)[:3], seen(3, processes=STOPPED)),
    "stopped at once": lambda: case(
        seen(0, STEP, run=FAST), seen(1, processes=[process(4001, state="T")], run=FAST)
    ),
    "traced": lambda: case(seen(0, STEP), seen(1, processes=[process(4001, state="t")])),
    "out of memory": lambda: with_odd(
        seen(
            3,
            processes=[],
            run={**ENDED, "signal": 9},
            memory={"oom": True, "oom_killed": "python (4003)"},
        )
    ),
    # Exceptions
    "exception": lambda: with_odd(seen(3, processes=[], error=TRACE, run=ENDED)),
    "exception in a thread": lambda: with_odd(seen(3, QUEUE_GET, error=TRACE)),
    "exception that did not matter": lambda: case(
        seen(0, STEP, run=FAST), seen(1, STEP, run=FAST, error=TRACE)
    ),
    "exceptions that follow": lambda: case(
        seen(0, processes=[], error=TRACE),
        *[seen(at, processes=[], error=LOST_PEER) for at in (1, 2, 3)],
    ),
    "exceptions after a lost worker": lambda: case(
        "0: No route to host", *[seen(at, processes=[], error=LOST_PEER) for at in (1, 2, 3)]
    ),
    "failed everywhere": lambda: case(
        *[seen(at, processes=[], error=TRACE, run={"state": "failed"}) for at in range(4)]
    ),
    "failed without one": lambda: case(
        seen(0, processes=[], run={**ENDED, "state": "failed", "reason": "exit code 3"})
    ),
    # Disks
    "full disk": lambda: with_odd(
        seen(3, own("write", "ckpt.py", 7), disk=[DISK, LOG_DISK], waits={"state": "D"})
    ),
    "no more files": lambda: with_odd(
        seen(3, STEP, disk=[{**DISK, "free_bytes": 10**10, "free_files": 0}])
    ),
    "full disk of a run that goes on": lambda: case(seen(0, STEP, run=FAST, disk=[DISK])),
    "nearly full disk": lambda: case(
        seen(0, STEP, run=FAST, disk=[{**DISK, "free_bytes": 2 * 10**9}])
    ),
    "share is gone": lambda: with_odd(
        seen(3, SAVE, disk=[{"path": "/ckpt", "what": "checkpoints", "answers": False}])
    ),
    # Versions
    "other code": lambda: case(
        *[seen(at, STEP, versions={"code": ("b" if at == 2 else "a") * 40}) for at in range(4)]
    ),
    "other JAX at the start": lambda: case(
        *[seen(at, CONNECT, run=YOUNG, versions={"jax": "0.12.0"}) for at in (0, 1)],
        seen(2, CONNECT, run=YOUNG, versions={"jax": "0.11.1"}),
    ),
    "two codes": lambda: case(
        seen(0, STEP, versions={"code": "aaa"}), seen(1, STEP, versions={"code": "bbb"})
    ),
    "other declaration": lambda: case(
        *[seen(at, STEP, run={"definition": "f00" if at else "ba4"}) for at in range(3)]
    ),
    # Ports
    "blocked port": lambda: at_port("timeout", 2),
    "blocked port for all": lambda: at_port("timeout", 1, 2, 3, port=8482),
    "no route": lambda: at_port("no route", 2),
    "refused port": lambda: at_port("refused", 1, 2, 3, run=EARLY),
    "refused port of a start": lambda: at_port("refused", 1, 2, 3),
    "refused port after steps": lambda: at_port("refused", 1, 2, 3, run={"step": 812}),
    "unanswered connection": lambda: case(
        seen(0, CONNECT, run=EARLY),
        seen(
            1,
            CONNECT,
            run=EARLY,
            ports={
                "connecting": [
                    {"pid": 4001, "address": "10.0.0.2", "port": 8476, "state": "SYN_SENT"}
                ]
            },
        ),
    ),
    # Nothing is wrong, or nothing yet
    "waits for its turn": lambda: case(
        seen(0, processes=[], run={**PENDING, "reason": "waits for words of alice"})
    ),
    "waits for a worker": lambda: case(
        seen(0, processes=[], run={**PENDING, "reason": "worker 1 is out of contact"}),
        "1: No route to host",
    ),
    "between attempts": lambda: case(
        seen(0, processes=[], run={"state": "restarting", "reason": "attempt 2 begins in 10 s"})
    ),
    "succeeded": lambda: case(seen(0, processes=[], run={"state": "succeeded", **ENDED})),
    "stopped by a person": lambda: case(
        seen(0, processes=[], run={"state": "stopped", "reason": "stopped by alice"})
    ),
    "starts": lambda: case(*four(IMPORT, **YOUNG)),
    "no steps": lambda: case(*four(STEP, **{**EARLY, "started_age_s": 7200.0, "log_age_s": 20.0})),
    "no stacks": lambda: case(
        *[seen(at, processes=[process(4000 + at, thread(4000 + at, None))]) for at in range(4)]
    ),
    "healthy": lambda: case(*four(STEP, **FAST)),
    "healthy with long steps": lambda: case(*four(STEP, step_s=60.0, step_age_s=100.0)),
    "slow for minutes": lambda: case(
        seen(
            0, STEP, run={**FAST, "stand_out": ["worker 2 is slow: 0.9 s a step, the others 0.5 s"]}
        ),
        *four(STEP, **FAST)[1:],
    ),
    "steps come late": lambda: case(
        *four(STEP, **FAST)[:3], seen(3, QUEUE_GET, run={**FAST, "step": 780})
    ),
}

SENTENCES = {
    name: (key, sentence)
    for line in Path(__file__).with_name("sentences.txt").read_text("utf-8").splitlines()
    for name, key, sentence in [line.split(" | ")]
}


@pytest.mark.parametrize("name", CASES)
def test_the_sentence(name: str) -> None:
    found = judge([CASES[name]()]).answer
    assert (found.key, found.sentence) == SENTENCES[name]


def test_each_sentence_belongs_to_a_case() -> None:
    assert list(SENTENCES) == list(CASES)
    keys = {key for key, _sentence in SENTENCES.values()}
    assert set(CAUSES) - keys == {"note"}


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_is_one_and_its_command_is_whole(name: str) -> None:
    verdict = judge([CASES[name]()])
    for found in (verdict.answer, *verdict.more):
        assert found.sentence.count("\n") == 0
        assert found.sentence.endswith(".")
        assert "{" not in found.command + found.remedy
    assert verdict.answer.cause.grade < NOTE


def test_what_else_was_seen_stands_behind_the_answer() -> None:
    more = judge([CASES["full disk"]()]).more
    assert [one.key for one in more] == ["files"]
    notes = judge([CASES["nearly full disk"]()]).more
    assert [one.text for one in notes] == [
        "/data of worker 0 (checkpoints) is nearly full: 2.0 GB of 100 GB are free"
    ]


def test_commands_name_the_worker_and_the_process() -> None:
    def command(name: str) -> str:
        return judge([CASES[name]()]).answer.command

    assert command("stopped") == "tpu-fleet exec --limit pod-w3 --sudo -- kill -CONT 4003"
    assert command("breakpoint") == "tpu-fleet attach digits --slice pod --worker 0"
    assert command("chips held") == "tpu-fleet exec --limit pod-w1 --sudo -- kill 77"
    assert command("healthy") == command("stuck queue") == ""


def test_the_command_that_opens_a_port_has_the_workers_network() -> None:
    told = CASES["blocked port"]()
    workers = [
        Worker(one.number, one.host, one.evidence, address=f"10.2.0.{one.number}")
        for one in told.workers
    ]
    found = judge([Case("digits", "pod", tuple(workers))]).answer
    assert found.command == (
        "gcloud compute firewall-rules create tpu-fleet-workers --network=NETWORK "
        "--allow=tcp:8476 --source-ranges=10.2.0.0/24"
    )


def slow_look(number: int = 3) -> Case:
    """Return a look at a run that goes on, in which all wait for one worker."""
    busy = seen(number, own("augment", "data.py", 70), run=FAST, waits=RUNS)
    return case(*[seen(at, ALL_REDUCE, run=FAST) for at in range(4) if at != number], busy)


def test_a_worker_for_which_all_wait_in_each_look_is_slow() -> None:
    found = judge([slow_look(), slow_look(), slow_look()]).answer
    assert (found.key, found.workers) == ("slow", (3,))
    assert found.sentence == (
        "Worker 3 is slow: in each of 3 looks it computes in `augment` (data.py:70); the other 3 "
        "wait for it in an all-gather (train.py:51)."
    )
    assert judge([slow_look()]).answer.key == "healthy"
    assert judge([slow_look(), slow_look(2), slow_look()]).answer.key == "healthy"


def test_a_look_in_which_the_others_compute_too_does_not_hide_a_slow_worker() -> None:
    between = case(*four(STEP, **FAST))
    for_long = "Worker 3 is slow: in 3 of 4 looks it computes in `augment` (data.py:70); the other"
    for looks in (
        [slow_look(), between, slow_look(), slow_look()],
        [slow_look(), slow_look(), slow_look(), between],
    ):
        found = judge(looks).answer
        assert (found.key, found.workers) == ("slow", (3,))
        assert found.sentence == f"{for_long} 3 wait for it in an all-gather (train.py:51)."
    for looks in (
        [slow_look(), between, slow_look()],
        [slow_look(), between, between, slow_look()],
        [slow_look(), slow_look(), slow_look(2), slow_look()],
    ):
        assert judge(looks).answer.key == "healthy"


def test_workers_that_step_apart_by_what_a_look_takes_are_not_slow() -> None:
    # Looked at within three seconds, at two steps a second.
    told = [seen(at, STEP, run={**FAST, "step": 812 + 2 * at}) for at in range(4)]
    for at, one in enumerate(told):
        one["at"] += at
    assert judge([case(*told)]).answer.key == "healthy"


def test_a_launcher_is_not_the_program() -> None:
    launcher = process(10, thread(10, CHILD), command="python launch.py", age_s=901.0)
    program = process(11, thread(11, QUEUE_GET), parent=10)
    found = judge([case(seen(0, processes=[launcher, program]))]).answer
    assert found.key == "data"


def test_the_process_that_has_the_chips_is_the_program() -> None:
    board = process(10, thread(10, REQUEST), command="tensorboard", age_s=5000.0)
    program = process(11, thread(11, QUEUE_GET))
    held = {"present": 1, "holders": [{"chip": "/dev/accel0", "pid": 11, "ours": True}]}
    told = seen(0, processes=[board, program], chips=held)
    assert judge([case(told)]).answer.key == "data"


def test_a_pool_that_waits_for_work_is_no_dead_lock() -> None:
    idle = [
        ["wait", f"{STD}/threading.py", 355],
        ["get", f"{STD}/queue.py", 171],
        ["_worker", f"{STD}/concurrent/futures/thread.py", 90],
    ]
    main = thread(4003, own("step", "train.py", 33))
    told = seen(3, processes=[process(4003, main, thread(9, idle), thread(8, idle))])
    assert judge([with_odd(told)]).answer.key == "lock"


def test_a_program_that_is_a_package_has_lines_of_its_own() -> None:
    frames = [
        ["get", f"{STD}/queue.py", 171],
        ["next_batch", f"{SITE}/maxtext/input.py", 12],
        ["train", f"{SITE}/maxtext/train.py", 700],
    ]
    found = judge([with_odd(seen(3, frames))]).answer
    assert "`queue.get` (input.py:12)" in found.sentence


# Hostile evidence: whatever a worker writes is judged, or refused

STRANGE: list[Any] = [
    *(None, True, -1, 0, 1e308, 2**63, "", "x" * 3000, "\x1b[2J", "\u202e", [], {}, [[]]),
    *({"a": 1}, "<script>", "{run}", "%s", "{0.__class__}", "`", "T", "no route"),
]


def places(told: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each value of an object."""
    pairs: Any = ()
    if isinstance(told, dict):
        pairs = told.items()
    elif isinstance(told, list):
        pairs = enumerate(told)
    return [way, *(place for key, value in pairs for place in places(value, (*way, key)))]


def changed(told: Any, way: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value at a place."""
    if not way:
        return value
    told = list(told) if isinstance(told, list) else dict(told)
    told[way[0]] = changed(told[way[0]], way[1:], value)
    return told


def whole_evidence() -> dict[str, Any]:
    return seen(
        3,
        processes=with_loader(**NFS),
        error=TRACE,
        chips={"present": 4, "holders": HELD},
        monitoring=cores(811, 812, error="x", queued=["jit_step"]),
        ports={
            "listening": [[8476, 4003]],
            "peers": [{"worker": 0, "port": 1, "result": "timeout"}],
        },
        disk=[DISK],
        memory={"free_bytes": 1, "size_bytes": 10**10, "oom": True},
        versions={"jax": "0.12.0", "code": "a"},
    )


def test_strange_evidence_is_judged_or_refused() -> None:
    base = json.loads(json.dumps(whole_evidence()))
    ways = places(base)
    assert len(ways) > 100
    choose = random.Random(33)  # noqa: S311 - repeatable choices
    refused = judged = 0
    texts = []
    for _round in range(1500):
        told = changed(base, choose.choice(ways), choose.choice(STRANGE))
        try:
            found = Worker(3, "pod-w3", evidence_of("pod-w3", told))
        except AnswerError as error:
            refused += 1
            texts.append(str(error))
            continue
        judged += 1
        sentence = judge([case(seen(0, STEP), seen(1, STEP), found)]).answer.sentence
        assert sentence.isprintable()
        assert len(sentence) < 3000
    assert min(refused, judged) > 200
    assert all(text.startswith("pod-w3: its answer is not accepted") for text in texts)
