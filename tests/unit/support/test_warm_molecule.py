"""Molecule's commands: Ansible's run in a process that has it imported, others as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm_molecule

ARGS: Any = {
    "universal_newlines": True,
    "check": False,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
}


def test_a_playbook_is_run_warm_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def run_ansible(*words: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words[0], 2, "PLAY RECAP\n", "[ERROR]: no\n")

    monkeypatch.setattr(warm_molecule, "run_ansible", run_ansible)
    words, env = ["ansible-playbook", "converge.yml"], {"HOME": "/root"}
    done = warm_molecule.run_and_show(words, env=env, cwd=str(tmp_path), **ARGS)
    assert asked == [(words, env, tmp_path, warm_molecule.LIMIT)]
    assert (done.returncode, done.stdout) == (2, "PLAY RECAP\n")
    assert capsys.readouterr() == ("PLAY RECAP\n", "[ERROR]: no\n")


def test_another_command_is_started(capfd: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-c", "print('a program'); raise SystemExit(3)"]
    done = warm_molecule.run_and_show(words, env=dict(os.environ), cwd=None, **ARGS)
    assert (done.returncode, done.stdout.strip()) == (3, "a program")
    assert "a program" in capfd.readouterr().out
