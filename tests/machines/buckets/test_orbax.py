"""JAX on two workers of a spot slice, with Orbax on a bucket: killed, rebooted, hung, preempted.

Each worker saves its part of the parameters. The program prints no steps, so its bucket is the only
sign of life. The tests are one story, in their order: `.venv/bin/pytest -x tests/machines/buckets`
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import bucket_python
import pytest
import requests
from bucket_python import PROGRAM
from compute_fleet import CODE, EVERY, PAIR, PEOPLE, SHARE, SHARES, USER, ComputeFleet, trainer
from fleet import wait_until

from tpu_fleet.top.columns import duration

# In CI tests/cloud/run_agent has the agent's looks at a bucket.
pytestmark = pytest.mark.night

# Of one region, where the bucket is.
A, B = "us-east5-a", "us-east5-b"
RUN, LEADER, OTHER = "digits", "pair-w0", "pair-w1"
BUCKET, PREFIX = "lab-checkpoints", "digits/"
NOTES = f"{SHARE}/{RUN}"
MARK = "commit_success.txt"
# On Compute Engine machines have no account, unless one is named.
ACCOUNT = "123456789012-compute@developer.gserviceaccount.com"
HANG_SECONDS = 120
LOOKS_SECONDS = 300
"""So long it takes at most until the agent has looked at the bucket twice."""
FIRST_LOOK_SECONDS = 600
"""So long after the first look of an agent, which asks for most."""
FLEET: dict[str, Any] = {
    **PEOPLE,
    "fleet_slices": [
        {
            "name": "pair",
            **PAIR,
            **SHARES,
            "tier": "spot",
            "zones": [A, B],
            "service_account": ACCOUNT,
        }
    ],
    "fleet_code": [CODE],
    "fleet_metrics": True,
    "fleet_runs": [
        trainer(
            RUN,
            ["pair"],
            f"gs://{BUCKET}/{PREFIX}",
            env={"PYTHONPATH": f"{SHARE}/python", "CHAOS_DIARY": NOTES},
            command=f"{PROGRAM} train.py --every {EVERY} --step-seconds 0.3 --orbax --quiet",
            hang_after=f"{HANG_SECONDS}s",
        )
    ],
}


class BucketFleet(ComputeFleet):
    """The fleet, and its bucket."""

    def begin(self) -> None:
        """Bring it up until the run trains; a second of its time is one."""
        self.up()
        made = {"name": BUCKET, "location": A.rpartition("-")[0]}
        requests.post(self._storage, json=made, timeout=60).raise_for_status()
        for book in ("provision", "configure"):
            self.play(f"tpu.fleet.{book}")
        words = ("ssh", "-F", str(self.ssh_config), "-o", "LogLevel=ERROR", LEADER)
        bucket_python.bring(words, f"{SHARE}/python", USER)
        self.play("tpu.fleet.train")

    @property
    def _storage(self) -> str:
        return f"http://127.0.0.1:{self.port}/storage/v1/b"

    def marks(self) -> dict[int, float]:
        """Return the whole steps in the bucket, with the times of their marks."""
        query = {"prefix": PREFIX, "matchGlob": f"{PREFIX}*/{MARK}"}
        answer = requests.get(f"{self._storage}/{BUCKET}/o", params=query, timeout=60)
        answer.raise_for_status()
        return {
            int(one["name"].split("/")[1]): datetime.fromisoformat(one["updated"]).timestamp()
            for one in answer.json().get("items", [])
        }

    def wait_saved(self, least: int, limit: float = 300) -> int:
        """Wait until a step is whole, which is at least this one; return it."""
        return wait_until(
            f"step {least} in the bucket",
            lambda: (found := max(self.marks(), default=0)) >= least and found,
            limit,
        )

    def wait_shown(self, host: str, mark: float, limit: float) -> dict[str, Any]:
        """Wait until a worker's status has the time of a mark; return the status."""

        def look() -> dict[str, Any] | None:
            found = self.status(host, RUN)
            return found if abs((found.get("saved_at") or 0.0) - mark) < 0.002 else None

        return wait_until(f"the mark in the status of {host}", look, limit)

    def write(self, name: str, number: int) -> None:
        """Write a number for the program."""
        script = f"echo {number} > {NOTES}/new; mv {NOTES}/new {NOTES}/{name}"
        self.ssh(LEADER, f"sudo sh -c '{script}'")

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a name that the leader's machine has of the run."""
        lines = self.ssh(LEADER, f"sudo cat /var/log/tpu-fleet/runs/{RUN}/events.jsonl")
        found = [json.loads(line) for line in lines.splitlines()]
        return [event for event in found if event["event"] == name]

    def wait_next(self, attempt: int, limit: float = 300) -> int:
        """Wait until both workers are at an attempt after this one; return it."""
        return self.wait_attempt(RUN, attempt + 1, LEADER, OTHER, limit=limit)

    def attempt(self) -> int:
        """Return the attempt at which both workers are."""
        return self.wait_next(0)

    def begun_after(self, attempt: int) -> int:
        """Return the step after which an attempt began, on both workers."""
        words = rf"attempt {attempt} worker \d begins after step (\d+)"

        def look() -> set[str] | None:
            found = [re.findall(words, self.log(host, RUN)) for host in (LEADER, OTHER)]
            return {one[-1] for one in found} if all(found) else None

        steps = wait_until(f"the first step of attempt {attempt}", look, 300)
        assert len(steps) == 1, steps
        return int(steps.pop())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketFleet]:
    """The slice, whose run trains."""
    fleet = BucketFleet(tmp_path_factory.mktemp("buckets"), FLEET)
    try:
        fleet.begin()
        yield fleet
    finally:
        fleet.down()


