"""What becomes of slices and their runs when the budget is spent, by the cloud's clock.

`.venv/bin/pytest tests/machines/stories/test_budget.py`
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, wait_until

# In CI tests/cloud/watch has the count and the messages, tests/worlds/property the decisions.
pytestmark = pytest.mark.night

BY_BUDGET = "budget stopped it; to start it: tpu-fleet start {}"
ZONE, BUCKET = "us-central2-b", "lab-budget"
LIMIT = 10.0
PATIENCE = 900.0
"""Seconds for what takes a few, or a playbook, on an idle computer."""
# A slice of four chips costs four dollars an hour.
PRICE = {"generation": "v4", "region": "us-central2", "tier": "on_demand", "usd_per_chip_hour": 1}
# Counts steps of a tenth of a second and saves every tenth one, and the last one when it is asked
# to end: in a folder, or by Cloud Storage's API with the machine's own account.
WORK = """
import json, os, pathlib, signal, sys, time, urllib.error, urllib.parse, urllib.request
account = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
place = os.environ["TPU_FLEET_CHECKPOINT_DIR"]
bucket, _, folder = place[len("gs://"):].partition("/")
def ask(url, data=None, **headers):
    asked = urllib.request.Request(url, data, headers)
    return urllib.request.urlopen(asked).read()
def bearer():
    told = json.loads(ask(account + "/token", **{"Metadata-Flavor": "Google"}))
    return {"Authorization": "Bearer " + told["access_token"]}
store = "https://storage.googleapis.com"
name = urllib.parse.quote(f"{folder}/newest.ckpt", safe="")
file = pathlib.Path(place, "newest.ckpt")
def load():
    if not place.startswith("gs://"):
        return int(file.read_text()) if file.exists() else 0
    try:
        return int(ask(f"{store}/storage/v1/b/{bucket}/o/{name}?alt=media", **bearer()))
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return 0
def save(step):
    text = str(step).encode()
    if place.startswith("gs://"):
        query = f"uploadType=media&name={name}"
        ask(f"{store}/upload/storage/v1/b/{bucket}/o?{query}", text, **bearer())
    else:
        file.write_bytes(text)
    print("saved step", step)
asked = []
signal.signal(signal.SIGTERM, lambda *_words: asked.append(1))
step = load()
print("begins after step", step)
while not asked:
    step += 1
    time.sleep(0.1)
    if step % 10 == 0:
        save(step)
