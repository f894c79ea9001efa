"""What becomes of slices when their runs have finished, or when they are idle.

`.venv/bin/pytest tests/machines/stories/test_after_the_end.py`
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import NOTHING, Fleet, wait_until

# In CI tests/cloud/watch has the watcher's part, without machines.
pytestmark = pytest.mark.night

ZONE = "us-central2-b"
WORK = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"])
saved = folder / "steps"
saved.write_text((saved.read_text() if saved.exists() else "") + sys.argv[1] + "\\n")
print("worked as", sys.argv[1])
"""
RESULT = "/home/alice/result"


def work(run: str, on: str, word: str, **more: Any) -> dict[str, Any]:
    return {
        "name": run,
        "slices": [on],
        "user": "alice",
        "command": shlex.join(["exec", "python3", "-uc", WORK, word]),
        "needs_tpu": False,
        **more,
    }


def wanted(*runs: dict[str, Any], told: Path, only: str = "") -> dict[str, Any]:
    where = {"accelerator_type": "v4-8", "zone": ZONE}
    slices: list[dict[str, Any]] = [
        {"name": "gone", **where, "on_finish": "delete"},
        {"name": "off", **where, "on_finish": "stop"},
        {"name": "quiet", **where, "on_finish": "stop", "idle_after": "1m"},
    ]
    return {
        **NOTHING,
        "fleet_slices": [one for one in slices if only in ("", one["name"])],
        "fleet_base_packages": ["sudo", "tmux", "tzdata", "rsync"],
        "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
        "fleet_notify": [{"command": f"cat >> {told}; echo >> {told}"}],
        "fleet_results_dir": str(told.parent / "collected"),
        "fleet_runs": list(runs),
    }


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """The file to which all messages for people go."""
    return tmp_path / "messages"


@pytest.fixture
def watcher(fleet: Fleet) -> Iterator[list[subprocess.Popen[str]]]:
    """The watchers that a story starts; none outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def said(fleet: Fleet) -> str:
    logs = (fleet.folder / "state" / "watch").glob("*/watch.log")
    return "".join(log.read_text() for log in logs)


def state(fleet: Fleet, name: str) -> str:
    """Return the state of a node, as the API has it."""
    return str(fleet.cloud().get(name, {}).get("state", "none"))


def test_slices_rest_when_nobody_needs_them(
    fleet: Fleet, told: Path, watcher: list[subprocess.Popen[str]]
) -> None:
    # A run that is said to leave a result, and does not.
    runs = [
        work("digits", "gone", "one", results=[RESULT]),
        work("words", "off", "one"),
    ]
    fleet.declare(wanted(*runs, told=told))
    fleet.play("site.yml")
    watcher.append(fleet.start("tpu-fleet", "watch", "run", "--interval=2", "--hosts-interval=10"))
    wait_until("off is stopped", lambda: state(fleet, "off") == "STOPPED", 600)

    # Nothing is deleted while not everything is here.
    wait_until("gone is kept", lambda: "gone is kept: digits has finished" in said(fleet), 300)
    assert state(fleet, "gone") == "READY"
    fleet.ssh("gone", f"echo 42 | sudo tee {RESULT}")
    wait_until("gone is deleted", lambda: state(fleet, "gone") == "none", 600)
    left = told.parent / "collected" / "digits" / "gone"
    assert "worked as one" in (left / "run.log").read_text()
    assert "run-succeeded" in (left / "events.jsonl").read_text()
    assert json.loads((left / "status.json").read_text())["state"] == "succeeded"
    assert (left / "results" / RESULT.lstrip("/")).read_text() == "42\n"
    saved = "results/var/lib/tpu-fleet/checkpoints/digits/steps"
    assert (left / saved).read_text() == "one\n"
    assert (told.parent / "collected/words/off/run.log").exists()

    wait_until("quiet is stopped", lambda: state(fleet, "quiet") == "STOPPED", 600)

    def titles() -> list[str]:
        lines = told.read_text().splitlines() if told.exists() else []
        return [json.loads(line)["title"] for line in lines if line]

    # It is told when the playbook has ended, some moments after the slice has.
    wanted_titles = {"gone was deleted", "off was stopped", "quiet was stopped"}
    wait_until("all is told", lambda: wanted_titles <= set(titles()), 180)
    assert not [title for title in titles() if title.endswith("is gone")]


def test_what_was_deleted_comes_back_for_a_changed_run_and_for_who_asks(
    fleet: Fleet, told: Path
) -> None:
    fleet.declare(wanted(work("digits", "gone", "one"), told=told, only="gone"))
    fleet.play("site.yml")
    wait_until("the run", lambda: fleet.status("gone", "digits").get("state") == "succeeded", 180)
    fleet.play("tpu.fleet.finish", "-e", "finish=gone")
    assert state(fleet, "gone") == "none"
    assert "worked as one" in (told.parent / "collected/digits/gone/run.log").read_text()

    # Neither this computer nor another one makes it again.
    fleet.play("site.yml")
    other = fleet.run(
        "ansible-playbook", "tpu.fleet.provision", TPU_FLEET_STATE_DIR=str(told.parent / "other")
    )
    assert "gone: ended: deleted, because it was asked for" in other
    assert state(fleet, "gone") == "none"

    # A changed run needs it again.
    fleet.declare(wanted(work("digits", "gone", "two"), told=told, only="gone"))
    fleet.play("site.yml")
    wait_until("the run", lambda: fleet.status("gone", "digits").get("state") == "succeeded", 180)
    assert "worked as two" in fleet.log("gone", "digits")
    fleet.play("tpu.fleet.finish", "-e", "finish=gone")
    assert state(fleet, "gone") == "none"
    fleet.play("tpu.fleet.provision", "-e", "fleet_wake=gone")
    assert state(fleet, "gone") == "READY"
