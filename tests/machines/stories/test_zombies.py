"""A worker of a lost slice that comes back: it is ended before it harms the checkpoints.

The machine is frozen in the middle of a save, its node is gone at the API, and the slice is created
again and saves. Then the old machine goes on.
`.venv/bin/pytest tests/machines/stories/test_zombies.py`
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from fleet import NOTHING, Fleet, wait_until

from tpu_local_cloud.machines.layout import Layout

# In CI tests/cloud/run_agent/test_bucket_fence.py has frozen workers as processes.
pytestmark = pytest.mark.night

HOST, ZONE, LIVES = "solo", "us-central2-b", 5
PARTS = 8
# Saves a step a second by Python's own library: as one object, or as a folder of several with a
# mark. What it saves names the attempt.
SAVES = """
import json, os, sys, time, urllib.parse, urllib.request
account = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
store = "https://storage.googleapis.com"
attempt = os.environ["TPU_FLEET_ATTEMPT"]
def ask(url, data=None, **headers):
    while True:
        try:
            asked = urllib.request.Request(url, data, headers)
            return json.loads(urllib.request.urlopen(asked).read())
        except OSError as error:
            print("refused with", error)
            time.sleep(0.2)
bearer = "Bearer " + ask(account + "/token", **{"Metadata-Flavor": "Google"})["access_token"]
def place(variable):
    bucket, _, folder = os.environ[variable][len("gs://"):].partition("/")
    return bucket, folder + "/"
def names():
    bucket, prefix = place("TPU_FLEET_RESTORE_DIR")
    query = urllib.parse.urlencode({"prefix": prefix})
    found = ask(f"{store}/storage/v1/b/{bucket}/o?{query}", Authorization=bearer)
    return [one["name"][len(prefix):] for one in found.get("items", [])]
def save(name):
    bucket, prefix = place("TPU_FLEET_CHECKPOINT_DIR")
    query = urllib.parse.urlencode({"uploadType": "media", "name": prefix + name})
    ask(f"{store}/upload/storage/v1/b/{bucket}/o?{query}", attempt.encode(), Authorization=bearer)
kind, parts = sys.argv[1], int(sys.argv[2])
mark = "/commit_success.txt" if kind == "folder" else ".ckpt"
there = names() if os.environ["TPU_FLEET_RESTORE_DIR"] else []
marked = [name for name in there if name.endswith(mark)]
step = max((int(name.split("/")[0].split(".")[0]) for name in marked), default=0)
print("attempt", attempt, "restores step", step, "of", os.environ["TPU_FLEET_RESTORE_DIR"])
while True:
    step += 1
    for number in range(parts if kind == "folder" else 0):
        save(f"{step}/d/{number}")
        time.sleep(0.1)
    save(f"{step}{mark}")
    time.sleep(1)
