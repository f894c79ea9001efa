"""A queue in a bucket: three slices of two types do each submitted run once, whatever happens.

The slices are killed, rebooted and preempted, one comes late, and for a while no controller is
there. Each program computes a chain of hashes and keeps in the bucket how far it is, so its result
shows whether a step is missing; it also writes there when it lives.
`.venv/bin/pytest -x tests/machines/queue`
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from fleet import NOTHING, Fleet, wait_until
from submitters import MachinesBucket, Person, Queue, archive, objects, parse
from warm_ansible import STARTED

# In CI tests/cloud/queue_agent has the queue agent as processes.
pytestmark = pytest.mark.night

ZONE, BUCKET = "us-central2-b", "lab-queue"
PROGRAM = """
import hashlib, json, os, sys, time, urllib.error, urllib.parse, urllib.request, uuid
account = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
store = "https://storage.googleapis.com"
run, worker, steps = os.environ["TPU_FLEET_RUN"], os.environ["TPU_FLEET_WORKER"], int(sys.argv[1])
life = uuid.uuid4().hex
def ask(url, data=None, headers={}):
    while True:
        try:
            request = urllib.request.Request(url, data, headers)
            return urllib.request.urlopen(request, timeout=10).read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            print("refused with", error.code)
        except OSError as error:
            print(error)
        time.sleep(0.5)
token = json.loads(ask(account + "/token", headers={"Metadata-Flavor": "Google"}))["access_token"]
own = {"Authorization": "Bearer " + token}
def get(name):
    place = store + "/storage/v1/b/lab-queue/o/" + urllib.parse.quote(name, safe="")
    found = ask(place + "?alt=media", headers=own)
    return json.loads(found) if found else None
def put(name, what):
    query = urllib.parse.urlencode({"uploadType": "media", "name": name})
    ask(store + "/upload/storage/v1/b/lab-queue/o?" + query, json.dumps(what).encode(), own)
begun = time.time()
at = get("kept/" + run) or {"step": 0, "value": ""}
print("begins after step", at["step"])
while at["step"] < steps:
    time.sleep(0.5)
    if worker != "0":
        at = get("kept/" + run) or at
        continue
    at = {"step": at["step"] + 1, "value": hashlib.sha256((at["value"] + run).encode()).hexdigest()}
    put("kept/" + run, at)
    put("lives/" + run + "/" + life, {"begun": begun, "until": time.time()})
    print("step", at["step"])
