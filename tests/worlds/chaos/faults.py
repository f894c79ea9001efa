"""The faults: how each is done and undone, and where it shows.

Every fault has to be in the event log of a worker, or where its nature puts it: what happens to
the API or to the watcher is in the watcher's log, and the end of sshd in the machine's journal, for
the run has nothing to do with either. A link that is slow, and not too slow, is the only one that
leaves nothing: nobody is lost and nothing ends, which is what it should be. For it there is what
the kernel counted, and for faults of the bucket how many requests the cloud had struck.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import requests
from fleet import wait_until

from .field import CHECKPOINTS, CLOCK_FILE, SAVED, USER, Event, Field, Place, Unreachable, after
from .plan import QUAD, SOLO, Fault

FILLER = ".chaos-filler"
READY_SECONDS = 420.0
JUMP_SECONDS = 3600


class Harm:
    """One fault that is done."""

    needs_program = False

    def __init__(self, field: Field, fault: Fault) -> None:
        self.field, self.fault = field, fault
        self._before: dict[int, tuple[Place, int, str]] = {}

    def begin(self) -> None:
        """Wait until it can be done, remember how it was, and do it."""
        self._wait()
        for worker in self._watched():
            place = self.field.collect(self.fault.lane, worker)
            if place is None:
                raise Unreachable(f"{self.fault.lane} worker {worker}")
            boot = self._on(worker, "cat /proc/sys/kernel/random/boot_id").strip()
            self._before[worker] = (place, len(self.field.events[place]), boot)
        self.apply()

    def _wait(self) -> None:
        lane = self.fault.lane

        def there() -> bool:
            if self.needs_program:
                return self.field.trains(lane)
            states = [self.field.run_status(lane, worker) for worker in self._watched()]
            return all(states)

        wait_until(f"{lane} can be harmed", there, READY_SECONDS)

    def _watched(self) -> Sequence[int]:
        """Return the workers on which traces are looked for."""
        return self.fault.workers

    def _on(self, worker: int, script: str) -> str:
        return self.field.on(self.fault.lane, worker, script)

    def apply(self) -> None:
        """Do it."""
        raise NotImplementedError

    def undo(self) -> None:
        """Take it back, where it does not end by itself."""

    def trace(self) -> str:
        """Say where it shows; empty when it does not, yet."""
        found = [self.trace_of(worker) for worker in self.fault.workers]
        return "; ".join(found) if all(found) else ""

    def trace_of(self, worker: int) -> str:
        """Say where it shows for one worker."""
        raise NotImplementedError

    def _after(self, worker: int, name: str, **wanted: Any) -> list[Event]:
        place, number, _boot = self._before[worker]
        return after(self.field.events.get(place, ()), number, name, **wanted)


class Program(Harm):
    """kill -9 of the program."""

    needs_program = True

    def apply(self) -> None:
        """Kill it as soon as it is known."""
        pid = self.field.run_status(self.fault.lane, self.fault.workers[0])["pid"]
        self._on(self.fault.workers[0], f"kill -9 {pid}")

    def trace_of(self, worker: int) -> str:
        """See it end by that signal."""
        ended = self._after(worker, "attempt-ended", signal=9)
        return f"attempt {ended[0]['attempt']} ended by signal 9" if ended else ""


class Agent(Harm):
    """kill -9 of the run agent."""

    def apply(self) -> None:
        """Kill it; systemd starts another one."""
        unit = f"tpu-fleet-run@{self.fault.lane}"
        self._on(self.fault.workers[0], f"kill -9 $(systemctl show -p MainPID --value {unit})")

    def trace_of(self, worker: int) -> str:
        """See another one begin without a reboot."""
        boot = self._before[worker][2]
        return "another agent" if self._after(worker, "agent-started", boot_id=boot) else ""


class Tmux(Harm):
    """kill -9 of the tmux server, and with it of the program's terminal."""

    needs_program = True

    def apply(self) -> None:
        """Kill it."""
        ask = f"tmux display-message -p -t ={self.fault.lane}: '#{{pid}}'"
        self._on(self.fault.workers[0], f"kill -9 $(runuser -u {USER} -- {ask})")

    def trace_of(self, worker: int) -> str:
        """See the attempt end for just that."""
        ended = self._after(worker, "attempt-ended", cause="lost its terminal")
        return f"attempt {ended[0]['attempt']} lost its terminal" if ended else ""