def test_a_killed_program_goes_on_from_the_newest_whole_step(fleet: BucketFleet) -> None:
    attempt = fleet.attempt()
    assert fleet.begun_after(attempt) == 0
    before = fleet.wait_saved(3 * EVERY)
    pid = fleet.status(OTHER, RUN)["pid"]
    fleet.ssh(OTHER, f"sudo kill -9 {pid}")
    assert fleet.begun_after(fleet.wait_next(attempt)) >= before


def test_a_rebooted_worker_comes_back_and_both_go_on(fleet: BucketFleet) -> None:
    attempt = fleet.attempt()
    before = fleet.wait_saved(fleet.begun_after(attempt) + 2 * EVERY)
    fleet.run("tpu-fleet", "cloud", "reboot", "pair", "--worker", "1")
    assert fleet.begun_after(fleet.wait_next(attempt)) >= before


def test_a_bucket_that_grows_is_a_sign_of_life(fleet: BucketFleet) -> None:
    attempt = fleet.attempt()
    begun = fleet.status(LEADER, RUN)["start"]
    wait_until("an age", lambda: time.time() - begun > HANG_SECONDS + LOOKS_SECONDS / 2, 900)
    assert fleet.attempt() == attempt
    assert fleet.events("hang") == []


def test_saved_is_the_time_of_the_mark_wherever_it_is_shown(fleet: BucketFleet) -> None:
    attempt = fleet.attempt()
    fleet.write("still", attempt)
    step, mark = stands_still(fleet)
    seen = fleet.wait_shown(LEADER, mark, LOOKS_SECONDS)
    assert (seen["bucket"]["step"], seen["state"]) == (step, "running")
    # The other worker learns it from the leader.
    fleet.wait_shown(OTHER, mark, 30)
    shown_since(fleet, ("runs", "--json"), mark)
    shown_since(fleet, ("status", "--json"), mark)
    shown_since(fleet, ("history", "--json"), mark)

    since = time.time()
    table = fleet.run("tpu-fleet", "top")
    ages = {duration(at - mark) for at in range(int(since), int(time.time()) + 2)}
    titles, row_of_run = table.splitlines()[-2:]
    saved = row_of_run[titles.index("SAVED") :].split()[0]
    assert saved in ages

    page = fleet.folder / "page.html"
    fleet.run("tpu-fleet", "page", "--output", str(page))
    times = re.findall(r'<time class="age" datetime="([^"]+)"', page.read_text())
    assert any(abs(datetime.fromisoformat(at).timestamp() - mark) <= 1 for at in times)

    [kept] = fleet.report("tpu-fleet", "checkpoints", RUN, "--json")["runs"]
    newest = kept["checkpoints"][-1]
    assert (newest["step"], newest["state"], newest["leftover"]) == (step, "whole", False)
    assert abs(datetime.fromisoformat(newest["time"]).timestamp() - mark) < 1

    found = wait_until("the metrics of this look", lambda: metrics(fleet, mark), 60)
    assert found["tpu_fleet_run_checkpoint_step"] == step
    assert found["tpu_fleet_run_checkpoint_bytes"] == seen["bucket"]["bytes"]
    assert fleet.attempt() == attempt, "no hang was found meanwhile"


