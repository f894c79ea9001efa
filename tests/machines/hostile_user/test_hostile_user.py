"""A person without sudo against root, on a machine that she shares with a user who trains.

In each round mallory replaces many of the files and folders that the fleet keeps in places of hers,
each by something else, beside programs and settings that lie there all the time. In others she
holds what root and the others need: locks, names in /tmp, ports, processes, builds of her own. Then
the fleet does what it does every day. What became of the machine is looked at from outside.

The seed is TPU_FLEET_HOSTILE_SEED, or the same one each time.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fleet import ROOT, Fleet, changes, wait_until
from hostile_user import shared
from hostile_user.machine import PLACE, ROLES, Machine
from hostile_user.shared import BOARD, CAROL, HOST, MALLORY, PORT
from warm_ansible import run_ansible

SEED = os.environ.get("TPU_FLEET_HOSTILE_SEED", "1")
# What one command may take, on a busy computer, while hardly anything is where it should be.
LIMIT = 150
REPORT = "/srv/judge/report"
# What a module or playbook says when it did not know what happened to it.
UNEXPECTED = re.compile(
    "MODULE FAILURE|unexpected exception|Module result deserialization|TypeError|AttributeError"
    "|KeyError|UnicodeDecodeError|RecursionError|MemoryError|Traceback"
)
# A file in a place of hers.
HERS = re.compile(
    r"""(?:/home/mallory|~|/var/log/tpu-fleet/runs/\w+|/run/tpu-fleet/runs/\w+/user)/[^\s"'`,;]+"""
)
EVERYTHING = ("-e", "fleet_apply_everything=true")


@dataclass
class Siege:
    """The machine, and all that was done to it."""

    fleet: Fleet
    machine: Machine
    folder: Path
    rounds: int = 0
    cases: int = 0
    planted: int = 0
    slowest: tuple[float, str] = (0.0, "")
    said: list[str] = field(default_factory=list)
    # What a way had her replace in the midst of it, and hold.
    planned: list[tuple[str, str]] = field(default_factory=list)
    held: list[tuple[str, str]] = field(default_factory=list)

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command of the fleet's; it ends within its limit, however."""
        began = time.monotonic()
        try:
            done = run_ansible(words, self.fleet.env, ROOT, LIMIT, together=True)
        except subprocess.TimeoutExpired as late:
            # subprocess has bytes here, whatever it was asked for.
            told = late.stdout or ""
            told = told.decode(errors="replace") if isinstance(told, bytes) else told
            raise AssertionError(f"{shlex.join(words)} hangs:\n{told[-3000:]}") from None
        self.slowest = max(self.slowest, (time.monotonic() - began, shlex.join(words)))
        self.said.append(f"$ {shlex.join(words)}\n{done.stdout}")
        return done.returncode, done.stdout

    def play(self, *words: str) -> tuple[int, str]:
        return self.command("ansible-playbook", *words)


