"""What is taken of workers that are asked for their evidence of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from tpu_fleet.workers.ask import run_evidence

EVIDENCE: dict[str, Any] = {"worker": 1, "host": "h", "at": 1e9, "run": {"name": "train"}}


def answered(**told: Any) -> Result:
    data = json.dumps({"evidence": EVIDENCE, "text": "a\x1b[2Jb\n", **told}).encode()
    return Result("pair-w1", Kind.DONE, 0, value=data)


def test_evidence_and_its_text_that_cannot_steer_a_terminal() -> None:
    found = run_evidence.understood(answered())
    assert found.evidence is not None
    assert (found.host, found.evidence.worker, found.absent) == ("pair-w1", 1, "")
    assert found.text == "a\ufffd[2Jb\n"


@pytest.mark.parametrize(
    "told", [{"evidence": None}, {"evidence": {**EVIDENCE, "at": "now"}}, {"text": ["x"]}]
)
def test_an_answer_that_is_refused_names_the_field(told: dict[str, Any]) -> None:
    found = run_evidence.understood(answered(**told))
    assert found.refused
    assert found.absent.startswith("its answer is not accepted: ")
    assert found.remedy


@pytest.mark.parametrize(
    ("status", "err", "why"),
    [
        (3, b"it has no run train\n", "it does not have the run"),
        (2, b"tpu-fleet-run: error: argument command: invalid choice: 'why'\n", "earlier version"),
        (4, b"no hang of it is noted\n", "no hang of the run is noted there"),
        (127, b"sh: not found\n", "missing"),
        (1, b"sudo: a password is required\n", "a password is required"),
    ],
)
def test_why_a_worker_shows_nothing(status: int, err: bytes, why: str) -> None:
    found = run_evidence.understood(Result("pair-w1", Kind.DONE, status, stderr=err))
    assert found.evidence is None
    assert not found.refused
    assert why in found.absent


def test_what_was_noted_at_a_hang_is_asked_of_the_same_program() -> None:
    now, noted = run_evidence.command("train"), run_evidence.command("train", noted=True)
    assert now == "exec sudo -n /usr/local/bin/tpu-fleet-run why train"
    assert noted == f"{now} --hang"
