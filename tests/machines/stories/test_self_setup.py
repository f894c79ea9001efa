"""Slices that are recreated while no controller is there: they set themselves up, runs resume.

Somebody else's automation asks for the same queued resources again; of ours only the local cloud
runs. `.venv/bin/pytest tests/machines/stories/test_self_setup.py`
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests
from fleet import NOTHING, Fleet, changes, wait_until

# In CI tests/cloud/apply/test_self_setup.py has the machine's part, and
# tests/cloud/playbooks/test_self_setup.py what is published, and that nothing secret is.
pytestmark = pytest.mark.night

ZONE = "us-central2-b"
PARENT = f"projects/local-project/locations/{ZONE}"
FOLDER = "/mnt/kept/count"
# Saves after each step, as nobody tells it before it dies.
COUNT = """
import os, pathlib, time
folder = pathlib.Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"])
saved = folder / "step"
step = int(saved.read_text()) if saved.exists() else 0
print("attempt", os.environ["TPU_FLEET_ATTEMPT"], "begins after", step, os.environ["WORD"])
while True:
    time.sleep(0.2)
    step += 1
    saved.with_suffix(".new").write_text(str(step))
    saved.with_suffix(".new").replace(saved)
    print("step", step)
"""
CANARY = "canary-of-a-slice-that-sets-itself-up"
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_apply": "host",
    "fleet_self_setup": {"bucket": "gs://lab/fleet", "endpoint": "http://169.254.169.254"},
    "fleet_disks": [
        {
            "name": "kept",
            "size": "10GiB",
            "slices": ["phoenix"],
            "path": "/mnt/kept",
            "user": "alice",
        }
    ],
    "fleet_slices": [
        {
            "name": "phoenix",
            "accelerator_type": "v4-8",
            "zone": ZONE,
            "queued": True,
            "self_setup": True,
            "startup_script": "echo own script >> /var/tmp/own-script",
        },
        {
            "name": "twin",
            "accelerator_type": "v4-16",
            "zone": ZONE,
            "queued": True,
            "self_setup": True,
        },
    ],
    "fleet_base_packages": ["sudo", "tmux", "tzdata"],
    "fleet_users": [
        {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]},
    ],
    "fleet_secrets": [{"name": "keys", "user": "alice", "env": {"CANARY": "{{ my_own_canary }}"}}],
    "my_own_canary": CANARY,
    "fleet_venvs": [
        {
            "name": "tools",
            "path": "/opt/venvs/tools",
            "python": "3.11",
            "packages": ["idna"],
            "slices": ["phoenix"],
        }
    ],
    "fleet_code": [{"name": "digits", "user": "root", "local_path": "../examples/jax"}],
    "fleet_runs": [
        {
            "name": "count",
            "slices": ["phoenix"],
            "user": "alice",
            "venv": "tools",
            "code": "digits",
            "command": shlex.join(["exec", "python", "-uc", COUNT]),
            "checkpoint_dir": FOLDER,
            "env": {"WORD": "as declared"},
            "needs_tpu": False,
        },
        {
            "name": "gang",
            "slices": ["twin"],
            "user": "alice",
            "command": "echo coordinator $TPU_FLEET_COORDINATOR; exec sleep 100000",
            "needs_tpu": False,
        },
    ],
}


class Elsewhere:
    """What a user does who knows nothing of the collection: Google's API, and plain ssh."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.api = f"http://127.0.0.1:{fleet.port}"

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = requests.request(method, f"{self.api}/{path}", timeout=60, **more)
        answer.raise_for_status()
        return answer.json()

    def again(self, name: str) -> None:
        """Take a slice away as Google does, and ask for the same once more."""
        path = f"v2/{PARENT}/queuedResources"
        specs = self.ask("GET", f"{path}/{name}")["tpu"]["nodeSpec"]
        self.fleet.run("tpu-fleet", "cloud", "suspend", name)
        self.wait_for(f"{name} is suspended", lambda: self.state(name) == "SUSPENDED")
        self.ask("DELETE", f"{path}/{name}?force=true")
        self.wait_for(f"{name} is gone", lambda: self.state(name) == "")
        keys = ("parent", "nodeId", "node")
        asked = {
            "tpu": {"nodeSpec": [{key: spec[key] for key in keys} for spec in specs]},
        }
        self.ask("POST", f"{path}?queuedResourceId={name}", json=asked)

    def wait_for(self, what: str, look: Any, limit: float = 300) -> Any:
        return wait_until(what, look, limit)

    def state(self, name: str) -> str:
        answer = requests.get(f"{self.api}/v2/{PARENT}/queuedResources/{name}", timeout=60)
        return "" if answer.status_code == 404 else str(answer.json()["state"]["state"])

    def addresses(self, name: str) -> list[str]:
        answer = requests.get(f"{self.api}/v2/{PARENT}/nodes/{name}", timeout=60)
        node = answer.json() if answer.ok else {}
        if node.get("state") != "READY":
            return []
        return [end["accessConfig"]["externalIp"] for end in node["networkEndpoints"]]

    def root(self, name: str, script: str, worker: int = 0) -> str:
        """Run a script on a worker; nothing while it is not there."""
        found = self.addresses(name)
        return self.fleet.root_at(found[worker], script) if worker < len(found) else ""

    def setup(self, name: str, worker: int = 0) -> dict[str, Any]:
        """Return how far a machine is with setting itself up."""
        told = self.root(name, "cat /var/lib/tpu-fleet/self-setup.json", worker)
        return json.loads(told) if told else {}

    def run(self, name: str, run: str, worker: int = 0) -> dict[str, Any]:
        told = self.root(name, f"cat /var/lib/tpu-fleet/runs/{run}/status.json", worker)
        return json.loads(told) if told else {}

    def running(self, name: str, run: str, worker: int = 0) -> dict[str, Any] | None:
        status = self.run(name, run, worker)
        return status if status.get("state") == "running" else None

    def log(self, name: str, run: str) -> str:
        return self.root(name, f"cat /var/log/tpu-fleet/runs/{run}/run.log")

    # The bucket

    def objects(self) -> dict[str, str]:
        """Return the generations of all objects by name."""
        page = self.ask("GET", "storage/v1/b/lab/o?prefix=fleet/")
        return {item["name"]: item["generation"] for item in page.get("items", [])}

    def content(self, name: str) -> bytes:
        path = f"{self.api}/storage/v1/b/lab/o/{quote(name, safe='')}?alt=media"
        return requests.get(path, timeout=60).content

    def put(self, name: str, content: bytes) -> None:
        query = f"uploadType=media&name={quote(name, safe='')}"
        self.ask("POST", f"upload/storage/v1/b/lab/o?{query}", data=content)

    def pointer(self, name: str) -> dict[str, Any]:
        envelope = json.loads(self.content(f"fleet/slices/{name}.json"))
        found: dict[str, Any] = json.loads(envelope["pointer"])
        return found