@pytest.fixture(scope="module")
def siege(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Siege:
    """The machine that is as declared, on which alice trains."""
    machine = Machine(fleet)
    machine.prepare()
    found = Siege(fleet, machine, tmp_path_factory.mktemp("brought"))
    fleet.play("site.yml")
    wait_until("alice trains", lambda: fleet.steps(HOST, "count") > 2, 120)
    return found


def declare(siege: Siege, apply: str) -> None:
    siege.fleet.declare(shared.declared(siege.fleet.folder / "controller", apply))


# What the fleet does, each in its own way: what it said, by who said it, and whether it could.
Told = list[tuple[int, str]]


def by_roles(siege: Siege) -> Told:
    """The machine applies all roles that have to do with people, whatever fails in one."""
    siege.machine.root(f"rm -f {REPORT}")
    words = shlex.join(["python3", "-I", f"{PLACE}/roles.py", REPORT, *ROLES])
    began = time.monotonic()
    try:
        siege.machine.root(words, limit=LIMIT)
    except subprocess.TimeoutExpired:
        raise AssertionError("the roles, applied on the machine, hang") from None
    siege.slowest = max(siege.slowest, (time.monotonic() - began, "the roles on the machine"))
    failed = siege.machine.root(f"test ! -e {REPORT} || cat {REPORT}").splitlines()
    siege.said.extend(failed)
    return [(1, line) for line in failed]


def by_push(siege: Siege) -> Told:
    declare(siege, "push")
    return [siege.play("site.yml", *EVERYTHING)]


def by_host(siege: Siege) -> Told:
    declare(siege, "host")
    return [siege.play("site.yml", *EVERYTHING)]


def by_timer(siege: Siege) -> Told:
    """As the timer begins it, once an hour."""
    began = time.monotonic()
    unit = "tpu-fleet-apply.service"
    try:
        siege.machine.root(f"systemctl start {unit} || true", limit=LIMIT)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{unit} hangs") from None
    siege.slowest = max(siege.slowest, (time.monotonic() - began, unit))
    script = f"journalctl -q -o cat _SYSTEMD_INVOCATION_ID=$(systemctl show -P InvocationID {unit})"
    told = siege.machine.root(f"systemctl is-failed -q {unit} && {script} || true")
    siege.said.append(told)
    return [(1, told)] if told else []


def by_reprovision(siege: Siege) -> Told:
    declare(siege, "host")
    return [siege.play("tpu.fleet.reprovision")]


def by_looking(siege: Siege) -> Told:
    """All that only reads, the doctor's remedies, and what is brought to the controller."""
    collect = ("tpu.fleet.collect", "-e", "run=hers", "-e", f"collect_to={siege.folder}")
    doctor = ("tpu-fleet", "doctor", "--timeout", "60")
    examined = [siege.command(*doctor), siege.command(*doctor, "--fix")]
    # It says by 1 and 2 that it found something.
    assert all(code in (0, 1, 2) for code, _text in examined), examined
    return [
        *((0, text) for _code, text in examined),
        siege.command("tpu-fleet", "runs"),
        siege.command("tpu-fleet", "logs", "hers"),
        siege.command("tpu-fleet", "why", "hers", "-o", f"{siege.folder}/why-{time.time_ns()}"),
        siege.command("tpu-fleet", "watch", "run", "--once"),
        siege.play(*collect),
    ]


def by_agent(siege: Siege) -> Told:
    """The run agent and the services begin again, and root looks after what fills the disk."""
    units = "tpu-fleet-run@hers tpu-fleet-run@asks tpu-fleet-tensorboard-hers tpu-fleet-disk-guard"
    began = time.monotonic()
    try:
        siege.machine.root(
            f"for unit in {units}; do timeout 60 systemctl restart $unit || true; done; "
            "timeout 60 systemctl reload tpu-fleet-run@hers || true; "
            # Time for an attempt or two, and for what looks at a run that hangs.
            "timeout 30 /usr/local/bin/tpu-fleet-run check hers || true",
            limit=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{units} hang") from None
    siege.slowest = max(siege.slowest, (time.monotonic() - began, units))
    status = siege.fleet.status(HOST, "hers")
    siege.said.append(json.dumps(status))
    # Whatever her files are, root's agent stays, and says how her run is.
    agents = siege.machine.root(
        "systemctl show -p ActiveState -p NRestarts tpu-fleet-run@hers tpu-fleet-run@asks"
    )
    assert sorted(agents.split()) == ["ActiveState=active"] * 2 + ["NRestarts=0"] * 2, agents
    assert status.get("state"), status
    return []


def by_swap(siege: Siege) -> Told:
    """Root builds her environment again, and she puts a link to root's folder in its place."""
    siege.planned = siege.machine.mallory("swap")
    siege.machine.root(f"rm -f {REPORT}")
    words = shlex.join(["python3", "-I", f"{PLACE}/roles.py", REPORT, "python_env"])
    siege.machine.root(words, limit=LIMIT)
    told = siege.machine.root(f"test ! -e {REPORT} || cat {REPORT}").splitlines()
    siege.said.extend(told)
    swaps = siege.machine.root("cat /home/mallory/.stash/swaps || true").split()
    assert swaps, f"nothing was swapped\n{told}"
    siege.planned += [(path, "a swapped build") for path in swaps]
    return [(1, line) for line in told]


def by_asking(siege: Siege) -> Told:
    """Programs are asked to save, one hangs, one is shut out: by what her files say of them."""
    machine, runs = siege.machine, ("hers", "asks")
    machine.root("systemctl restart tpu-fleet-run@hers tpu-fleet-run@asks")
    # Root fetches a secret for it, while her folders of Python's modules are where they belong.
    machine.root("timeout 60 systemctl restart tpu-fleet-tensorboard-hers || true")
    for run in runs:
        wait_until(f"{run} runs", lambda run=run: attempt_of(siege, run), 120)
    asked = {run: told_of(siege, run, "checkpoint-asked") for run in runs}
    hung = told_of(siege, "asks", "hang")
    siege.planned = machine.mallory("misname")
    announced = siege.command("tpu-fleet", "cloud", "schedule-maintenance", HOST, "--in", "20000")
    assert announced[0] == 0, announced
    for run in runs:
        # What she did before are failures: her next attempt may begin after a minute only.
        wait_until(
            f"{run} is asked",
            lambda run=run: told_of(siege, run, "checkpoint-asked") > asked[run],
            120,
        )
    wait_until("asks hangs", lambda: told_of(siege, "asks", "hang") > hung, 120)
    agent = machine.root("systemctl show -P MainPID tpu-fleet-run@hers")
    victim = str(siege.fleet.status(HOST, "count")["pid"])
    siege.planned += machine.mallory("fence", victim)

    def shut_out() -> bool:
        return "checkpoint folder" in json.dumps(siege.fleet.status(HOST, "hers"))

    wait_until("hers is shut out", shut_out, 120)
    shown = machine.root("systemctl show -P MainPID tpu-fleet-run@hers")
    assert shown == agent, f"the unit's main process was {agent}, is {shown}, alice's is {victim}"
    return []


# Carol has no tmux and no program, and /tmp is as the boot of the machine leaves it.
AS_AT_BOOT = f"""
systemctl stop tpu-fleet-run@chips
runuser -u carol -- tmux kill-server || true
pkill -KILL -u carol tmux || true
rm -rf /tmp/tmux-{CAROL}
systemd-tmpfiles --create
"""
MONITORING = 8431
"""The port of libtpu, and on machines of the local cloud that of a process that holds a chip."""
CAROLS = "tpu-fleet-tensorboard-carols"


def by_holding(siege: Siege) -> Told:
    """She holds each lock, name, port that she can take, while others begin and root applies."""
    machine, told, wrong = siege.machine, [], []
    machine.root(AS_AT_BOOT)
    siege.held = machine.mallory("hold", str(BOARD), str(MONITORING))
    machine.root(f"systemctl restart {CAROLS}; systemctl start tpu-fleet-run@chips")

    def applied() -> None:
        told.extend(by_host(siege))

    def watched() -> None:
        told.append(siege.command("tpu-fleet", "watch", "run", "--once"))
        assert "not accepted" not in told[-1][1], told[-1][1]

    def listed() -> None:
        found = siege.fleet.report("tpu-fleet", "runs", "--json", limit=LIMIT)["runs"]
        assert {row["run"]: row["state"] for row in found}.get("count") == "running", found

    def served_by_carol() -> None:
        answer = wait_until("carol's board", lambda: served(siege), 60)
        assert answer == f"served by user {CAROL}", answer

    def carol_trains() -> None:
        wait_until("carol's run", lambda: runs(siege, "chips"), 60)

    def carol_waits_for_a_port() -> None:
        machine.root("systemctl stop tpu-fleet-run@chips")
        siege.held += machine.mallory("listen", str(PORT + 1))
        machine.root("systemctl start tpu-fleet-run@chips")
        named = re.compile(rf"port {PORT + 1}\b.*mallory")
        wait_until("the port is named", lambda: named.search(status_of(siege, "chips")), 60)
        machine.mallory("release")
        wait_until("carol's run", lambda: runs(siege, "chips"), 120)

    for step in (
        *(applied, watched, listed, served_by_carol),
        *(carol_trains, carol_waits_for_a_port),
    ):
        try:
            step()
        except AssertionError as error:
            wrong.append(f"{step.__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    return told


def served(siege: Siege) -> str:
    """Return what a user of the machine reads at the port of carol's board."""
    return siege.machine.root(f"curl -s -m 5 http://127.0.0.1:{BOARD}/ || true")


def status_of(siege: Siege, run: str) -> str:
    return json.dumps(siege.fleet.status(HOST, run))


def runs(siege: Siege, run: str) -> bool:
    return siege.fleet.status(HOST, run).get("state") == "running"


def by_stopping(siege: Siege) -> Told:
    """Each program that builds her environment is stopped as it begins."""
    siege.planned = siege.machine.mallory("stop")
    siege.machine.root(f"rm -f {REPORT}")
    words = shlex.join(["python3", "-I", f"{PLACE}/roles.py", REPORT, "python_env"])
    began = time.monotonic()
    try:
        siege.machine.root(words, limit=LIMIT)
    except subprocess.TimeoutExpired:
        raise AssertionError("python_env waits for a stopped build") from None
    finally:
        stopped = siege.machine.root("wc -l < /home/mallory/.stash/stopped || echo 0")
        siege.machine.mallory("release")
    siege.slowest = max(siege.slowest, (time.monotonic() - began, "python_env, a stopped build"))
    told = siege.machine.root(f"test ! -e {REPORT} || cat {REPORT}").splitlines()
    siege.said.extend(told)
    assert int(stopped), f"nothing was stopped\n{told}"
    assert "no progress" in "".join(told), told
    return [(1, line) for line in told]


def attempt_of(siege: Siege, run: str) -> int:
    status = siege.fleet.status(HOST, run)
    return int(status["attempt"]) if status.get("state") == "running" and status.get("pid") else 0


def told_of(siege: Siege, run: str, event: str) -> int:
    """Count the events of a kind, also those that the run's log did not take yet."""
    events = f"cat /{{var/log,run}}/tpu-fleet/runs/{run}/events.jsonl 2>/dev/null"
    return int(siege.machine.root(f'{events} | grep -c \'"event":"{event}"\' || true'))


def by_maintenance(siege: Siege) -> Told:
    """It was announced before; the machine reboots."""
    done = siege.command("tpu-fleet", "cloud", "maintain", HOST, "--wait")
    assert done[0] == 0, done
    siege.fleet.play("tpu.fleet.ssh_config")
    return []


WAYS: dict[str, Callable[[Siege], Told]] = {
    "roles 1": by_roles,
    "looking": by_looking,
    "roles 2": by_roles,
    "push": by_push,
    "agent 1": by_agent,
    "host": by_host,
    "timer": by_timer,
    "reprovision": by_reprovision,
    "swap": by_swap,
    "holding": by_holding,
    "stopping": by_stopping,
    "asking": by_asking,
    "maintenance": by_maintenance,
}
# In these every other file is replaced by the same kind.
OFTEN = {
    "push": "a pipe",
    "host": "a link to /dev/zero",
    "reprovision": "a link to root's secret",
    "maintenance": "a link to root's folder",
}
# In these nothing is replaced before: it would keep them from what they are about.
WHOLE = ("swap", "asking", "holding", "stopping")


# What the other ways do not attack in CI, the stage siege does.
AT_NIGHT = ("roles 2", "push", "host", "timer", "reprovision", "stopping", "asking", "maintenance")


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=[pytest.mark.night] if way in AT_NIGHT else []) for way in WAYS],
)
def test_mallory_gets_nowhere(siege: Siege, way: str) -> None:
    machine, fleet = siege.machine, siege.fleet
    before = alice(fleet)
    machine.look("remember")
    siege.said.clear()
    siege.planned, siege.held = [], []
    planted = machine.mallory("plant")
    siege.planted += len(planted)
    replaced: list[tuple[str, str]] = []
    if way not in WHOLE:
        paths = json.dumps(machine.look("hers"))
        often = [OFTEN[way]] if way in OFTEN else []
        replaced = machine.mallory("replace", f"{SEED} {way}", *often, given=paths)
    wrong, told = [], []
    try:
        try:
            told = WAYS[way](siege)
        except AssertionError as error:
            wrong.append(str(error))
        replaced += siege.planned
        wrong += machine.look("left")
        wrong += machine.look("compare")
        wrong += {
            f"ran as somebody else: {line}"
            for line in machine.who_ran()
            if line.split()[0] != str(MALLORY)
        }
    finally:
        machine.mallory("release")
        machine.mallory("restore")
        # What was begun as hers meanwhile may be a program that sleeps, or one that reads for ever.
        machine.root("systemctl restart tpu-fleet-tensorboard-hers tpu-fleet-run@{hers,asks}")
    siege.rounds += 1
    siege.cases += len(replaced) + len(siege.held)
    wrong += what_of_alice(fleet, before, reboots=way == "maintenance")
    paths = [*planted, *(path for path, _kind in replaced)]
    for code, text in told:
        if odd := UNEXPECTED.search(text):
            wrong.append(f"{odd[0]}:\n{text}")
        elif code and not names_one(text, paths):
            wrong.append(f"no file of hers is named ({code}):\n{text}")
    if "SECRET-OF-ROOT" in "".join(siege.said):
        wrong.append("a secret of root's is shown")
    # Some are gigabytes of zeros, each of which ends a line for grep.
    search = ("grep", "-rlazF", "SECRET-OF-ROOT", str(siege.folder))
    brought = subprocess.run(search, stdout=subprocess.PIPE, text=True, check=False)
    assert brought.returncode in (0, 1), brought
    wrong += [f"{path}: a secret of root's" for path in brought.stdout.splitlines()]
    # At once, for who waits for it with `pytest -s`: the other rounds take minutes.
    print(f"\n{way}:", *wrong, sep="\n", flush=True)
    what = "\n".join(f"{path}: {kind}" for path, kind in replaced)
    assert not wrong, "\n".join(["", *wrong, "", "What was replaced:", what])


