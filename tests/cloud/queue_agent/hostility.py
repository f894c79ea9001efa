"""Eve: she may write to the bucket of the queue whatever she likes; each move is drawn from a seed.

Her commands write the word CRIME where she has no right to have them run, and OWN where she has.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests
from submitters import NoAnswer, Person, Queue, archive, objects

CRIME, OWN, ESCAPED = "crime-of-eve", "own-of-eve", "escaped-of-eve"
HELD = ("temporaryHold", "eventBasedHold")
TEXTS = [
    *("", "\0", "\x1b]0;x\x07\x1b[2J", "\u202e", "a\nb", "$(touch CRIME)", "`touch CRIME`", "-rf"),
    *("../../../etc", "%n%s%i", "'; touch CRIME; '", "\ud800", "x" * 5000, "\x7f\x9b31m", "\uff11"),
]
VALUES: list[Any] = [
    *(None, True, -1, 1e308, 10**30, 0.5, {}, [], [[]], [None], {"a": {}}, ["a", "a"]),
    *TEXTS,
]
NAMES = [
    *("runs/", "runs/../x", "runs/a b", "runs/" + "x" * 900, "runs/%2e%2e", "runs/\u00e9"),
    *("runs/\x1b[31mred", "waiting/", "waiting/x", "waiting//", "waiting/0/1/a/b/c", "stop/"),
    *("waiting/0/000000000/aaa/ghost", "waiting/\u0669/000000003/alice/lr-1", "running/alice//"),
    *("running/alice/ghost/1", "running/alice/ghost/x", "stop/ghost", "stop/a/b", "definitions/x"),
    *(
        "code/x.tar.gz",
        "ended/ghost",
        "ended/../x",
        "runs/digits",
        "bell",
        "slices/",
        *("slices/solo", "slices/../x", "slices/ghost"),
    ),
]


class Eve:
    """Her keys, what she has read in the bucket, and her moves."""

    def __init__(self, lab: Any, chance: random.Random) -> None:
        """`lab` has a queue and Eve's key, and the names of users and places; see harness.Lab."""
        self.lab, self.chance = lab, chance
        self.queue: Queue = lab.queue
        self.bucket = self.queue._bucket
        self.stranger: Person = lab.stranger
        self.number = self._names = 0
        self.names: list[str] = []
        """Runs that she has put there."""
        self.others: list[str] = []
        """Runs of alice that were done."""
        self.copies: dict[str, tuple[Any, Any]] = {}
        """Their states and definitions, as she read them once."""
        self.held: set[str] = set()
        self.moves: list[Callable[[], str]] = [
            *(self.forge, self.forge, self.forge_signature, self.forge_user, self.replay),
            *(self.replay, self.tamper, self.tamper, self.spoil, self.spoil, self.own),
            *(self.own_archive, self.place, self.delete, self.race, self.hold, self.fill),
            *(self.wish, self.hint, self.chain, self.collide, self.cut),
        ]

    def move(self, number: int) -> str:
        """Do one thing; return what it was."""
        self.number, self._names = number, 0
        do = self.chance.choice(self.moves)
        # The bucket refuses some of it: names that none has, and more metadata than there is.
        with contextlib.suppress(NoAnswer, requests.RequestException, UnicodeEncodeError):
            return f"{do.__name__}: {do()}"
        return f"{do.__name__}: refused by the bucket"

    # Moves

    def forge(self) -> str:
        """A run of alice that she has not signed."""
        return self._submit(self._crime(person="alice"), self.lab.eve)

    def forge_signature(self) -> str:
        """The same under something that looks like a signature of hers."""
        text = objects.canonical(asdict(self._crime(person="alice")))
        kind = self.chance.randrange(7)
        eve = self._sign(self.lab.eve, text)
        alice = self._signed(self._state()).signature
        made = [
            *(alice, "", "x" * 16000, alice + eve, eve + alice, f"\n\n{alice}"),
            self._sign(self.lab.eve, text, self.chance.choice(("file", "git", "", "*"))),
        ]
        return self._put_run(text, made[kind], f"kind {kind}")

    def forge_user(self) -> str:
        """A run of hers as a user as whom she may not submit, or of a person that there is not."""
        user = self.chance.choice(("daemon", "nobody", "alice", "sshd"))
        person = self.chance.choice(("eve", "mallory", "root"))
        by = self.lab.eve if person == "eve" else self.stranger
        return self._submit(self._crime(person=person, user=user), by)

    def replay(self) -> str:
        """What alice has signed, under another name, hash or state."""
        before = self._state()
        signed = self._signed(before)
        name, other = self._name(), self.chance.randbytes(32).hex()
        sha = self.chance.choice((before.definition, other))
        self._put(f"definitions/{sha}", objects.signed_bytes(signed))
        new = replace(
            before, name=self.chance.choice((name, before.name)), definition=sha, state="waiting",
            owner=None, ended_at=None, round=before.round + 1, turn=0,
        )  # fmt: skip
        return self._state_of(new)

    def tamper(self) -> str:
        """A state of alice's with other fields, owner and numbers, which are as they may be."""
        before = self._state()
        owner = objects.Owner("solo", "us-central2-b", "v4-8", 4, "node-solo", "boot")
        more: dict[str, Any] = self.chance.choice([
            {"person": "eve"}, {"turn": objects.MOST_TURN}, {"priority": 9}, {"turn": 0},
            {"attempt": 10**9}, {"claims": objects.MOST_COUNT}, {"round": objects.MOST_COUNT},
            {"failures": objects.MOST_COUNT}, {"definition": "f" * 64}, {"venv": "jax"},
            {"started_at": 0.0}, {"submitted_at": 0.0}, {"reason": "x" * 300},
            {"after": ("ghost",)},
        ])  # fmt: skip
        states = [
            {"state": "waiting", "owner": None, "ended_at": None},
            {"state": "running", "owner": owner, "ended_at": None},
            {"state": "running", "owner": replace(owner, slice="gone"), "ended_at": None},
            {"state": "done", "owner": None, "ended_at": time.time()},
            {"state": "failed", "owner": None, "ended_at": 1.0},
        ]
        return self._state_of(replace(before, **{**self.chance.choice(states), **more}))

    def spoil(self) -> str:
        """An object with fields of other types, sizes and letters, signed with her key."""
        made = asdict(self._crime(person=self.chance.choice(("alice", "eve"))))
        kind, key = self.chance.randrange(3), self.chance.choice(sorted(made))
        value = self.chance.choice(VALUES)
        made[key] = value
        if kind:
            made["options"] = {self.chance.choice(sorted(objects.OPTIONS)): value}
        text = json.dumps(made, sort_keys=True, separators=(",", ":"))
        return self._put_run(text, self._sign(self.lab.eve, text), f"{key}: {value!r:.40}")

    def own(self) -> str:
        """A run that she may submit, with words that a shell or a terminal could take up."""
        words = [self.chance.choice(TEXTS).replace("\0", "") for _ in range(3)]
        words = [word.encode("utf-8", "replace").decode() for word in words]
        command = ("bash", "-c", f"echo {OWN}; exit {self.chance.randrange(3)}", *words)
        return self._submit(self._own(command=command), self.lab.eve)

    def own_archive(self) -> str:
        """A run of hers whose code leads out of its folder."""
        data = self._archive()
        sha = objects.hashlib.sha256(data).hexdigest()
        stored = self.chance.choice((data, data, data[: len(data) // 2], b"x"))
        self._put(f"code/{sha}.tar.gz", stored)
        command = ("bash", "-c", f"echo {OWN}; ls -l . | head -20")
        return self._submit(self._own(command=command, code=sha), self.lab.eve)

    def place(self) -> str:
        """A run of hers whose files would be where they may not be."""
        out = self.lab.out / f"{ESCAPED}-{self.number}"
        top = "/var/lib/tpu-fleet"
        place = self.chance.choice([
            f"{top}/../../..{out}", f"{top}/../../../tmp/{out.name}", f"{top}/runs/digits",
            f"{top}/submitted/lr-1/{'0' * 16}", f"{top}/{out.name}", out.name, f"../{out.name}",
            f"{top}/checkpoints/other", f"$(touch {out})", f"gs://x/$(touch {out})", "gs://../..",
        ])  # fmt: skip
        command = ("bash", "-c", f"echo {OWN}")
        options = self.chance.choice([
            {}, {"results": [f"../../{out.name}", "/etc/passwd"]}, {"step_pattern": "("},
            {"step_pattern": "(a){999999999999}"}, {"min_free": "x"},
            {"checkpoint_command": "exit"},
        ])  # fmt: skip
        made = self._own(command=command, checkpoint_dir=place, options=options)
        return self._submit(made, self.lab.eve)

    def delete(self) -> str:
        """Some of what is there."""
        prefix = self.chance.choice(("runs/", "waiting/", "running/", "stop/", "definitions/", ""))
        found = self.bucket.list(prefix)[0]
        gone = [one.name for one in found if not one.name.startswith(self._kept)]
        gone = self.chance.sample(gone, min(len(gone), 3))
        for name in gone:
            self.bucket.delete(name)
        return ", ".join(gone)

    def race(self) -> str:
        """The state of a run changes between the read of a leader and its write."""
        alice = objects.definition_of(self._signed(self._state()).signed)
        crime = self._crime(person="alice", name=alice.name)
        text = objects.canonical(asdict(crime))
        forged = objects.Signed(text, self._sign(self.lab.eve, text))
        self._put(f"definitions/{objects.sha_of(text)}", objects.signed_bytes(forged))
        for number in range(6):
            one = crime if number % 2 else alice
            run = objects.of_definition(one, 0, f"{number:032x}", time.time())
            self._state_of(run)
            time.sleep(self.chance.uniform(0.0, 0.05))
        return alice.name

    def hold(self) -> str:
        """An object that can be read and not be written over."""
        name = self._submit(self._crime(person="alice"), self.lab.eve).split()[0]
        chosen = self.chance.choice((f"runs/{name}", f"stop/{name}", "bell", "slices/solo"))
        if not chosen.startswith("runs/"):
            self._put(chosen, b"")
        self._change(chosen, {self.chance.choice(HELD): True})
        self.held.add(chosen)
        return chosen

    def fill(self) -> str:
        """An object as large as one may be, and as long when it is listed."""
        name = self.chance.choice((f"runs/{self._name()}", "bell", f"stop/{self._name()}", *NAMES))
        large = b"[" * self.chance.choice((10, 200_000, 600_000))
        text = self.chance.choice(("<", "\x01", "\U0001f4a9", '"')) * 7000
        self._put(name, large, {"run": text.encode()[:7900].decode("utf-8", "ignore")})
        return name

    def wish(self) -> str:
        """Stops that were not wished so."""
        name = self.chance.choice([*self.names, *self.others, "ghost"])
        made = {"name": name, "person": "alice", "round": 1, "at": 1.0, "version": 1}
        made[self.chance.choice(sorted(made))] = self.chance.choice(VALUES)
        text = json.dumps(made, sort_keys=True, separators=(",", ":"))
        self._put(f"stop/{name}", text.encode(), {"wish": text})
        return name

    def hint(self) -> str:
        """A name below one of the folders, with whatever content."""
        name = self.chance.choice(NAMES)
        about = self.chance.choice([{}, {"run": "x"}, {"chips": "9" * 9}, {"run": self._text()}])
        self._put(name, self._text().encode("ascii", "replace"), about)
        return name

    def chain(self) -> str:
        """Runs that wait for each other."""
        names = [self._name() for _ in range(3)]
        for name, other in zip(names, [*names[1:], names[0]], strict=True):
            made = self._crime(person="eve", name=name, after=(other, "ghost"))
            self._submit(made, self.lab.eve)
        return ", ".join(names)

    def collide(self) -> str:
        """A run with the name of a declared one."""
        by = self.chance.choice((self.lab.eve, self.stranger))
        return self._submit(self._crime(person="eve", name="digits"), by)

    def cut(self) -> str:
        """Two objects that change places, or a part of one."""
        found = [one for one in self.bucket.list("")[0] if not one.name.startswith(self._kept)]
        if len(found) < 2:
            return "nothing is there"
        one, other = self.chance.sample(found, 2)
        data = self.bucket.get(one.name)
        if data is not None:
            end = self.chance.choice((len(data.data), len(data.data) // 2, 1))
            self._put(other.name, data.data[:end], one.metadata)
        return f"{one.name} as {other.name}"

    # Parts

    _kept: tuple[str, ...] = ()
    """What begins so is left alone while it is waited for."""

    def keep(self, *names: str) -> None:
        """Leave some objects alone."""
        self._kept = names

    def release(self) -> None:
        """Take all holds away, so that the bucket can be cleared."""
        for name in self.held:
            with contextlib.suppress(requests.RequestException):
                self._change(name, dict.fromkeys(HELD, False))

    def _name(self) -> str:
        name = f"e{self.number}-{self._names}"
        self._names += 1
        self.names.append(name)
        return name

    def _state(self) -> Any:
        """Return a state of a run of alice, as it was read once."""
        return self.copies[self.chance.choice(self.others)][0]

    def _signed(self, run: Any) -> Any:
        return self.copies[run.name][1]

    def _own(self, **more: Any) -> Any:
        if "code" not in more:  # a folder to begin in, as not all users have a home
            data = archive({"a": "b"})
            more["code"] = objects.hashlib.sha256(data).hexdigest()
            self._put(f"code/{more['code']}.tar.gz", data)
        return self._crime(person="eve", user=self.lab.eves, **more)

    def _crime(self, **more: Any) -> Any:
        command = ("bash", "-c", f"echo {CRIME}; touch {self.lab.out}/{CRIME}-{self.number}")
        given = {
            "name": self._name(), "user": self.lab.me, "command": command, "venv": "",
            "submitted_at": time.time(), "retries": 0,
            "priority": self.chance.choice((0, 0, 0, 9)),
            **more,
        }  # fmt: skip
        return objects.Definition(**given)

    def _sign(self, by: Person, text: str, namespace: str = "tpu-fleet-queue") -> str:
        words = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace or "x", "-f", str(by.key)]
        data = text.encode("utf-8", "surrogatepass")
        return subprocess.run(words, input=data, capture_output=True, check=True).stdout.decode()

    def _submit(self, definition: Any, by: Person) -> str:
        text = objects.canonical(asdict(definition))
        return self._put_run(text, self._sign(by, text), definition.person)

    def _put_run(self, text: str, signature: str, about: str) -> str:
        """Put a definition there as it is, and a state that fits as far as it can."""
        sha = objects.sha_of(text)
        self._put(
            f"definitions/{sha}",
            objects.canonical({"signed": text, "signature": signature}).encode(),
        )
        found = json.loads(text)
        run = objects.Submitted(
            str(found["name"]), sha, str(found["person"]), 0, found["submitted_at"], time.time(),
            **{key: found[key] for key in ("priority", "venv", "types", "slices", "after")},
            nonce=self.chance.randbytes(16).hex(),
        )  # fmt: skip
        self._state_of(run)
        return f"{run.name:.40} ({about})"

    def _state_of(self, run: Any) -> str:
        """Write a state and its hint, whether tpu-fleet would or not."""
        found = {one: getattr(run, one) for one in run.__dataclass_fields__}
        text = objects.canonical({**found, "owner": run.owner and asdict(run.owner)})
        self._put(f"runs/{run.name}", text.encode(), {"run": text})
        if run.state == "waiting":
            name = f"waiting/{run.priority}/{run.turn:09}/{run.person}/{run.name}"
            with contextlib.suppress(TypeError, ValueError):
                name = objects.hint_name(run)
            self._put(name, b"", {"run": text})
        self.queue.ring()
        return f"{run.name:.40} {run.state}"

    def _text(self) -> str:
        found = {one: getattr(self._state(), one) for one in ("name", "person", "turn", "state")}
        found[self.chance.choice(sorted(found))] = self.chance.choice(VALUES)
        return json.dumps(found)

    def _put(self, name: str, data: bytes, about: dict[str, str] | None = None) -> None:
        if not name.startswith(self._kept or "\0"):
            self.bucket.put(name, data, about or {})

    def _change(self, name: str, about: dict[str, Any]) -> None:
        place = (
            f"{self.lab.storage}/storage/v1/b/lab/o/{quote(f'{self.lab.folder}/{name}', safe='')}"
        )
        requests.patch(place, json=about, timeout=30).raise_for_status()

    def _archive(self) -> bytes:
        packed, out = io.BytesIO(), f"{ESCAPED}-{self.number}"
        kinds = [
            (f"../../{out}", tarfile.REGTYPE, ""), (f"{self.lab.out}/{out}", tarfile.REGTYPE, ""),
            ("up", tarfile.SYMTYPE, "../../.."), ("root", tarfile.SYMTYPE, "/etc"),
            ("hard", tarfile.LNKTYPE, "/etc/passwd"), ("zero", tarfile.CHRTYPE, ""),
            ("pipe", tarfile.FIFOTYPE, ""), ("setuid", tarfile.REGTYPE, ""),
            ("a" * 300, tarfile.REGTYPE, ""), ("a\nb\x1b[2J", tarfile.REGTYPE, ""),
            (".", tarfile.SYMTYPE, "/etc"), ("here", tarfile.SYMTYPE, "."), ("large", b"?", ""),
        ]  # fmt: skip
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name, kind, target in self.chance.sample(kinds, self.chance.choice((1, 2))):
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.mode = kind, target, 0o6777
                if kind == b"?":  # and nothing of it is there
                    member.type, member.size = tarfile.REGTYPE, 1 << 40
                    head = member.tobuf(tarfile.GNU_FORMAT)
                    tar.fileobj.write(head)  # type: ignore[union-attr]
                    continue
                tar.addfile(member)
                if kind == tarfile.SYMTYPE:
                    tar.addfile(tarfile.TarInfo(f"{name}/{out}"))
        return packed.getvalue()


def paths_of(base: Path, word: str) -> list[str]:
    """Return the paths below a folder whose name begins so."""
    return sorted(str(path) for path in base.rglob(f"{word}*"))
