"""Where a program hangs."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from run_agent.act import (
    hand,
    installed,
    processes,
    stacks,
)
from run_agent.decide import config
from run_definition import USUAL


def test_only_handlers_are_signalled(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_text(f"Name:\tx\nSigCgt:\t{1 << (stacks.SIGNAL - 1):016x}\n")
    assert processes.catches(7, stacks.SIGNAL, tmp_path)
    assert not processes.catches(7, 10, tmp_path)
    assert not processes.catches(8, 10, tmp_path)


def test_the_hook_and_the_agent_mean_one_signal() -> None:
    hook = installed.FILES / "hang_hook/sitecustomize.py"
    found = re.search(r"^_SIGNAL = (\d+)", hook.read_text(), re.MULTILINE)
    assert found is not None
    assert int(found[1]) == stacks.SIGNAL


ME = hand.Hand(pwd.getpwuid(os.geteuid()).pw_name)


@pytest.mark.parametrize(
    ("written", "looks"),
    [
        (["one\n"], 2),  # as nearly always
        (["", "", "one\n", "two\n"], 5),  # tmux was late
        ([""] * 20, 10),  # a full disk: the run goes on without
    ],
)
def test_what_a_program_wrote_of_itself_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[str], looks: int
) -> None:
    public = {**USUAL, **dict.fromkeys(("run", "user", "command", "workdir"), "")}
    public.update(
        user=pwd.getpwuid(os.geteuid()).pw_name, hosts=["h"], worker=0, port=1, coordinator_port=2
    )
    log, target = tmp_path / "run.log", tmp_path / "hang-1.txt"
    log.write_text("step 1\n")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        with log.open("a") as out:
            out.write(written[len(slept) - 1] if len(slept) <= len(written) else "")

    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(stacks, "py_spy", lambda _config: None)
    monkeypatch.setattr(processes, "catches", lambda _pid, _number: True)
    monkeypatch.setattr(processes, "send", lambda pids, _number, _uid: list(pids))
    made = config.parse({**public, "paths": {"log": str(log)}}, {})
    stacks.write(made, ME, [os.getpid()], target, "A run")
    assert target.read_text().endswith("as in the log\n" + "".join(written))
    assert len(slept) == looks
    assert 1.0 <= sum(slept) <= 5.0