def what_of_alice(fleet: Fleet, before: dict[str, Any], reboots: bool) -> list[str]:
    """Say what is wrong with alice's run: it goes on, and its attempt is the same one."""
    try:
        if reboots:
            now = wait_until("alice's run is back", lambda: alice(fleet), 180)
            good = now["attempt"] == before["attempt"] + 1
        else:
            now = alice(fleet)
            good = all(now.get(name) == before[name] for name in ("attempt", "pid"))
        further = before["step"] + 2
        wait_until("alice's next step", lambda: fleet.steps(HOST, "count") > further, 60)
    except AssertionError as error:
        return [str(error)]
    return [] if good else [f"alice's run was {before}, is {now}"]


def alice(fleet: Fleet) -> dict[str, Any]:
    """Return how alice's run is, if it runs."""
    status = fleet.status(HOST, "count")
    if status.get("state") != "running" or not status.get("pid"):
        return {}
    return {**status, "step": fleet.steps(HOST, "count")}


def names_one(text: str, paths: list[str]) -> bool:
    """Say whether an error names one of the paths, or a file above or below one of them."""
    flat = re.sub(r"\s+", " ", text).replace("~/", "/home/mallory/")
    # Her environment and her tree are links to these, and are told of by their own names.
    behind = re.compile(r"/\.(?:(venv)-[0-9a-f]+|(tree)\.releases/[^/]+)(?=/|$)")
    paths = [*paths, *(behind.sub(lambda link: "/" + (link[1] or link[2]), p) for p in paths)]
    # A build that stands is told of by the environment and the process.
    if re.search("environment '+hers'+.*process [0-9]+ was stopped by a signal", flat):
        return True
    named = {found.rstrip("/.:)]\\") for found in HERS.findall(flat)}
    return any(path in flat for path in paths) or any(
        path.startswith(one + "/") for one in named for path in paths
    )


def test_all_is_well_again_when_it_is_put_back(
    siege: Siege, capsys: pytest.CaptureFixture[str]
) -> None:
    siege.machine.mallory("unplant")
    everything_succeeds(siege, "host")
    assert siege.cases >= 300
    took, what = siege.slowest
    with capsys.disabled():
        # scripts/run_tests.py shows it.
        print(
            f"\nnote: hostile user: {siege.cases} cases in {siege.rounds} rounds, beside "
            f"{siege.planted // siege.rounds} planted files, seed {SEED}; "
            f"the slowest took {took:.0f} s: {what}"
        )


# A push of all roles is 40 CPU seconds. In CI the machine applies them itself, in the test above.
@pytest.mark.night
def test_all_is_well_by_push_too(siege: Siege) -> None:
    everything_succeeds(siege, "push")


def everything_succeeds(siege: Siege, apply: str) -> None:
    declare(siege, apply)
    recap = changes(siege.fleet.play("site.yml", *EVERYTHING))
    assert recap[HOST][1:] == (0, 0)
