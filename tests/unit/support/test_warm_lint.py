"""The commands of ansible-lint: Ansible's run in a process that has it imported, others started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm_lint


def test_a_syntax_check_is_run_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_ansible(*words: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words[0], 4, "playbook: a\n", "[ERROR]: no\n")

    monkeypatch.setattr(warm_lint, "run_ansible", run_ansible)
    words, env = ["ansible-playbook", "--syntax-check", "a.yml"], {"HOME": "/root"}
    done = warm_lint.run(words, env=env, cwd=str(tmp_path), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (4, "playbook: a\n", "[ERROR]: no\n")
    monkeypatch.chdir(tmp_path)
    warm_lint.run(words, env=env, cwd=None)
    assert asked == [(words, env, tmp_path, warm_lint.LIMIT)] * 2


def test_another_command_is_started() -> None:
    words = [sys.executable, "-c", "print('a program'); raise SystemExit(3)"]
    done = warm_lint.run(words, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "a program\n")
