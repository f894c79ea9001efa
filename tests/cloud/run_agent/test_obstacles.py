"""What another user of a machine puts in a run's way: the run waits, and loses no retry."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
STRANGER = 65534
HOLD = """
import os, socket, sys, time
os.setgroups([])
os.setgid({stranger})
os.setuid({stranger})
with socket.socket() as held:
    held.bind(("0.0.0.0", int(sys.argv[1])))
    if sys.argv[2] == "listens":
        held.listen()
    print(flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def held(port: int, how: str = "listens") -> Iterator[subprocess.Popen[bytes]]:
    """Have another user hold a port."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD.format(stranger=STRANGER), str(port), how],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        try:
            yield process
        finally:
            process.kill()


def port_of(worker: Any) -> int:
    return int(json.loads(worker.definition.read_text())["coordinator_port"])


def kept(worker: Any) -> dict[str, Any]:
    return dict(json.loads((worker.folder / "state/gang.json").read_text()))


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="it needs processes of another user")


@needs_root
@pytest.mark.parametrize(
    ("how", "who"), [("listens", "({program} -c) of "), ("binds", "a process")]
)
def test_a_run_waits_for_its_coordinators_port(gang: Make, how: str, who: str) -> None:
    workers = gang("exec sleep 1000")
    port = port_of(workers[0])
    with held(port, how):
        for worker in workers:
            worker.up()
        told = f"worker 0: port {port} (TPU_FLEET_COORDINATOR) is held by "
        found = harness.wait_until(
            lambda: told in (reason := workers[0].status().get("reason", "")) and reason, told
        )
        assert who.format(program=sys.executable) in found
        assert workers[0].status()["state"] == "pending"
    workers[0].wait_running(1)
    assert kept(workers[0])["failures"] == []


# The port is taken when the program is about to listen; the third attempt finds it free.
TAKEN = """
[ "$TPU_FLEET_WORKER" = 0 ] || exec sleep 1000
[ "$TPU_FLEET_ATTEMPT" -ge 3 ] && exec sleep 1000
echo "$TPU_FLEET_ATTEMPT" > {asked}
while [ "$(cat {taken} 2> /dev/null)" != "$TPU_FLEET_ATTEMPT" ]; do sleep 0.05; done
exit 1
"""


@needs_root
def test_a_port_that_is_taken_meanwhile_is_no_failure_of_the_program(
    gang: Make, tmp_path: Path
) -> None:
    asked, taken = tmp_path / "asked", tmp_path / "taken"
    workers = gang(TAKEN.format(asked=asked, taken=taken), retries=0)
    for worker in workers:
        worker.up()
    port = port_of(workers[0])
    for attempt in (1, 2):
        harness.wait_until(
            lambda now=attempt: asked.exists() and asked.read_text().strip() == str(now),
            f"attempt {attempt}",
        )
        with held(port):
            taken.write_text(str(attempt))
            workers[0].wait(state="restarting", attempt=attempt)
            harness.wait_until(
                lambda: (
                    f"port {port} (TPU_FLEET_COORDINATOR) is held" in workers[0].status()["reason"]
                ),
                "the holder in the reason",
            )
    workers[0].wait_running(3)
    gang_now = kept(workers[0])
    assert (gang_now["failures"], gang_now["obstructed"]) == ([], 2)
    causes = [one["cause"] for one in workers[0].status()["history"]]
    assert all(f"port {port} (TPU_FLEET_COORDINATOR) is held by process" in one for one in causes)


@needs_root
def test_the_program_of_a_single_worker_waits_for_no_port_and_may_need_it(
    gang: Make, tmp_path: Path
) -> None:
    asked, taken = tmp_path / "asked", tmp_path / "taken"
    script = TAKEN.replace("-ge 3", "-ge 2").format(asked=asked, taken=taken)
    (worker,) = gang(script, workers=1, retries=0)
    worker.up()
    harness.wait_until(asked.exists, "attempt 1")
    with held(port_of(worker)):
        taken.write_text("1")
        worker.wait_running(2)
    assert kept(worker)["failures"] == []
    (cause,) = (one["cause"] for one in worker.status()["history"])
    assert "(TPU_FLEET_COORDINATOR) is held by process" in cause


@needs_root
# A link leads furthest; what is there instead is moved away in the same way.
@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.night) for kind in ("folder", "file")), "link"]
)
def test_the_folder_of_tmux_is_the_users(gang: Make, kind: str) -> None:
    (worker,) = gang("exec sleep 1000", workers=1)
    place = worker.tmux / f"tmux-{os.getuid()}"
    if kind == "folder":
        place.mkdir(mode=0o777)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place / "default"))
    elif kind == "file":
        place.touch()
    else:
        place.symlink_to("/")
    os.chown(place, STRANGER, STRANGER, follow_symlinks=False)
    worker.up()
    worker.wait_running(1)
    seen = place.lstat()
    assert (seen.st_uid, seen.st_mode & 0o7777) == (os.getuid(), 0o700)
    assert len(list(worker.tmux.glob(f".tmux-{os.getuid()}-moved-away-*/tmux-*"))) == 1


def test_what_cannot_be_started_is_tried_again_and_is_no_failure(
    gang: Make, tmp_path: Path
) -> None:
    """The folder of tmux's sockets cannot be made for as long as its parent is not there."""
    (worker,) = gang("exec sleep 1000", workers=1, retries=0)
    away = worker.tmux.with_name("away")
    worker.tmux.rename(away)
    worker.tmux.touch()
    worker.up()
    harness.wait_until(lambda: "tmux" in worker.status().get("reason", ""), "the reason")
    assert worker.status()["state"] in ("pending", "restarting")
    worker.tmux.unlink()
    away.rename(worker.tmux)
    harness.wait_until(lambda: worker.status().get("state") == "running", "the run")
    assert kept(worker)["failures"] == []


def test_a_run_waits_for_its_data_sets_on_every_worker(gang: Make, tmp_path: Path) -> None:
    path = tmp_path / "set"
    declared = [{"name": "words", "path": str(path), "id": "0123456789abcdef"}]
    says = 'test -f "$TPU_FLEET_DATASET_WORDS/a" || exit 1; exec sleep 1000'
    workers = gang(says, datasets=declared, retries=0)
    for worker in workers:
        worker.up()
    told = "worker 0: data set words: it is not staged yet"
    harness.wait_until(lambda: told in workers[0].status().get("reason", ""), told)
    folder = tmp_path / ".set.dataset"
    (folder / "0123456789abcdef").mkdir(parents=True)
    (folder / "0123456789abcdef" / "a").touch()
    (folder / "current").symlink_to("0123456789abcdef")
    path.symlink_to(".set.dataset/current")
    workers[0].wait_running(1)
    assert kept(workers[0])["failures"] == []