@pytest.fixture(scope="module")
def there(_cloud: Fleet) -> Iterator[Elsewhere]:
    """The machines, as site.yml made them."""
    there = Elsewhere(_cloud)
    there.ask("POST", "storage/v1/b?project=local-project", json={"name": "lab"})
    with _cloud.holding(FLEET):
        yield there


def steps(there: Elsewhere) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+)$", there.log("phoenix", "count"), re.M)]


def test_site_publishes_once_and_nothing_secret(there: Elsewhere) -> None:
    before = there.objects()
    assert {"fleet/slices/phoenix.json", "fleet/slices/twin.json"} <= set(before)
    for name in before:
        content = there.content(name)
        assert CANARY.encode() not in content
        assert base64.b64encode(CANARY.encode())[4:-4] not in content
    assert "without env of the secrets keys" in " ".join(there.fleet.first_site.split())
    there.fleet.play("site.yml")
    assert there.objects() == before


def test_who_was_set_up_by_a_controller_leaves_it_at_that(there: Elsewhere) -> None:
    looked = "systemctl is-active tpu-fleet-self-setup.service || true"
    for name, worker in (("phoenix", 0), ("twin", 0), ("twin", 1)):
        over = lambda n=name, w=worker: "inactive" in there.root(n, looked, w)  # noqa: E731
        there.wait_for(f"{name} {worker} has nothing to do", over, 600)
    assert there.root("phoenix", "cat /var/tmp/own-script") == "own script\n"
    # So it is at each boot, and the own script is run at each.
    there.fleet.run("tpu-fleet", "cloud", "reboot", "phoenix")
    there.wait_for(
        "the own script",
        lambda: there.root("phoenix", "cat /var/tmp/own-script").count("own script") == 2,
    )
    there.wait_for("nothing to do", lambda: "inactive" in there.root("phoenix", looked), 600)
    assert there.setup("phoenix")["state"] == "left"
    assert there.wait_for("the run", lambda: there.running("phoenix", "count"))


