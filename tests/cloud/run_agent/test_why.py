"""What holds a gang's programs up, as `tpu-fleet why` finds it. Agents and programs are real."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tpu_fleet.commands.why import worker_of
from tpu_fleet.why import case
from tpu_fleet.why.case import Case, Verdict
from tpu_fleet.why.judge import judge
from tpu_fleet.workers.ask.run_evidence import parsed

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]

# A step is an all-reduce; what worker 1 does before it stands in the file `do`.
TRAIN = """\
import json, os, queue, sys, threading, time
sys.path.insert(0, os.path.join(sys.argv[1], "lib/python3.12/site-packages"))
from torch.distributed.distributed_c10d import all_reduce

batches, first, second = queue.Queue(), threading.Lock(), threading.Lock()
me, place = int(os.environ["TPU_FLEET_WORKER"]), sys.argv[1]


def job():
    path = os.path.join(place, "do")
    return open(path).read() if me == 1 and os.path.exists(path) else ""


def next_batch():
    return batches.get()


def load():
    batches.put({}["label"])


def other_way():
    with second:
        time.sleep(0.3)
        with first:
            pass


def one_way():
    threading.Thread(target=other_way, daemon=True).start()
    time.sleep(0.1)
    with first:
        with second:
            pass


def main():
    for step in range(10**6):
        if job() == "queue":
            next_batch()
        if job() == "nap":
            time.sleep(0.4)
        if job() == "locks":
            one_way()
        if job() == "thread":
            threading.Thread(target=load, daemon=True).start()
            next_batch()
        if job() == "breakpoint":
            breakpoint()
        all_reduce(place, me, step)
        with open(os.environ["TPU_FLEET_PROGRESS"] + ".new", "w") as stream:
            json.dump({"step": step}, stream)
        os.replace(stream.name, os.environ["TPU_FLEET_PROGRESS"])
        time.sleep(0.05)


main()
"""
# What waits until both have come, as a process group does.
ALL_REDUCE = """\
import os, time


def all_reduce(place, me, step):
    here = os.path.join(place, "at-" + os.environ["TPU_FLEET_ATTEMPT"])
    open(f"{here}-{step}-{me}", "w").close()
    while not os.path.exists(f"{here}-{step}-{1 - me}"):
        time.sleep(0.02)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    package = tmp_path / "lib/python3.12/site-packages/torch/distributed"
    package.mkdir(parents=True)
    (package / "distributed_c10d.py").write_text(ALL_REDUCE)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call a run quiet after two seconds."""
    for name in ("LEAST_QUIET", "QUIET"):
        monkeypatch.setattr(case, name, 2.0)


def started(gang: Make, place: Path, **more: Any) -> list[Any]:
    command = f"exec {sys.executable} -u {place}/train.py {place}"
    workers = gang(command, timing={**harness.TIMING, "step": 0.2}, **more)
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(attempt=1)
    return workers


def look(workers: Sequence[Any], *more: str) -> Case:
    """Look at all workers at once, as their agents' program does for a controller."""
    found: dict[int, Any] = {}

    def ask(worker: Any) -> None:
        place = str(worker.definition.parent)
        words = [sys.executable, str(harness.SCRIPT), "why", worker.run, place, *more]
        done = subprocess.run(words, capture_output=True, check=False, timeout=60)
        data = done.stdout.partition(b"\n")[2]
        body = b"".join(part for _head, part in pieces(data))
        assert done.returncode == 0, done.stderr
        found[worker.index] = worker_of(parsed(f"pair-w{worker.index}", body), worker.index)

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Case("demo", "pair", tuple(found[number] for number in sorted(found)))


def line(code: str) -> int:
    """Return the number of a line of the program."""
    return TRAIN[: TRAIN.index(code)].count("\n") + 1


def pieces(data: bytes) -> Any:
    """Yield the pieces of an answer."""
    while data:
        head, _line, data = data.partition(b"\n")
        size = json.loads(head)["bytes"]
        yield head, data[:size]
        data = data[size:]