def stands_still(fleet: BucketFleet) -> tuple[int, float]:
    """Wait until nothing is saved any more; return the newest whole step and its time."""
    seen: dict[int, float] = {}
    since = time.monotonic()

    def look() -> bool:
        nonlocal seen, since
        found = fleet.marks()
        if found != seen:
            seen, since = found, time.monotonic()
        return time.monotonic() - since > 15

    wait_until("a bucket that does not grow", look, 120)
    return max(seen), seen[max(seen)]


def shown_since(fleet: BucketFleet, words: tuple[str, ...], mark: float) -> Any:
    """Return what a command prints, whose run was saved at a time."""
    before = time.time()
    told = fleet.report("tpu-fleet", *words)
    after = time.time()
    [row] = told["runs"]
    assert before - mark - 1 <= row["seconds_since_checkpoint"] <= after - mark + 1, words
    return told


def metrics(fleet: BucketFleet, mark: float) -> dict[str, float] | None:
    """Return what Prometheus gets of the run, once it has the time of a mark."""
    address = fleet.internal("pair")[0]
    page = fleet.ssh(LEADER, f"curl -sf http://{address}:9100/metrics")
    lines = re.findall(r"^(tpu_fleet_run_checkpoint_\w+)\{[^}]*\} (\S+)$", page, re.M)
    found = {name: float(value) for name, value in lines}
    at = found.get("tpu_fleet_run_checkpoint_timestamp_seconds", 0.0)
    return found if abs(at - mark) < 0.002 else None


def test_a_hang_is_found_by_a_bucket_that_does_not_grow(fleet: BucketFleet) -> None:
    attempt, saved = fleet.attempt(), max(fleet.marks())
    later = fleet.wait_next(attempt, HANG_SECONDS + LOOKS_SECONDS)
    hang = fleet.events("hang")[-1]
    assert hang["attempt"] == attempt
    assert hang["seconds"] >= HANG_SECONDS
    assert fleet.begun_after(later) >= saved


def test_a_preempted_slice_goes_on_in_another_zone(fleet: BucketFleet) -> None:
    assert fleet.cloud()["pair"]["zone"] == A
    attempt = fleet.attempt()
    before = fleet.wait_saved(fleet.begun_after(attempt) + 2 * EVERY)
    fleet.fault("stock_out", A)
    fleet.command("preempt", "pair")
    # Without a slice it is known what is kept.
    [kept] = fleet.report("tpu-fleet", "checkpoints", RUN, "--json")["runs"]
    whole = [one["step"] for one in kept["checkpoints"] if one["state"] == "whole"]
    assert whole == sorted(fleet.marks())
    fleet.play("tpu.fleet.reprovision")
    assert fleet.cloud()["pair"]["zone"] == B
    # The bucket's fence has the attempts of the machines that are gone.
    assert fleet.begun_after(fleet.wait_next(attempt)) >= before


def test_nothing_of_it_shows_in_the_parameters(fleet: BucketFleet) -> None:
    until = fleet.wait_saved(1) + 5 * EVERY + 3
    fleet.write("until", until)
    wait_until("the end", lambda: fleet.status(LEADER, RUN).get("state") == "succeeded", 300)
    found = json.loads(fleet.ssh(LEADER, f"sudo cat {NOTES}/final.json"))
    assert found["steps"] == until
    # A kill, a reboot, a hang, a preemption.
    assert fleet.broken(LEADER, NOTES, faults=4, workers=2) == {}
    assert found == fleet.undisturbed(LEADER, RUN, 2, until, "--orbax")
    # One look after the end is the last.
    mark = fleet.marks()[until]
    fleet.wait_shown(LEADER, mark, FIRST_LOOK_SECONDS)
    shown_since(fleet, ("runs", "--json"), mark)
