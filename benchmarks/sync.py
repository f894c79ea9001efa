#!/usr/bin/env python3
"""From an edited line to its first output on all workers: sync, site.yml, and by hand.

    sudo .venv/bin/python benchmarks/sync.py [--workers 1 2 8 64] [--trials 7] [--json FILE]

Makes a local cloud of its own for each number of workers, with one slice on which a program prints
the version of its code. A trial edits one line for each contender in turn. Counted is from the
start of the command until the program of every worker has printed the new version, as it writes
down itself: machines and controller have one clock. So each figure has the program's own stop and
start in it, which is measured alone as well. site.yml is measured after the others.

64 workers are small machines of the local cloud. They have no systemd: stand_in_systemctl.py starts
and reloads the agents in its place, and everything else is as on the others. One machine installs
ansible-core before they come, and they have it in their image: each by itself would take 64 times
as long, and as much memory.

sync       `tpu-fleet sync`
site       `ansible-playbook tpu.fleet.site`
by hand    for each worker at once: rsync, then ssh, which ends the program in tmux and starts it
restart    the last part alone, on all workers at one moment: what no way can beat
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from measure import Cost, Line, interleaved, medians, promises, record

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(ROOT / "local_cloud/tests/support"))

from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import AGENT  # noqa: E402
from fleet import NOTHING, Fleet, wait_until  # noqa: E402
from warm_ansible import STARTED  # noqa: E402

from tpu_local_cloud.machines.layout import Layout  # noqa: E402
from tpu_local_cloud.machines.small import lives_on  # noqa: E402

ZONE = "us-central2-b"
KINDS = {1: "v4-8", 2: "v4-16", 4: "v4-32", 8: "v4-64", 64: "v4-512"}
MOST_SECONDS, MOST_RATIO = 3.0, 1.3
"""Beyond the program's own stop and start; and times what it takes by hand."""
SMALL_FROM, MOST_SECONDS_OF_SMALL = 64, 4.5
SMALL = {"local-cloud-machine": "small"}
SYSTEMCTL = ROOT / "benchmarks/stand_in_systemctl.py"
IN_IMAGE = ("opt/tpu-fleet/apply", "usr/local/bin", "var/cache/tpu-fleet/uv")
"""What small machines have in their image: the first one's ansible-core, and the stand-ins."""
# They share the packages of one image, and nothing is installed on each of them.
BARE: dict[str, list[str]] = {"fleet_base_packages": [], "fleet_shell_packages": []}
PROGRAM = """import time
VERSION = "{version}"
print("version", VERSION, "at", time.time(), flush=True)
while True:
    time.sleep(60)
"""
# A tree of a usual size: what does not change has to be compared.
MODULES, LINES = 100, 150
BY_HAND = "by-hand"
LOG = f"/home/ubuntu/{BY_HAND}.log"
UNIT = "tpu-fleet-run@digits.service"
RUN_LOG = "/var/log/tpu-fleet/runs/digits/run.log"
# Seconds for the connections of a restart: in all, and for each worker.
CONNECTED, CONNECTED_EACH = 2.0, 0.1
AGAIN = f"'exec python3 train.py >> {LOG}'"
# A session that ends takes the server with it, which the next one would then miss.
START = (
    f"cd {BY_HAND} && {{ tmux respawn-pane -k -t {BY_HAND} {AGAIN} 2>/dev/null || "
    f"tmux new-session -d -s {BY_HAND} {AGAIN}; }}"
)


