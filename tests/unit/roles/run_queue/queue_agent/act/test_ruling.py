"""The program of fleet_queue.on_result: its rights, its place, its limits."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from queue_agent.act.ruling import Answer, Ruling
from queue_agent.decide.rule import Rule, Subject
from queue_agent.shared._queue.objects import Submitted

USER = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
RUN = Submitted("lr-1", "0" * 64, "alice", 0, 1.0, 1.0, sweep="lr", nonce="0" * 32)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Return a new folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-test-") as made:
        path = Path(made)
        path.chmod(0o711)
        yield path


def asked(script: str, folder: Path | str, seconds: float = 60.0, user: str = USER) -> Answer:
    ruling = Ruling(Rule(("/bin/sh", "-c", script), 300.0), seconds)
    ruling.ask(Subject(RUN, user, str(folder), "/opt/venvs/jax"), [RUN])
    begun = time.monotonic()
    while time.monotonic() - begun < 60:
        assert ruling.is_busy
        answer = ruling.answer()
        if answer is not None:
            assert not ruling.is_busy
            return answer
        time.sleep(0.01)
    raise AssertionError("it did not end")


def test_it_is_the_users_in_the_folder_of_the_run(open_path: Path) -> None:
    script = 'id -un; pwd; echo "$TPU_FLEET_RUN $TPU_FLEET_SWEEP $PATH"; id -G; cat; env | wc -l'
    found = asked(script, open_path)
    assert found.problem == ""
    lines = found.said.decode().splitlines()
    assert lines[:2] == [USER, str(open_path)]
    assert lines[2].startswith("lr-1 lr /opt/venvs/jax/bin:/usr/local/sbin:")
    groups = {str(one) for one in os.getgrouplist(USER, pwd.getpwnam(USER).pw_gid)}
    assert set(lines[3].split()) == groups
    assert json.loads(lines[4].rpartition("}")[0] + "}")["arms"][0]["name"] == "lr-1"


def test_what_it_is_asked_it_cannot_change(open_path: Path) -> None:
    found = asked("echo more >/proc/self/fd/0 || echo refused", open_path)
    assert found.said == b"refused\n"


def test_it_has_a_limit_of_time_and_of_words_and_may_fail(open_path: Path) -> None:
    said = [
        asked("sleep 600", open_path, 0.3).problem,
        asked("cat /dev/zero", open_path).problem,
        asked("echo lr-1; echo no rule here >&2; exit 2", open_path).problem,
        asked("true", open_path / "gone").problem,
        asked("true", open_path, user="no-such-user").problem,
    ]
    assert said[0] == "it took longer than its time limit"
    assert said[1] == "it said more than 65536 bytes"
    assert said[2] == "exit 2: no rule here"
    assert said[3].startswith("exit 2: ")
    assert said[4] == "there is no user no-such-user on this machine"


def test_what_failed_says_nothing(open_path: Path) -> None:
    assert asked("echo lr-1; exit 1", open_path).said == b""


def test_one_question_at_a_time_and_an_end_of_all(open_path: Path) -> None:
    ruling = Ruling(Rule(("/bin/sh", "-c", "sleep 600"), 300.0))
    subject = Subject(RUN, USER, str(open_path), "")
    ruling.ask(subject, [RUN])
    ruling.ask(subject, [])
    ruling.close()
    begun = time.monotonic()
    while (answer := ruling.answer()) is None and time.monotonic() - begun < 60:
        time.sleep(0.01)
    assert answer is not None
    assert len(answer.arms) == 1
    assert "no longer wanted" in answer.problem