class Sshd(Harm):
    """kill -9 of sshd; of the run nothing is touched."""

    _seen = ""

    def apply(self) -> None:
        """Kill it; systemd starts it again."""
        self._on(self.fault.workers[0], "kill -9 $(systemctl show -p MainPID --value ssh)")

    def trace_of(self, worker: int) -> str:
        """See it in the machine's journal, which a reboot may end."""
        with suppress(Unreachable, requests.RequestException):
            if "KILL" in self._on(worker, "journalctl -u ssh -n 50 -o cat"):
                self._seen = "status=9/KILL in the machine's journal"
        return self._seen


class Reboot(Harm):
    """A reboot of one, some or all workers."""

    def apply(self) -> None:
        """Reboot them at once."""
        orders = [
            threading.Thread(target=self._reboot, args=(worker,)) for worker in self.fault.workers
        ]
        for order in orders:
            order.start()
        for order in orders:
            order.join()

    def _reboot(self, worker: int) -> None:
        self.field.order(self.fault.lane, "reboot", worker=worker)

    def trace_of(self, worker: int) -> str:
        """See an agent of another boot."""
        boot = self._before[worker][2]
        later = [e for e in self._after(worker, "agent-started") if e["boot_id"] != boot]
        return "an agent of another boot" if later else ""


class Maintenance(Reboot):
    """A maintenance: a reboot, and another external address.

    On Compute Engine it takes all machines of a slice, which keep their addresses.
    """

    def apply(self) -> None:
        """Have it done."""
        lane, worker = self.fault.lane, self.fault.workers[0]
        old = self.field.worker(lane, worker)["external_ip"]
        self.field.order(lane, "maintain", worker_ids=[str(worker)], new_external_ip=True)
        if self.field.nodes()[lane].get("api") == "compute":
            return

        def moved() -> bool:
            with suppress(Unreachable):
                return bool(self.field.worker(lane, worker)["external_ip"] != old)
            return False

        wait_until(f"{lane} worker {worker} has another address", moved, 180)


class Preempt(Harm):
    """A preemption: the machines are gone with their disks."""

    _said = 0

    def apply(self) -> None:
        """Take the slice away."""
        self._said = len(self.field.watched())
        self.field.order(self.fault.lane, "preempt")

    def trace(self) -> str:
        """See that the watcher reported it, and that agents are on new machines."""
        told = f"preempted: {self.fault.lane}" in self.field.watched()[self._said :]
        old = {place for place, _number, _boot in self._before.values()}
        lane = self.fault.lane
        new = {p[1] for p in list(self.field.events) if p[0] == lane and p not in old}
        return "told by the watcher, new machines" if told and new else ""


class Partition(Harm):
    """One worker cannot reach the others, nor they it."""

    def _watched(self) -> Sequence[int]:
        return sorted({0, *self.fault.workers})

    def apply(self) -> None:
        """Drop every packet between them."""
        lane, worker = self.fault.lane, self.fault.workers[0]
        workers = self.field.nodes()[lane]["workers"]
        others = ", ".join(w["internal_ip"] for w in workers if w["worker"] != worker)
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority -300; "
            f"ip {side} {{ {others} }} drop; }}\n"
            for hook, side in (("input", "saddr"), ("output", "daddr"))
        )
        self._on(worker, f"nft -f - <<'END'\ntable inet chaos {{\n{chains}}}\nEND")

    def undo(self) -> None:
        """Let them reach each other again; a reboot has done so before."""
        self._on(self.fault.workers[0], "nft delete table inet chaos 2>/dev/null || true")

    def trace(self) -> str:
        """See worker 0 miss the worker that it cannot reach."""
        (worker,) = self.fault.workers
        wanted = {} if worker == 0 else {"peer": worker}
        return "peer-lost" if self._after(0, "peer-lost", **wanted) else ""


class SlowLink(Harm):
    """A link of a quarter of a megabit."""

    _counted = ""

    def apply(self) -> None:
        """Make it slow."""
        self._on(
            self.fault.workers[0],
            "dev=$(ip -o -4 route show default | sed -E 's/.* dev (\\S+).*/\\1/')\n"
            "tc qdisc replace dev $dev root tbf rate 256kbit burst 16kb latency 500ms",
        )

    def undo(self) -> None:
        """Make it quick again."""
        told = self._on(
            self.fault.workers[0],
            "dev=$(ip -o -4 route show default | sed -E 's/.* dev (\\S+).*/\\1/')\n"
            "tc -s qdisc show dev $dev root | tr '\\n' ' '; tc qdisc del dev $dev root || true",
        )
        if "overlimits" in told:
            words = told.split()
            counted = words[words.index("overlimits") + 1]
            self._counted = f"no trace by nature; the kernel held {counted} packets back"

    def trace(self) -> str:
        """Say what the kernel counted."""
        return self._counted