class Slice(Fleet):
    """A fleet of one slice, whose run prints the version of its code."""

    def __init__(self, folder: Path, workers: int, port: int, small: bool = False) -> None:
        self.small = small
        self.workers = workers
        self.names = ["pod"] if workers == 1 else [f"pod-w{number}" for number in range(workers)]
        self.number = 0
        super().__init__(folder, self.file(workers), port=port)
        # Bytecode is kept, as on a user's computer.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.groups = control_groups() / folder.name
        self.code = folder / "code"
        self.code.mkdir()
        for number in range(MODULES):
            text = "".join(f"VALUE_{line} = {number * line}\n" for line in range(LINES))
            (self.code / f"module_{number}.py").write_text(text)
        self.edit()

    def file(self, workers: int) -> dict[str, Any]:
        """Return a fleet file whose slice has so many workers."""
        pod: dict[str, Any] = {"name": "pod", "accelerator_type": KINDS[workers], "zone": ZONE}
        run = {"name": "digits", "slices": ["pod"], "user": "alice", "code": "toy"}
        return {
            **NOTHING,
            **(BARE if self.small else {}),
            "fleet_slices": [{**pod, "metadata": SMALL} if self.small else pod],
            "fleet_allocations": "unrestricted",
            "fleet_users": [{"name": "alice", "uid": 2001}],
            "fleet_code": [{"name": "toy", "user": "alice", "local_path": "../code"}],
            "fleet_runs": [{**run, "command": "exec python3 train.py"}],
        }

    def edit(self) -> str:
        """Save another version; return it."""
        self.number += 1
        (self.code / "train.py").write_text(PROGRAM.format(version=self.number))
        return str(self.number)

    def begin(self) -> None:
        """Bring everything up until both programs run everywhere."""
        self.up("--clock", "immediate")
        if self.small:
            self.fill_image()
        self.play("site.yml")
        if self.small:
            self.name_groups()
        self.by_hand()
        for log in (RUN_LOG, LOG):
            self.seen(log, "1", 0.0)

    def fill_image(self) -> None:
        """Apply the roles to one small machine; give what it installed to all that come."""
        self.declare(self.file(1))
        self.play("tpu.fleet.provision", "--limit", "localhost")
        for name in ("systemctl", "systemd-run"):
            self.run("tpu-fleet", "cp", "--sudo", str(SYSTEMCTL), f":/usr/local/bin/{name}")
        self.play("site.yml")
        home, filled = Layout(self.folder / "cloud").home, self.folder / "image"
        (own,) = home.glob("small/*/upper")
        filled.mkdir()
        words = ["tar", "-C", str(own), "-c", *IN_IMAGE]
        self.run("sh", "-c", f"{shlex.join(words)} | tar -C {filled} -x")
        # A layer below a running machine must not change.
        self.run("curl", "-sf", "-X", "POST", f"http://127.0.0.1:{self.port}/_cloud/reset")
        shutil.copytree(filled, home / "small-common", symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(filled)
        self.declare(self.file(self.workers))

    def name_groups(self) -> None:
        """Put each agent into a control group of its unit's name, as systemd does.

        By that a sync knows that a signal reaches the agent; root of a small machine cannot do it.
        """
        home = Layout(self.folder / "cloud").home / "small"
        agents = [pid for pid in pids_of(AGENT) if lives_on(pid, home)]
        assert len(agents) == self.workers, agents
        for pid in agents:
            group = self.groups / str(pid) / UNIT
            group.mkdir(parents=True)
            (group / "cgroup.procs").write_text(str(pid))

    def down(self) -> None:
        """Take everything down; remove the control groups when the machines have ended."""
        super().down()
        for group in (*self.groups.glob("*/*/"), *self.groups.glob("*/"), self.groups):
            with suppress(FileNotFoundError):
                group.rmdir()

    def seen(self, log: str, version: str, begun: float) -> float:
        """Return the seconds until every worker had printed a version."""
        script = shlex.join(["sudo", "grep", "-h", f"^version {version} at", log])

        def look() -> list[float] | None:
            words = ("tpu-fleet", "exec", "--json", "--", f"{script} || true")
            found = [
                re.findall(rf"version {version} at (\S+)", one["stdout"])
                for one in self.report(*words)["workers"]
            ]
            times = [float(one[-1]) for one in found if one]
            return times if len(times) == len(self.names) else None

        return max(wait_until(f"version {version}", look, 300)) - begun

    def counted(self, log: str, work: Callable[[], None]) -> Cost:
        """Edit a line, bring it to the workers, and return the seconds that this took."""
        version, begun = self.edit(), time.time()
        work()
        return Cost(self.seen(log, version, begun), 0.0, 0.0)

    def sync(self) -> None:
        """Bring the code as this project does."""
        told = self.run("tpu-fleet", "sync", "digits")
        assert len(told.splitlines()) == 1, told

    def site(self) -> None:
        """Bring it as everything else."""
        self.play("site.yml")

    def by_hand(self) -> None:
        """Bring it as people do without this project."""
        ssh = f"ssh -F {self.ssh_config} -o BatchMode=yes -o LogLevel=ERROR"
        each = (
            f'rsync -az --delete -e "{ssh}" {self.code}/ {{}}:{BY_HAND}/ && '
            f"{ssh} {{}} {shlex.quote(START)}"
        )
        names = self.folder / "names"
        names.write_text("".join(f"{name}\n" for name in self.names))
        self.run("xargs", "-a", str(names), "-P", "64", "-I{}", "sh", "-c", each)

    def restarted(self) -> Cost:
        """Return the seconds from an order that each worker has, to the last one's first line."""
        version = self.edit()
        self.run(
            *("tpu-fleet", "cp", str(self.code / "train.py"), f":/home/ubuntu/{BY_HAND}/train.py")
        )
        # All wait for one moment, with which their connections have nothing to do.
        begun = time.time() + CONNECTED + CONNECTED_EACH * self.workers
        wait = f"sleep $(date +%s.%N | awk '{{print {begun:.3f} - $1}}')"
        self.run("tpu-fleet", "exec", "--", f"{wait}; {START}")
        return Cost(self.seen(LOG, version, begun), 0.0, 0.0)

    def rows(self) -> dict[str, Callable[[], Cost]]:
        """Return how each contender is measured, site.yml aside."""
        return {
            "sync": lambda: self.counted(RUN_LOG, self.sync),
            "by hand": lambda: self.counted(LOG, self.by_hand),
            "restart": self.restarted,
        }

    def measured(self, trials: int, site: bool) -> dict[str, list[Cost]]:
        """Return all trials; those of site.yml come last, as it is not run between two edits."""
        # Once without counting: what is read and compiled for the first time.
        self.counted(RUN_LOG, self.sync)
        found = interleaved(self.rows(), trials)
        self.show(found)
        if site:
            rows = {"site": lambda: self.counted(RUN_LOG, self.site)}
            last = interleaved(rows, trials)
            self.show(last)
            found.update(last)
        return found

    def show(self, runs: dict[str, list[Cost]]) -> None:
        """Print the seconds of each trial."""
        for name, costs in runs.items():
            shown = " ".join(f"{cost.wall:.2f}" for cost in costs)
            median = f"{medians(costs).wall:6.2f}"
            print(f"{self.workers} {name:<8} median {median} s   {shown}", flush=True)


def control_groups() -> Path:
    """Return where this computer has the control groups of version 2."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next(Path(place) for _what, place, kind, *_more in mounts if kind == "cgroup2")


def pids_of(words: bytes) -> Iterator[int]:
    """Return the processes that have these words in their command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if words in path.read_bytes():
                yield int(path.parent.name)


@contextmanager
def slice_of(workers: int, port: int, small: bool) -> Iterator[Slice]:
    """Bring a cloud up with such a slice; take it down in the end."""
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        made = Slice(Path(name), workers, port, small)
        try:
            made.begin()
            yield made
        finally:
            made.down()


def lines_of(workers: int, runs: dict[str, list[Cost]]) -> list[Line]:
    """Return the promises for a number of workers."""
    sync, hand, restart = (medians(runs[name]).wall for name in ("sync", "by hand", "restart"))
    what = f"{workers} worker{'' if workers == 1 else 's'}"
    most = MOST_SECONDS if workers < SMALL_FROM else MOST_SECONDS_OF_SMALL
    return [
        Line(f"{what}: seconds beyond the program's own restart", sync - restart, most),
        Line(f"{what}: times as long as by hand", sync / hand, MOST_RATIO),
    ]


def main() -> None:
    """Measure, show and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 8], choices=KINDS)
    parser.add_argument("--trials", type=int, default=7)
    parser.add_argument("--without-site", action="store_true", help="leave site.yml out")
    parser.add_argument("--small", action="store_true", help="take small machines for fewer too")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    # Ansible takes part of its time to start, as everything else here does.
    os.environ[STARTED] = "1"
    runs: dict[str, list[Cost]] = {}
    promised: list[Line] = []
    for workers in given.workers:
        small = given.small or workers >= SMALL_FROM
        with slice_of(workers, given.port, small) as made:
            found = made.measured(given.trials, not given.without_site)
        promised += lines_of(workers, found)
        for name, costs in found.items():
            runs[f"{workers}: {name}"] = costs
    print(promises(promised))
    facts: dict[str, Any] = {"trials": given.trials, "modules": MODULES, "lines_of_each": LINES}
    record(given.json, "sync", runs, promised, **facts)


if __name__ == "__main__":
    main()