"""


def run_of(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "slices": [HOST],
        "user": "alice",
        "command": shlex.join(["exec", "python3", "-uc", SAVES, kind, str(PARTS)]),
        "checkpoint_dir": f"gs://lab-zombies/{name}",
        "needs_tpu": False,
        **more,
    }


FLEET = {
    **NOTHING,
    "fleet_slices": [{"name": HOST, "accelerator_type": "v4-8", "zone": ZONE}],
    "fleet_base_packages": ["sudo", "tmux", "tzdata"],
    "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
    "fleet_runs": [run_of("files", "file"), run_of("mixes", "folder", fence="attempt")],
}
RUNS = ("files", "mixes")


@pytest.fixture(scope="module")
def fleet(_cloud: Fleet) -> Iterator[Fleet]:
    url = f"http://127.0.0.1:{_cloud.port}/storage/v1/b"
    requests.post(url, json={"name": "lab-zombies"}, timeout=30).raise_for_status()
    with _cloud.holding(FLEET) as fleet:
        yield fleet


def listed(fleet: Fleet, prefix: str) -> dict[str, str]:
    """Return when each object was written, by name."""
    url, found, token = f"http://127.0.0.1:{fleet.port}/storage/v1/b/lab-zombies/o", {}, ""
    while True:
        asked = {"prefix": prefix, "pageToken": token}
        page = requests.get(url, params=asked, timeout=60).json()
        found.update({item["name"]: item["updated"] for item in page.get("items", [])})
        token = page.get("nextPageToken", "")
        if not token:
            return found


def content(fleet: Fleet, name: str) -> str:
    """Return the attempt that wrote an object."""
    url = f"http://127.0.0.1:{fleet.port}/storage/v1/b/lab-zombies/o"
    return requests.get(f"{url}/{quote(name, safe='')}?alt=media", timeout=60).text


def saves(fleet: Fleet, attempt: int) -> bool:
    """Return whether both runs have saved a step in this attempt."""
    files = {n: at for n, at in listed(fleet, "files/").items() if n.endswith(".ckpt")}
    marks = [n for n in listed(fleet, f"mixes/attempt-{attempt}/") if n.endswith("success.txt")]
    newest = max(files, key=files.__getitem__, default="")
    return bool(newest and marks) and content(fleet, newest) == str(attempt)


class Machine:
    """A machine as its host sees it, whether the API knows it or not."""

    def __init__(self, fleet: Fleet) -> None:
        state = requests.get(f"http://127.0.0.1:{fleet.port}/_cloud/state", timeout=60).json()
        (node,) = state["nodes"]
        layout = Layout(Path(fleet.env["TPU_FLEET_CLOUD_DIR"]))
        self.pid = int(layout.pid_file(node["workers"][0]["machine"]).read_text())

    def processes(self) -> list[int]:
        """Return all processes of the machine, by the numbers that they have here."""
        space = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (folder / "ns/pid").readlink() == space:
                    found.append(int(folder.name))
        return found

    def send(self, number: int) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def programs(self) -> list[int]:
        """Return the programs of the runs: Python with the text above."""
        found = []
        for pid in self.processes():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[:2] == [b"python3", b"-uc"]:
                    found.append(pid)
        return found

    def status(self, run: str) -> dict[str, Any]:
        file = Path(f"/proc/{self.pid}/root/var/lib/tpu-fleet/runs/{run}/status.json")
        with suppress(OSError, ValueError):
            return dict(json.loads(file.read_text()))
        return {}

    def events(self, run: str) -> list[dict[str, Any]]:
        file = Path(f"/proc/{self.pid}/root/var/log/tpu-fleet/runs/{run}/events.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]


def failed(machine: Machine, run: str) -> dict[str, Any]:
    status = machine.status(run)
    return status if status.get("state") == "failed" else {}


def test_a_zombie_is_ended_and_its_successors_checkpoints_stay_whole(fleet: Fleet) -> None:
    for life in range(1, LIVES + 1):
        wait_until(f"a checkpoint of attempt {life}", lambda n=life: saves(fleet, n), 600)
        old = Machine(fleet)
        assert len(old.programs()) == 2
        time.sleep(0.17 * life)  # each time at another place of a save
        old.send(signal.SIGSTOP)
        fleet.run("tpu-fleet", "cloud", "lose", HOST)
        fleet.play("site.yml")
        wait_until(f"a checkpoint of attempt {life + 1}", lambda n=life: saves(fleet, n + 1), 600)
        mine = f"mixes/attempt-{life}/"
        before = set(listed(fleet, mine))
        old.send(signal.SIGCONT)
        begun = time.monotonic()
        wait_until("the end of the zombie", lambda machine=old: not machine.programs(), 60)
        print(f"note: life {life}: the zombie was ended after {time.monotonic() - begun:.1f} s")
        # What was on its way arrives, and what a busy computer lets it write until it is held.
        assert len(set(listed(fleet, mine)) - before) <= 3
        for run in RUNS:
            status = wait_until("its verdict", lambda m=old, r=run: failed(m, r), 120)
            wanted = f"fenced by attempt {life + 1} of slice {HOST} on "
            assert status["reason"].startswith(wanted)
            assert [event for event in old.events(run) if event["event"] == "fenced"]
            now = fleet.status(HOST, run)
            assert (now["state"], now["attempt"], now["run_id"]) == (
                "running", life + 1, status["run_id"],
            )  # fmt: skip
    steps: dict[str, set[str]] = {}
    contents = listed(fleet, "mixes/attempt-")
    for name in contents:
        steps.setdefault("/".join(name.split("/")[:3]), set()).add(content(fleet, name))
    # No folder has objects of two attempts, and those with a mark have all of them.
    assert all(len(attempts) == 1 for attempts in steps.values())
    marked = [step for step in steps if f"{step}/commit_success.txt" in contents]
    assert len(marked) > LIVES
    for step in marked:
        assert sum(name.startswith(f"{step}/") for name in contents) == PARTS + 1