class Disk(Harm):
    """A full disk, of the checkpoints."""

    # The root of a container is the disk of this computer: that must not be filled.
    _folder = SAVED[SOLO].rpartition("/")[0]

    def apply(self) -> None:
        """Take all the room that there is."""
        script = f"""
cd {self._folder}
for part in 1 1 2 4 8; do
  fallocate -l $(($(df --output=avail -B1 . | tail -n 1) / part)) {FILLER}.$RANDOM || true
done
"""
        self._on(self.fault.workers[0], script)

    def undo(self) -> None:
        """Give it back."""
        self._on(self.fault.workers[0], f"rm -f {self._folder}/{FILLER}.*")

    def trace_of(self, worker: int) -> str:
        """See the agent say so."""
        low = self._after(worker, "disk-low")
        return str(low[0]["what"]) if low else ""


class Clock(Harm):
    """A person sets the clock an hour ahead, and back."""

    def apply(self) -> None:
        """Set it."""
        self._on(self.fault.workers[0], f"echo {JUMP_SECONDS} > {CLOCK_FILE}")

    def undo(self) -> None:
        """Set it right."""
        self._on(self.fault.workers[0], f"rm -f {CLOCK_FILE}")

    def trace_of(self, worker: int) -> str:
        """See the agent notice."""
        jumps = [event["seconds"] for event in self._after(worker, "clock-jumped")]
        return f"clock-jumped by {jumps}" if any(jump > 3000 for jump in jumps) else ""


class OfTheController(Harm):
    """Something that the workers cannot see."""

    says = ""

    def begin(self) -> None:
        """Do it at once."""
        self._said = len(self.field.watched())
        self.apply()

    def trace(self) -> str:
        """See it in what the watcher says."""
        lines = self.field.watched()[self._said :].splitlines()
        return next((line[:120] for line in lines if self.says in line), "")


class Api(OfTheController):
    """The API is away."""

    says = " api: "
    _id = ""

    def apply(self) -> None:
        """Have all of it answer with 503, also the bucket."""
        self._id = self.field.break_cloud({"kind": "unavailable"})

    def undo(self) -> None:
        """Have it answer."""
        self.field.mend_cloud(self._id)


class Bucket(OfTheController):
    """Requests for the bucket fail, or worse: some of those that write do what they are asked."""

    FAULTS: ClassVar[dict[str, dict[str, Any]]] = {
        "busy": {"kind": "rate_limit", "probability": 0.3},
        "away": {"kind": "unavailable", "probability": 0.3},
        # By the cloud's clock, which is ten times as fast.
        "slow": {"kind": "slow", "seconds": 10, "probability": 0.5},
        "lost-answer": {"kind": "drop", "when": "after", "probability": 0.2},
        "one-a-second": {"kind": "object_rate", "seconds": 10},
    }
    STRUCK_SECONDS = 420.0
    _id = ""
    _struck = ""

    def apply(self) -> None:
        """Begin it."""
        name = CHECKPOINTS[QUAD].split("/")[2]
        # Not one and the same request each time, and not others for another seed.
        same = {"match": {"bucket": name}, "seed": round(self.fault.at)}
        self._id = self.field.break_cloud({**self.FAULTS[self.fault.kind], **same})

    def undo(self) -> None:
        """End it, when it has struck: just now the run may save nothing."""
        wait_until(f"{self.fault.kind} strikes", self._hits, self.STRUCK_SECONDS)
        self._struck = f"{self._hits()} requests struck"
        self.field.mend_cloud(self._id)

    def _hits(self) -> int:
        return self.field.struck(self._id)

    def trace(self) -> str:
        """Say how many requests it struck."""
        return self._struck


class Watch(OfTheController):
    """kill -9 of the watcher; another one is started."""

    says = "watching as"

    def apply(self) -> None:
        """Kill it."""
        self.field.kill_watch()

    def undo(self) -> None:
        """Start another one."""
        self.field.start_watch()


KINDS: dict[str, type[Harm]] = {
    "program": Program,
    "agent": Agent,
    "tmux": Tmux,
    "sshd": Sshd,
    "reboot": Reboot,
    "reboot-some": Reboot,
    "reboot-all": Reboot,
    "maintenance": Maintenance,
    "preempt": Preempt,
    "partition": Partition,
    "slow-link": SlowLink,
    "disk": Disk,
    "clock": Clock,
    **dict.fromkeys(Bucket.FAULTS, Bucket),
    "api": Api,
    "watch": Watch,
}