def test_made_again_without_a_controller_it_goes_on(there: Elsewhere) -> None:
    before = there.wait_for("the run", lambda: there.running("phoenix", "count"))
    there.wait_for("some steps", lambda: len(steps(there)) > 20)
    reached = steps(there)[-1]
    pair = [
        there.wait_for("the gang", lambda w=w: there.running("twin", "gang", w)) for w in (0, 1)
    ]
    gone = there.addresses("phoenix") + there.addresses("twin")
    for name in ("phoenix", "twin"):
        there.again(name)

    for name, worker in (("phoenix", 0), ("twin", 0), ("twin", 1)):
        done = lambda n=name, w=worker: there.setup(n, w).get("state") == "done"  # noqa: E731
        there.wait_for(f"{name} {worker} is set up", done, 600)
    assert not set(gone) & set(there.addresses("phoenix") + there.addresses("twin"))
    assert there.root("phoenix", "cat /var/tmp/own-script") == "own script\n"
    assert there.setup("phoenix")["without"] == ["env of the secrets keys"]

    after = there.wait_for("the run", lambda: there.running("phoenix", "count"), 180)
    assert after["run_id"] == before["run_id"]
    assert after["attempt"] > before["attempt"]
    begun = there.wait_for(
        "its begin",
        lambda: re.search(
            r"^attempt (\d+) begins after (\d+) (.*)$", there.log("phoenix", "count"), re.M
        ),
    )
    assert int(begun[1]) == after["attempt"]
    assert int(begun[2]) >= reached
    assert begun[3] == "as declared"

    # The workers of the other slice have found each other, at their new addresses.
    now = [
        there.wait_for("the gang", lambda w=w: there.running("twin", "gang", w), 180)
        for w in (0, 1)
    ]
    assert now[0]["attempt"] == now[1]["attempt"]
    assert {one["boot_id"] for one in now}.isdisjoint(one["boot_id"] for one in pair)
    node = there.ask("GET", f"v2/{PARENT}/nodes/twin")
    leader = node["networkEndpoints"][0]["ipAddress"]
    there.wait_for("its leader", lambda: f"coordinator {leader}:" in there.log("twin", "gang"))


def test_the_controller_finds_what_it_would_have_made(there: Elsewhere) -> None:
    before = there.wait_for("the run", lambda: there.running("phoenix", "count"))
    told = there.fleet.play("site.yml", "-v")
    assert changes(told)["localhost"][2] == 0
    # Only what it had to do without, and what depends on that.
    for host in ("phoenix", "twin-w0", "twin-w1"):
        begun = re.search(rf"applying: \[{host}\] (.*) \(", told)
        assert begun, told
        assert "host_base" not in begun[1].split(", "), begun[0]
    assert not re.search(r"failed=[1-9]", told), told
    after = there.running("phoenix", "count")
    assert after
    assert (after["pid"], after["attempt"]) == (before["pid"], before["attempt"])
    assert CANARY in there.root("phoenix", "cat /etc/tpu-fleet/secrets/keys.env")


def test_what_is_away_or_altered_is_waited_for_and_not_believed(there: Elsewhere) -> None:
    path = "fleet/slices/phoenix.json"
    envelope = there.content(path)
    wish = there.pointer("phoenix")["workers"][0]["wish"]
    file = f"fleet/files/{wish['variables']}"
    variables = there.content(file)
    # Before it is away: what is right is not to be had in between.
    there.put(path, envelope.replace(b"phoenix", b"phoenlx"))
    there.fleet.run(
        "tpu-fleet", "cloud", "fault", "add", "unavailable", "--match", "service=storage"
    )
    there.again("phoenix")
    away = there.wait_for(
        "it waits", lambda: (now := there.setup("phoenix")).get("state") and now, 600
    )
    assert away["state"] == "waiting"
    assert "503" in away["why"]

    # Nobody may alter what is fetched, and nobody may say that something else is to be fetched.
    there.fleet.run("tpu-fleet", "cloud", "fault", "clear")
    forged = there.wait_for(
        "it refuses",
        lambda: (now := there.setup("phoenix")) and "not signed with a key" in now["why"] and now,
    )
    assert forged["state"] == "waiting"
    there.put(file, variables + b" ")
    there.put(path, envelope)
    altered = there.wait_for(
        "it refuses",
        lambda: (now := there.setup("phoenix")) and "the received file has" in now["why"] and now,
    )
    assert altered["state"] == "waiting"
    assert there.root("phoenix", "ls /var/lib/tpu-fleet/apply/known.json || echo none") == "none\n"

    there.put(file, variables)
    there.wait_for("it is set up", lambda: there.setup("phoenix").get("state") == "done", 900)
    assert there.wait_for("the run", lambda: there.running("phoenix", "count"), 180)
