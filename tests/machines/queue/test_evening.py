"""A lab's evening at two terminals of 80 columns: alice and bob share two slices by the queue.

TPU_FLEET_PICTURES=1 writes the pictures of docs/queue.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, wait_until
from queue_fleet import make_key
from terminal import Terminal
from terminal_picture import TALLEST, picture, too_wide

# In CI tests/unit/src/commands has what these commands say, one by one.
pytestmark = pytest.mark.night

ROOT = Path(__file__).resolve().parents[3]
COLUMNS, ROWS = 80, 24
ZONE, BUCKET = "us-central2-b", "lab-queue"
PROMPT = re.compile(r"(?:\x1b\[\?2004h)?\$ $")
WORDS = "/home/bob/words.txt"
PROGRAM = """\
import argparse, math, pathlib, random, time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--words")
parser.add_argument("--steps", type=int, default=100)
given = parser.parse_args()
if given.words:
    pathlib.Path(given.words).read_text()
chance = random.Random(given.seed)
for step in range(1, given.steps + 1):
    time.sleep(0.5)
    loss = 0.4 + 3 * math.exp(-step * given.lr * given.width) + chance.uniform(0, 0.05)
    print(f"step {step} loss {loss:.3f}", flush=True)
"""


class Person:
    """One who types in a folder of code, with a key of their own."""

    def __init__(self, fleet: Fleet, name: str, wide: dict[str, list[str]]) -> None:
        self.name, self.wide = name, wide
        self.home = fleet.folder / name
        self.key = make_key(self.home / ".ssh" / "id_ed25519")
        self.code = self.home / "digits"
        wanted = os.environ.get("TPU_FLEET_PICTURES")
        self.pictures = ROOT / "docs" / "pictures" if wanted else fleet.folder
        without = re.compile("VIRTUAL_ENV|COLUMNS|LINES|SSH_AUTH_SOCK")
        kept = {key: text for key, text in fleet.env.items() if not without.search(key)}
        self._make_code()
        self.terminal = Terminal(
            self.code,
            {**kept, "HOME": str(self.home), "LOGNAME": name, "USER": name, "PWD": str(self.code)},
            columns=COLUMNS,
            rows=ROWS,
        )

    def _make_code(self) -> None:
        self.code.mkdir()
        program = self.code / "train.py"
        program.write_text(PROGRAM.replace("0.05)", "0.1)"))
        git = ["git", "-C", str(self.code), "-c", f"user.name={self.name}", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Train"]):
            subprocess.run([*git, *words], check=True)
        program.write_text(PROGRAM)

    def type(self, line: str, name: str = "", code: int = 0) -> str:
        """Type a line that has to exit so; draw what it says, if that has a name."""
        begun = self.now()
        said = self.terminal.run(line, code=code)
        print(f"{self.name} $ {line}{said}", flush=True)
        if name:
            self.draw(name, line, begun)
        return said

    def type_until(self, line: str, seen: str, name: str = "", seconds: float = 240) -> str:
        """Look again, as people do, until something is there; draw that."""
        end = time.monotonic() + seconds
        while True:
            begun = self.now()
            said = self.type(line)
            if re.search(seen, said):
                if name:
                    self.draw(name, line, begun)
                return said
            assert time.monotonic() < end, f"{line}: no {seen}"
            time.sleep(2)

    def now(self) -> int:
        """Return the place in what the terminal writes."""
        return len(self.terminal.events)

    def draw(self, name: str, line: str, since: int, rows: int = TALLEST) -> None:
        """Draw what was written."""
        events = self.terminal.events[since:]
        text = PROMPT.sub("", "".join(text for _at, text in events)).lstrip("\r\n")
        text = text if text.startswith("$") else f"$ {text}"
        # What a program prints is its own.
        found = [line for line in too_wide(text, COLUMNS) if not line.startswith('  File "')]
        if found:
            self.wide[name] = found
        drawn = picture(f"{self.name}: {line}", [(0, text)], COLUMNS, rows)
        (self.pictures / f"queue-{name}.svg").write_text(drawn)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Person, Person]]:
    """Two slices that serve the queue, and two people."""
    folder = tmp_path_factory.mktemp("evening")
    fleet = Fleet(folder, NOTHING)
    wide: dict[str, list[str]] = {}
    alice, bob = Person(fleet, "alice", wide), Person(fleet, "bob", wide)
    fleet.up()
    try:
        made = {"name": BUCKET, "location": "US-CENTRAL2"}
        place = f"http://127.0.0.1:{fleet.port}/storage/v1/b"
        requests.post(place, json=made, timeout=60).raise_for_status()
        fleet.declare(declared(alice, bob))
        fleet.play("site.yml")
        yield fleet, alice, bob
    finally:
        for person in (alice, bob):
            person.terminal.close()
        fleet.down()


def declared(*people: Person) -> dict[str, Any]:
    types = {"pair": "v4-16", "solo": "v4-8"}
    return {
        **NOTHING,
        "fleet_slices": [
            {"name": name, "accelerator_type": kind, "zone": ZONE} for name, kind in types.items()
        ],
        "fleet_base_packages": ["sudo", "tmux", "tzdata"],
        "fleet_users": [
            {"name": one.name, "uid": uid, "keys": [one.key]}
            for uid, one in enumerate(people, 2001)
        ],
        "fleet_queue": {"bucket": f"gs://{BUCKET}/queue", "retries": 0},
    }


def test_an_evening(lab: tuple[Fleet, Person, Person]) -> None:
    _fleet, alice, bob = lab
    sweep = "--name lr --sweep seed=1,2 --sweep lr=1e-3,3e-4"
    said = alice.type(
        f"tpu-fleet submit {sweep} -- python3 train.py --lr {{lr}} --seed {{seed}}", "submit"
    )
    assert "4 runs submitted" in said
    sized = f"--width {{width}} --words {WORDS}"
    said = bob.type(
        f"tpu-fleet submit --name size --on v4-8 --sweep width=64,128 -- python3 train.py {sized}"
    )
    assert "size-1: first in turn; v4-8 busy: solo (lr-" in said
    said = bob.type_until("tpu-fleet runs --queue", r"(?s)lr-1 +running.*lr-2 +running", "waiting")
    # Of two people, each has the first turn.
    assert re.search(r"(?m)^1 +size-1 +waiting", said)

    # Its log, while it waits, and until it fails.
    begun = bob.now()
    bob.terminal.type("tpu-fleet logs -f size-1", r"size-1 waits: first in turn; v4-8 busy: solo")
    attach(alice)
    bob.terminal.wait_for(r"(?s)No such file or directory.*size-1 failed on solo.*\$ $", 240)
    bob.draw("logs", "tpu-fleet logs -f size-1", begun)

    # Alice makes room: half of her arms are not worth it.
    said = alice.type("tpu-fleet stop lr-3 lr-4", "stop")
    assert [f"lr-{number}: stopped by alice" in said for number in (3, 4)] == [True, True]
    # Bob's data were not there.
    bob.type_until("tpu-fleet runs --queue", r"(?s)size-\d +failed.*size-\d +failed", "failed")
    bob.type(f"tpu-fleet exec --sudo -- sh -c 'seq 1000 > {WORDS}'")
    said = bob.type("tpu-fleet retry size-1", "retry")
    assert re.search("size-1: (waiting|running)", said)
    bob.type_until("tpu-fleet runs", r"size-1 .*running")

    # Two arms side by side, and what one of them left.
    alice.type_until("tpu-fleet runs --queue lr-1 lr-2", r"(?s)lr-\d +done.*lr-\d +done")
    said = alice.type("tpu-fleet compare lr-1 lr-2", "compare")
    assert "--lr 1e-3" in said
    assert "--lr 3e-4" in said
    said = alice.type("tpu-fleet fetch lr-1", "fetch")
    assert "lr-1 on " in said
    assert list((alice.code / "collected/lr-1").rglob("run.log*"))
    bob.type_until("tpu-fleet runs --queue", r"size-1 +done")
    assert alice.wide == {}


def attach(person: Person) -> None:
    """See a submitted run's program at work, and leave it running."""
    line = "tpu-fleet attach lr-1"
    begun = person.now()
    person.terminal.type(line, r"step \d+ loss", 60)
    person.terminal.read(2)
    person.draw("attach", line, begun, ROWS)
    person.terminal.press("\x02d")
    person.terminal.wait_for(r"\$ $", 30)


def test_what_waits_is_told_by_attach(lab: tuple[Fleet, Person, Person]) -> None:
    _fleet, _alice, bob = lab
    bob.type("tpu-fleet submit --name later --after size-2 --code none -- true")
    said = bob.type("tpu-fleet attach later", code=1)
    assert "later is waiting: waits for size-2, which is failed" in said
    bob.type("tpu-fleet stop later")
    wait_until("its end", lambda: "stopped" in bob.type("tpu-fleet runs --queue later"), 30)
