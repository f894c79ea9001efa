"""Eve may write to the bucket of a queue, and has an account on its slice: she becomes no other.

Here people are real users, systemd starts the runs, and what she has left on the machine is in the
way of those who come after her. tests/cloud/queue_agent has 500 of her moves.
`.venv/bin/pytest -x tests/machines/queue/test_hostile.py`
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beside
import pytest
import requests
from fleet import NOTHING, Fleet, wait_until
from submitters import Person, archive

# In CI tests/cloud/queue_agent has the queue agent as processes, without other users.
pytestmark = pytest.mark.night

HERE = Path(__file__)
queue = beside.load(HERE.with_name("test_queue.py"), "machines_queue")
hostility = beside.load(HERE.parents[2] / "cloud/queue_agent/hostility.py", "machines_hostility")
SEED = int(os.environ.get("TPU_FLEET_HOSTILE_SEED", "32"))
SPOIL = "chmod -R a+rwX . ; for file in *.py; do echo \"print('crime-of-eve')\" > $file; done"


class Lab(queue.Lab):  # type: ignore[misc, name-defined]
    """A slice on which alice and eve have accounts, as hostility.py wants it."""

    me, eves, out, folder, bucket = "alice", "eve", Path("/tmp"), "queue", queue.BUCKET  # noqa: S108

    def __init__(self, fleet: Fleet, base: Path) -> None:
        super().__init__(fleet, Person(base, "alice"))
        self.eve, self.stranger = Person(base, "eve"), Person(base, "mallory")
        self.base, self.storage = base, self.store
        self.code = archive({"train.py": "print('as it was written')\n"})

    def declared(self, *slices: str) -> dict[str, Any]:
        found: dict[str, Any] = super().declared(*slices)
        found["fleet_users"].append({"name": "eve", "uid": 2002, "keys": [self.eve.public_key]})
        return found

    def run(self, name: str, by: Person, script: str, **more: Any) -> None:
        """Submit a run with the code of the lab, in the place of one that has ended."""
        sha = hashlib.sha256(self.code).hexdigest()
        self.queue.put_code(sha, self.code)
        given = {"checkpoint_dir": None, "retries": 0, **more}
        definition = queue.objects.Definition(
            name, by.name, by.name, ("bash", "-c", script), "", queue.time.time(), sha, **given
        )
        self.queue.submit(definition, by.signed(definition), 0, again=True)

    def end_of(self, name: str) -> Any:
        """Return the state of a run that has ended."""

        def ended() -> Any:
            seen = self.queue.read(name)
            return seen.run if seen and not seen.run.is_open else None

        return wait_until(f"the end of {name}", ended, 180)

    def log(self, name: str) -> str:
        """Return the log of a run that is there now."""
        return str(self.root("solo", f"cat /var/log/tpu-fleet/runs/{name}/run.log"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    base = tmp_path_factory.mktemp("hostile")
    fleet = Fleet(base, NOTHING)
    lab = Lab(fleet, base)
    fleet.up()
    try:
        made = {"name": queue.BUCKET, "location": "US-CENTRAL2"}
        requests.post(f"{lab.store}/storage/v1/b", json=made, timeout=60).raise_for_status()
        fleet.declare(lab.declared("solo"))
        fleet.play("site.yml")
        yield lab
    finally:
        fleet.down()


def test_code_that_she_changed_under_the_name_of_a_run_is_not_run_by_another(lab: Lab) -> None:
    lab.run("lr", lab.eve, f"{SPOIL}; python3 train.py")
    assert lab.end_of("lr").state == "done"
    assert "crime-of-eve" in lab.log("lr")
    lab.run("lr", lab.alice, "id -un; python3 train.py")
    assert lab.end_of("lr").state == "done"
    said = lab.log("lr")
    assert "alice\nas it was written" in said.replace("\r", "")
    assert "crime-of-eve" not in said
    owners = "stat -c %U /var/log/tpu-fleet/runs/lr /var/lib/tpu-fleet/submitted/lr/*"
    assert sorted(lab.root("solo", owners).split()) == ["alice", "alice", "eve"]


@pytest.mark.parametrize(
    "place",
    [
        "/var/lib/tpu-fleet/../../../etc/systemd/system/tpu-fleet-queue.service.d",
        "/var/lib/tpu-fleet/submitted/other/alice-0000000000000000",
        "/var/lib/tpu-fleet/runs/digits",
        "/var/lib/tpu-fleet/checkpoints/of-alice",
    ],
)
def test_root_makes_no_folder_for_her_but_that_of_her_run(lab: Lab, place: str) -> None:
    lab.run("places", lab.eve, "echo it began", checkpoint_dir=place)
    run = lab.end_of("places")
    assert run.state == "failed"
    assert run.reason.startswith("checkpoint_dir: ")
    lab.root("solo", f"test ! -e {place}")


def test_checkpoints_that_she_left_are_read_by_no_other(lab: Lab) -> None:
    lab.run("kept", lab.eve, "touch $TPU_FLEET_CHECKPOINT_DIR/hers", checkpoint_dir="")
    assert lab.end_of("kept").state == "done"
    lab.run("kept", lab.alice, "echo it began; ls $TPU_FLEET_CHECKPOINT_DIR", checkpoint_dir="")
    shown = "systemctl show -P StatusText tpu-fleet-queue"
    wait_until("its reason", lambda: "is another user's" in lab.root("solo", shown), 60)
    lab.queue.stop("kept", "alice")
    assert lab.end_of("kept").state == "stopped"
    lab.root("solo", "test ! -e /var/log/tpu-fleet/runs/kept/run.log")


def test_60_moves_in_the_bucket_start_nothing_as_another(lab: Lab) -> None:
    eve = hostility.Eve(lab, random.Random(SEED))  # noqa: S311 - repeatable
    for name in ("lr-1", "lr-2"):
        lab.run(name, lab.alice, "echo it began")
        seen = lab.queue.read(name)
        eve.copies[name] = (seen.run, lab.queue.definition(seen.run.definition))
        eve.others.append(name)
        assert lab.end_of(name).state == "done"
    moves = [f"{number} {eve.move(number)}" for number in range(60)]
    eve.release()
    lab.run("good", lab.alice, "echo it began")
    assert lab.end_of("good").state == "done", moves
    script = """
grep -rl crime-of-eve /var/log/tpu-fleet/runs | grep -v '/[.]lr-moved' || true
find / -xdev -name 'crime-of-eve*' 2>/dev/null || true
find / -xdev -name 'escaped-of-eve*' -not -path '/var/lib/tpu-fleet/submitted/*' 2>/dev/null || true
find /var/lib/tpu-fleet/submitted -perm /6000 || true
for file in $(grep -rl own-of-eve /var/log/tpu-fleet/runs --include run.log); do
    test "$(stat -c %U $file)" = eve || echo $file
done
systemctl is-active -q tpu-fleet-queue || echo the agent is away
journalctl -q -u tpu-fleet-queue | grep Traceback || true
"""
    assert lab.root("solo", script) == "", moves