def verdict(workers: Sequence[Any], key: str, looks: int = 1) -> Verdict:
    """Look until the answer is this cause."""
    last: list[Verdict] = []

    def found() -> Verdict | None:
        last.append(judge([look(workers) for _look in range(looks)]))
        return last[-1] if last[-1].answer.key == key else None

    try:
        return harness.wait_until(found, key, 60)  # type: ignore[no-any-return]
    except AssertionError as error:
        raise AssertionError(f"{error}; last: {[one.text for one in last[-1].findings]}") from None


def test_each_cause_is_found_on_the_right_worker(gang: Make, place: Path) -> None:
    workers = started(gang, place)
    healthy = verdict(workers, "healthy")
    assert "both workers run, at step" in healthy.answer.sentence
    do = place / "do"

    do.write_text("queue")
    answer = verdict(workers, "data").answer
    assert answer.workers == (1,)
    sentence = re.sub(r" for \d+ s;", ";", answer.sentence)
    stuck, step = line("batches.get()"), line("all_reduce(place")
    assert sentence == (
        f"Worker 1 waits for data in `queue.get` (train.py:{stuck}); worker 0 waits for it in an "
        f"all-reduce (train.py:{step})."
    )

    pid = workers[1].status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    answer = verdict(workers, "stopped").answer
    assert answer.workers == (1,)
    assert answer.command == f"tpu-fleet exec --limit pair-w1 --sudo -- kill -CONT {pid}"
    os.kill(pid, signal.SIGCONT)


# In CI the test before has two causes, and tests/unit/src/why all of them, with made evidence.
@pytest.mark.night
def test_causes_of_several_attempts(gang: Make, place: Path) -> None:
    workers = started(gang, place)
    do, attempt = place / "do", 1

    def again(job: str) -> None:
        nonlocal attempt
        do.write_text(job)
        os.kill(workers[1].status()["pid"], signal.SIGKILL)
        attempt += 1
        for worker in workers:
            worker.wait_running(attempt=attempt)

    do.write_text("nap")
    answer = verdict(workers, "slow", looks=3).answer
    assert answer.workers == (1,)
    assert "in each of 3 looks it sleeps in `main`" in answer.sentence

    again("locks")
    answer = verdict(workers, "dead_lock").answer
    assert answer.workers == (1,)
    for wanted in ("with second:\n            pass", "with first:\n            pass"):
        assert f"(train.py:{line(wanted)})" in answer.sentence

    again("thread")
    answer = verdict(workers, "error").answer
    assert answer.workers == (1,)
    assert "failed with `KeyError: 'label'` (train.py:" in answer.sentence

    again("breakpoint")
    answer = verdict(workers, "person").answer
    assert answer.workers == (1,)
    assert answer.command == "tpu-fleet attach demo --slice pair --worker 1"
    assert answer.cause.title == "waits for a person"


def attempt_of(found: Verdict) -> int:
    (attempt,) = {one.evidence.run.attempt for one in found.case.workers if one.evidence}
    return attempt


# In CI tests/unit/roles/training_run/run_agent/act/test_hang.py reads made notes.
@pytest.mark.night
def test_what_the_agents_noted_of_a_hang_is_judged_later(gang: Make, place: Path) -> None:
    workers = started(gang, place, hang_seconds=8)
    harness.wait_until(lambda: workers[0].status().get("step"), "a step")
    (place / "do").write_text("queue")
    for worker in workers:
        worker.wait_event("hang")
    (place / "do").unlink()
    for worker in workers:
        worker.wait_running(attempt=2)
    assert attempt_of(verdict(workers, "healthy")) == 2
    noted = judge([look(workers, "--hang")])
    assert (noted.answer.key, noted.answer.workers) == ("data", (1,))
    assert "worker 0 waits for it in an all-reduce" in noted.answer.sentence
    assert attempt_of(noted) == 1