"""
SHORT, LONG = 4, 150


def value_of(run: str, steps: int) -> str:
    """Return what an undisturbed run computes."""
    value = ""
    for _ in range(steps):
        value = hashlib.sha256((value + run).encode()).hexdigest()
    return value


class Lab:
    """The fleet and its queue."""

    def __init__(self, fleet: Fleet, alice: Person) -> None:
        self.fleet, self.alice = fleet, alice
        self.store = f"http://127.0.0.1:{fleet.port}"
        self.steps: dict[str, int] = {}
        given = {
            "slice": "none", "zone": ZONE, "node": "", "type": "", "chips": 0, "hosts": [],
            "worker": 0, "port": 0, "queue": f"gs://{BUCKET}/queue", "declared_first": True,
            "take_after": None, "limits": {"chips": None, "runs": None}, "users": {},
            "secrets": {}, "people": [], "venvs": [], "venvs_elsewhere": [], "metadata": "",
            "training": {}, "run_defaults": {}, "storage": self.store,
        }  # fmt: skip
        self.queue = Queue(MachinesBucket(parse(given)))
        self.code = archive({"train.py": PROGRAM})

    def declared(self, *slices: str) -> dict[str, Any]:
        """Return the fleet file with these slices."""
        types = {"pair": "v4-16", "solo": "v4-8", "late": "v4-8"}
        return {
            **NOTHING,
            "fleet_slices": [
                {"name": name, "accelerator_type": types[name], "zone": ZONE} for name in slices
            ],
            # What the roles of the runs need, and no more.
            "fleet_base_packages": ["sudo", "tmux", "tzdata"],
            "fleet_users": [{"name": "alice", "uid": 2001, "keys": [self.alice.public_key]}],
            "fleet_queue": {"bucket": f"gs://{BUCKET}/queue"},
        }

    def submit(self, name: str, steps: int, **more: Any) -> None:
        """Submit a run."""
        self.steps[name] = steps
        sha = hashlib.sha256(self.code).hexdigest()
        self.queue.put_code(sha, self.code)
        given: dict[str, Any] = {
            "name": name, "person": "alice", "user": "alice", "venv": "", "code": sha,
            "command": ("python3", "-u", "train.py", str(steps)), "submitted_at": time.time(),
            "checkpoint_dir": None, "options": {"grace": "5s"}, **more,
        }  # fmt: skip
        definition = objects.Definition(**given)
        self.queue.submit(definition, self.alice.signed(definition), len(self.steps))

    def submit_by_command(self, *runs: dict[str, Any]) -> list[dict[str, Any]]:
        """Submit runs as a person does, and be gone; return what was said of each."""
        folder = self.fleet.folder / "code"
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(PROGRAM)
        file = self.fleet.folder / "runs.yml"
        file.write_text(json.dumps(runs))
        words = ["--file", str(file), "--code", str(folder), "--ssh-key", str(self.alice.key)]
        said = self.fleet.report("tpu-fleet", "submit", "--json", *words)
        assert said["submitted"] == [run["name"] for run in runs]
        assert said["failed"] == {}
        found: list[dict[str, Any]] = said["runs"]
        return found

    def run(self, name: str, steps: int, **more: Any) -> dict[str, Any]:
        """Return a run for a file of them."""
        self.steps[name] = steps
        command = f"python3 -u train.py {steps}"
        return {"name": name, "command": command, "checkpoint_dir": "none", "grace": "5s", **more}

    def waiting(self) -> dict[str, str]:
        """Return why each run waits that does, as people see it."""
        told = self.fleet.report("tpu-fleet", "runs", "--queue", "--json")["runs"]
        return {one["run"]: one["why"] for one in told if one["state"] == "waiting"}

    def controllers(self) -> list[str]:
        """Return the processes of this fleet on this computer but for the local cloud."""
        mine = f"TPU_FLEET_STATE_DIR={self.fleet.env['TPU_FLEET_STATE_DIR']}\0".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if mine in (path / "environ").read_bytes() and "tpu_local_cloud" not in words:
                    found.append(words)
            except OSError:  # it has just ended
                continue
        return found

    def states(self) -> dict[str, Any]:
        """Return all runs by name."""
        return {run.name: run for run in self.queue.all().states}

    def owner(self, name: str) -> str:
        """Return the slice that has a run, whose program is at work; empty if none has."""
        run = self.states()[name]
        return run.owner.slice if run.owner and self.kept(name) else ""

    def kept(self, name: str) -> dict[str, Any]:
        """Return how far a run is."""
        found = self.object(f"kept/{name}")
        return dict(found) if found else {}

    def object(self, name: str) -> Any:
        """Return what an object has; None if it is not there."""
        place = f"{self.store}/storage/v1/b/{BUCKET}/o/{quote(name, safe='')}?alt=media"
        answer = requests.get(place, timeout=60)
        return answer.json() if answer.status_code == 200 else None

    def lives(self, name: str) -> list[tuple[float, float]]:
        """Return from when to when programs of a run on worker 0 lived, in order."""
        place = f"{self.store}/storage/v1/b/{BUCKET}/o"
        found = requests.get(place, params={"prefix": f"lives/{name}/"}, timeout=60).json()
        lives = [self.object(one["name"]) for one in found.get("items", [])]
        return sorted((one["begun"], one["until"]) for one in lives)

    def root(self, host: str, script: str) -> str:
        """Run a script as root on a worker."""
        return self.fleet.ssh(host, f"sudo bash <<'END'\nset -eu\n{script}\nEND").strip()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two slices that serve the queue."""
    # What imports Ansible once for all tests would be a process of this fleet.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STARTED, "1")
        yield from lab_in(tmp_path_factory.mktemp("queue"))


def lab_in(folder: Path) -> Iterator[Lab]:
    """Bring the cloud up, and down in the end."""
    fleet = Fleet(folder, NOTHING)
    lab = Lab(fleet, Person(folder, "alice"))
    fleet.up()
    try:
        made = {"name": BUCKET, "location": "US-CENTRAL2"}
        requests.post(f"{lab.store}/storage/v1/b", json=made, timeout=60).raise_for_status()
        fleet.declare(lab.declared("pair", "solo"))
        fleet.play("site.yml")
        yield lab
    finally:
        fleet.down()