save(step)
sys.exit(0)
"""


def run(name: str, on: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "slices": [on],
        "user": "alice",
        "command": shlex.join(["exec", "python3", "-uc", WORK]),
        "needs_tpu": False,
        **more,
    }


OWN_DISK = run("own", "own")
IN_BUCKET = run("kept", "kept", checkpoint_dir=f"gs://{BUCKET}/kept")


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """The file to which all messages for people go."""
    return tmp_path / "messages"


def wanted(*runs: dict[str, Any], told: Path, **budget: Any) -> dict[str, Any]:
    names = [one["slices"][0] for one in runs]
    return {
        **NOTHING,
        "fleet_allocations": "unrestricted",
        "fleet_slices": [{"name": n, "accelerator_type": "v4-8", "zone": ZONE} for n in names],
        "fleet_base_packages": ["sudo", "tmux", "tzdata", "rsync"],
        "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
        "fleet_notify": [{"command": f"cat >> {told}; echo >> {told}"}],
        "fleet_results_dir": str(told.parent / "collected"),
        "fleet_prices": [PRICE],
        "fleet_budget": {"per_day": LIMIT, **budget},
        "fleet_runs": list(runs),
    }


class Watched:
    """A fleet with a watcher, on a day of the cloud of which much is left."""

    def __init__(self, fleet: Fleet, told: Path) -> None:
        self.fleet = fleet
        self._told = told
        self._watcher: subprocess.Popen[str] | None = None

    def morning(self) -> None:
        """Let time pass until six o'clock, because the budget counts by day."""
        now = datetime.fromisoformat(self.fleet.state()["clock"]["time"])
        six = now.replace(hour=6, minute=0, second=0, microsecond=0)
        six += timedelta(days=now > six)
        self.pass_hours((six - now).total_seconds() / 3600)

    def pass_hours(self, hours: float) -> None:
        """Let time pass in the cloud."""
        self.fleet.run("tpu-fleet", "cloud", "clock", "--advance", str(hours * 3600))

    def begin(self) -> None:
        """Start the watcher."""
        words = ("tpu-fleet", "watch", "run", "--interval=2", "--hosts-interval=10")
        self._watcher = self.fleet.start(*words)

    def end(self) -> None:
        """End the watcher, and forget its count: the next test's day would begin with the gap."""
        if self._watcher is not None:
            self._watcher.send_signal(signal.SIGTERM)
            self._watcher.wait(120)
        shutil.rmtree(self.fleet.folder / "state" / "watch", ignore_errors=True)

    def status(self) -> dict[str, Any]:
        """Return what the watcher last wrote; nothing before its first look."""
        for path in (self.fleet.folder / "state" / "watch").glob("*/status.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {}

    def spent(self) -> float:
        """Return what is counted of the day; a look with a price comes before."""
        periods = (self.status().get("budget") or {}).get("periods") or [{"spent": 0.0}]
        return float(periods[0]["spent"])

    def later_look(self) -> None:
        """Wait until the watcher has looked twice more."""
        for _look in range(2):
            before = self.status()["looked_at"]
            wait_until("a look", lambda seen=before: self.status()["looked_at"] > seen, PATIENCE)

    def titles(self) -> list[str]:
        """Return the titles of all messages."""
        lines = self._told.read_text().splitlines() if self._told.exists() else []
        return [json.loads(line)["title"] for line in lines if line]

    def state(self, name: str) -> str:
        """Return the state of a node, as the API has it."""
        return str(self.fleet.cloud().get(name, {}).get("state", "none"))

    def row(self, name: str) -> dict[str, Any]:
        """Return what `tpu-fleet runs` shows of a run."""
        found = self.fleet.report("tpu-fleet", "runs", "--json", codes=(0, 1))
        return next((one for one in found["runs"] if one["run"] == name), {})

    def saved(self, host: str, name: str) -> int:
        """Return the newest step that a run has saved, by its log."""
        found = re.findall(r"saved step (\d+)", self.fleet.log(host, name))
        return int(found[-1]) if found else 0

    def collected(self, name: str, of: str, file: str) -> str:
        """Return a file that was fetched before a slice went to rest."""
        return (self._told.parent / "collected" / name / of / file).read_text()

    def last_saved(self, name: str) -> int:
        """Return the same of a run whose slice rests."""
        found = re.findall(r"saved step (\d+)", self.collected(name, name, "run.log"))
        return int(found[-1])

    def await_state(self, name: str, state: str) -> dict[str, Any]:
        """Wait until a run is in a state; return its row."""
        seen: dict[str, Any] = {}

        def look() -> bool:
            seen.clear()
            seen.update(self.row(name))
            return seen.get("state") == state

        try:
            wait_until(f"{name} is {state}", look, PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}, {self.titles()}") from None
        return seen

    def begins_after(self, name: str) -> int:
        """Return the step after which the last attempt of a run began, once there is a new one."""
        log = self.fleet.log(name, name)
        return int(re.findall(r"begins after step (\d+)", log)[-1])


@pytest.fixture
def watched(fleet: Fleet, told: Path) -> Iterator[Watched]:
    found = Watched(fleet, told)
    found.morning()
    yield found
    found.end()


def spent_title(on: float = LIMIT) -> str:
    return f"The budget of ${on:.2f} a day is spent"


def test_it_warns_once_and_then_stops_the_run_and_the_slice(watched: Watched, told: Path) -> None:
    fleet = watched.fleet
    fleet.declare(wanted(OWN_DISK, told=told))
    fleet.play("site.yml")
    wait_until("a step", lambda: watched.saved("own", "own") >= 20, PATIENCE)
    watched.begin()
    wait_until("a count", lambda: watched.spent() > 0, PATIENCE)
    assert watched.spent() < LIMIT
    watched.later_look()
    assert watched.titles() == []

    # Warn: once, however often it looks, and nothing else.
    watched.pass_hours(3)
    wait_until("the warning", lambda: spent_title() in watched.titles(), PATIENCE)
    assert watched.spent() >= LIMIT
    before = watched.saved("own", "own")
    watched.later_look()
    assert watched.titles().count(spent_title()) == 1
    assert watched.state("own") == "READY"
    wait_until("a later step", lambda: watched.saved("own", "own") > before, PATIENCE)
    budget = fleet.run("tpu-fleet", "status")
    assert re.search(r"Budget: \$\d+\.\d\d of \$10\.00 spent today, \$0\.00 left", budget)

    # Stop: the run with its time to save, then the slice.
    fleet.declare(wanted(OWN_DISK, told=told, on_exceed="stop"))
    wait_until("the slice is stopped", lambda: watched.state("own") == "STOPPED", PATIENCE)
    wait_until("it is told", lambda: "own was stopped" in watched.titles(), PATIENCE)
    last = json.loads(watched.collected("own", "own", "status.json"))
    assert (last["state"], last["attempt"]) == ("stopped", 1)
    saved = watched.last_saved("own")
    assert saved > before
    assert not [title for title in watched.titles() if "failed" in title or "is gone" in title]

    # It rests, whoever looks.
    watched.later_look()
    assert "own: ended: stopped, because the budget of $10.00 a day is spent" in fleet.play(
        "site.yml"
    )
    assert watched.state("own") == "STOPPED"

    # With more money it goes on when it is asked to, and not by itself.
    fleet.declare(wanted(OWN_DISK, told=told, on_exceed="stop", per_day=1000.0))
    watched.later_look()
    assert watched.state("own") == "STOPPED"
    fleet.run("tpu-fleet", "slice", "wake", "own")
    assert watched.state("own") == "READY"
    assert BY_BUDGET.format("own") in watched.await_state("own", "stopped")["reasons"]
    fleet.run("tpu-fleet", "start", "own")
    watched.await_state("own", "running")
    assert watched.begins_after("own") == saved
    watched.later_look()
    assert watched.state("own") == "READY"


def test_it_deletes_only_the_slice_whose_checkpoints_are_in_a_bucket(
    watched: Watched, told: Path
) -> None:
    fleet = watched.fleet
    url = f"http://127.0.0.1:{fleet.port}/storage/v1/b"
    made = {"name": BUCKET, "location": ZONE.rpartition("-")[0]}
    requests.post(url, json=made, timeout=30).raise_for_status()
    fleet.declare(wanted(OWN_DISK, IN_BUCKET, told=told, on_exceed="delete"))
    fleet.play("site.yml")
    wait_until("steps", lambda: all(watched.saved(n, n) >= 20 for n in ("own", "kept")), PATIENCE)
    watched.begin()
    wait_until("a count", lambda: watched.spent() > 0, PATIENCE)
    assert watched.spent() < LIMIT

    watched.pass_hours(3)
    wait_until("kept is deleted", lambda: watched.state("kept") == "none", PATIENCE)
    wait_until("own is stopped", lambda: watched.state("own") == "STOPPED", PATIENCE)
    both = {spent_title(), "kept was deleted", "own was stopped"}
    wait_until("all is told", lambda: both <= set(watched.titles()), PATIENCE)
    assert watched.titles().count(spent_title()) == 1
    assert not [title for title in watched.titles() if "is gone" in title]
    saved = {name: watched.last_saved(name) for name in ("own", "kept")}
    content = requests.get(f"{url}/{BUCKET}/o/kept%2Fnewest.ckpt?alt=media", timeout=30)
    assert int(content.text) == saved["kept"]

    # Neither comes back by itself, not even on the next day.
    watched.pass_hours(24)
    watched.later_look()
    time.sleep(5)
    assert (watched.state("kept"), watched.state("own")) == ("none", "STOPPED")

    fleet.declare(wanted(OWN_DISK, IN_BUCKET, told=told, on_exceed="delete", per_day=1000.0))
    watched.later_look()
    fleet.run("tpu-fleet", "slice", "wake", "kept", "own")
    # The watcher sets the new machine up.
    assert BY_BUDGET.format("kept") in watched.await_state("kept", "stopped")["reasons"]
    fleet.run("tpu-fleet", "start", "kept", "own")
    for name in ("kept", "own"):
        watched.await_state(name, "running")
        assert watched.begins_after(name) == saved[name]