def test_each_run_is_done_once_whatever_happens_to_the_slices(lab: Lab) -> None:
    fleet, saved = lab.fleet, f"gs://{BUCKET}/saved"
    long = [
        lab.run("long-pair", LONG, on=["v4-16"], checkpoint_dir=f"{saved}/long-pair"),
        lab.run("long-one", LONG, on=["v4-8"], checkpoint_dir=f"{saved}/long-one"),
    ]
    short = [
        lab.run(
            f"short-{number}",
            SHORT,
            **({"on": ["v4-16"]} if number % 5 == 0 else {}),
            **({"after": ["short-0"]} if number == 7 else {}),
        )
        for number in range(20)
    ]
    last = lab.run("last", SHORT, after=["long-one", "long-pair"])
    said = lab.submit_by_command(*long, *short, last)
    assert [one["name"] for one in said if not one["why"]] == []
    for name, slice_ in (("long-pair", "pair"), ("long-one", "solo")):
        wait_until(name, lambda name=name, slice_=slice_: lab.owner(name) == slice_, 240)

    # A kill of a queue agent, and a reboot, which are no failures of the program.
    lab.root("pair-w0", "kill -9 $(systemctl show -p MainPID --value tpu-fleet-queue)")
    fleet.run("tpu-fleet", "cloud", "reboot", "pair", "--worker", "1")
    why = lab.waiting()
    assert why["last"] == "waits for long-one to end"
    assert [name for name, reason in why.items() if not reason] == []
    works_alone(lab)
    fleet.run("tpu-fleet", "cloud", "preempt", "solo")
    # The slice that comes late, and the one that comes again.
    fleet.declare(lab.declared("pair", "solo", "late"))
    lab.submit_by_command(lab.run("only-late", SHORT, on=["late"]))
    assert lab.waiting()["only-late"].endswith("in turn; v4-8 busy: late (does not exist now)")
    fleet.play("site.yml")
    fleet.run("tpu-fleet", "cloud", "reboot", "pair", "--worker", "0")

    def ended() -> dict[str, Any] | None:
        states = lab.states()
        return states if not any(run.is_open for run in states.values()) else None

    try:
        states = wait_until("all runs have ended", ended, 900)
    except AssertionError as error:
        told = [lab.root(host, "journalctl -u tpu-fleet-queue") for host in ("pair-w0", "solo")]
        raise AssertionError(f"{error}: {lab.states()}, {told}") from None
    assert {name: run.state for name, run in states.items()} == dict.fromkeys(lab.steps, "done")
    assert {name: lab.kept(name) for name in lab.steps} == {
        name: {"step": steps, "value": value_of(name, steps)} for name, steps in lab.steps.items()
    }
    assert {run.failures for run in states.values()} == {0}
    # The preempted slice gave it up, and the rebooted one did not.
    assert (states["long-one"].claims, states["long-pair"].claims) == (2, 1)
    assert states["only-late"].last == "late"
    assert {run.last for run in states.values()} >= {"pair", "late"}
    for name in lab.steps:
        lives = lab.lives(name)
        overlaps = [(one, two) for one, two in pairwise(lives) if one[1] > two[0]]
        assert overlaps == [], name


def test_nothing_of_them_is_left_but_logs_and_an_apply_leaves_them_alone(lab: Lab) -> None:
    lab.submit("stays", 10**6, types=("v4-16",))
    wait_until("stays", lambda: lab.owner("stays") == "pair", 120)
    pid = lab.fleet.status("pair-w1", "stays")["pid"]
    lab.fleet.play("site.yml")
    assert lab.fleet.status("pair-w1", "stays")["pid"] == pid
    shown = lab.fleet.report("tpu-fleet", "runs", "--json")["runs"]
    assert ("stays", "running") in [(row["run"], row["state"]) for row in shown]
    lab.queue.stop("stays", "alice")
    wait_until("its end", lambda: lab.states()["stays"].state == "stopped", 120)
    for host in ("pair-w0", "pair-w1"):
        left = "ls /etc/tpu-fleet/runs /etc/systemd/system | grep -c stays || true"
        wait_until("no file", lambda host=host, left=left: lab.root(host, left) == "0", 60)
        assert "step" in lab.fleet.log(host, "stays") or host == "pair-w1"


def test_a_slice_that_no_longer_serves_the_queue_gives_its_run_back(lab: Lab) -> None:
    lab.submit("moves", 200, types=("v4-8",))
    first = wait_until("a slice", lambda: lab.owner("moves"), 120)
    other = "late" if first == "solo" else "solo"
    fleet = lab.declared("pair", "solo", "late")
    fleet["fleet_queue"]["slices"] = ["pair", other]
    lab.fleet.declare(fleet)
    lab.fleet.play("site.yml")
    run = wait_until("the end", lambda: done(lab, "moves"), 300)
    assert (run.last, run.claims, run.failures) == (other, 2, 0)
    assert "inactive" in lab.root(first, "systemctl is-active tpu-fleet-queue || true")


def works_alone(lab: Lab) -> None:
    """See runs go on while no process of the fleet is on this computer."""
    assert lab.controllers() == []
    before = {name: lab.kept(name)["step"] for name in ("long-one", "long-pair")}

    def has_gone_on() -> bool:
        assert lab.controllers() == []
        return all(lab.kept(name)["step"] > step + 20 for name, step in before.items())

    wait_until("they go on", has_gone_on, 240)


def done(lab: Lab, name: str) -> Any:
    run = lab.states()[name]
    return run if run.state == objects.DONE else None
