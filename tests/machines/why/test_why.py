"""Ten hangs on four machines, and a run that is healthy: what `tpu-fleet why` says of each.

`.venv/bin/pytest tests/machines/why`. The programs are those of tests/support/hangs.py; what is
done to the machines is real: a full file system, a firewall, a stopped process, an agent that is
away, a core of the local cloud's chips that stands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hangs
import pytest
from fleet import NOTHING, Fleet, wait_until

POD = "pod"
WORKERS = range(4)
WANTED = {**hangs.WANTED, "stuck_core": hangs.STUCK_CORE, "blocked_port": ("blocked_port", (2,))}
SMALL = "/home/alice/saved"
LONGEST = 10.0
"""Seconds that an answer may take."""
QUIET = 25.0
"""Seconds after which a run with steps of less than two seconds counts as quiet, and some more."""


def run_of(kind: str) -> dict[str, Any]:
    """Declare a run, whose program begins when it is let go."""
    name = kind.replace("_", "-")
    return {
        "name": name,
        "slices": [POD],
        "user": "alice",
        "code": "hangs",
        "needs_tpu": False,
        "command": f"while [ ! -e ~/go ]; do sleep 0.3; done; exec python3 -u ~/{kind}/train.py",
        "env": {
            "HANG": kind,
            "WHERE": str(WANTED[kind][1][0]) if WANTED[kind][1] else "",
            "STEP_SECONDS": "0.2",
            **({"SAVE_IN": SMALL} if kind == "full_disk" else {}),
        },
        **({"checkpoint_dir": SMALL} if kind == "full_disk" else {}),
    }


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    code = tmp_path_factory.mktemp("code")
    hangs.write(code)
    chips = {"local-cloud-chips": "2"}
    declared = {
        **NOTHING,
        "fleet_slices": [
            {
                "name": POD,
                "accelerator_type": "v4-32",
                "zone": "us-central2-b",
                "metadata": chips,
            }
        ],
        "fleet_base_packages": ["sudo", "tmux", "tzdata", "iptables"],
        "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
        "fleet_code": [{"name": "hangs", "user": "root", "local_path": str(code)}],
        "fleet_runs": [run_of(kind) for kind in WANTED],
    }
    made = Fleet(tmp_path_factory.mktemp("why"), declared)
    made.up("--speed", "10")
    try:
        made.run("ansible-playbook", "tpu.fleet.site", limit=3600)
        begin(made)
        yield made
    finally:
        made.down()


def root(fleet: Fleet, worker: int, script: str) -> str:
    words = f"sudo bash <<'END'\nset -eu\n{script}\nEND"
    return fleet.ssh(f"{POD}-w{worker}", words).strip()


def begin(fleet: Fleet) -> None:
    """Let all programs go, on machines that are made as each hang needs it."""
    for worker in WORKERS:
        copies = [f"cp -rL /opt/tpu-fleet/code/hangs /home/alice/{kind}" for kind in WANTED]
        root(fleet, worker, "\n".join((*copies, "chown -R alice: /home/alice")))
        wait_until(f"all run on worker {worker}", lambda at=worker: all_run(fleet, at), 300)
    odd = "/home/alice/other_version/site-packages/jax-"
    older = f"mv {odd}0.12.0.dist-info {odd}0.11.0.dist-info"
    words = f"sed -i s/0.12.0/0.11.0/ {odd}0.11.0.dist-info/METADATA"
    root(fleet, WANTED["other_version"][1][0], f"{older}; {words}")
    small = f"mount -t tmpfs -o size=64m,mode=0777 tmpfs {SMALL}"
    root(fleet, WANTED["full_disk"][1][0], f"mkdir -p {SMALL}; {small}")
    port = definition(fleet, "blocked-port")["coordinator_port"]
    address = definition(fleet, "blocked-port")["hosts"][WANTED["blocked_port"][1][0]]
    root(fleet, 0, f"iptables -A INPUT -p tcp --dport {port} -s {address} -j DROP")
    unit = "tpu-fleet-run@never-starts"
    # With its program, which has not begun. The unit is in /etc, where no mask of /run counts.
    away = f"/run/systemd/system/{unit}.service.d"
    condition = (
        f"mkdir -p {away}; printf '[Unit]\\nConditionPathExists=/nowhere\\n' > {away}/a.conf"
    )
    gone = f"{condition}; systemctl daemon-reload; systemctl kill -s KILL {unit}"
    root(fleet, WANTED["never_starts"][1][0], gone)
    for worker in WORKERS:
        root(fleet, worker, "touch /home/alice/go")
    wait_until("steps", lambda: fleet.status(f"{POD}-w0", "stuck-core").get("step"), 120)
    fault = ("core_stuck", "--match", f"node={POD}", "--match", "worker=1", "--option", "core=1")
    fleet.run("tpu-fleet", "cloud", "fault", "add", *fault)
    for worker in WORKERS:
        root(fleet, worker, "touch /home/alice/stuck")
    root(fleet, WANTED["stopped"][1][0], "pkill -STOP -f '^python3 -u .*/stopped/train.py'")
    time.sleep(QUIET)


def definition(fleet: Fleet, run: str) -> dict[str, Any]:
    """Return the definition of a run on worker 0."""
    found: dict[str, Any] = json.loads(root(fleet, 0, f"cat /etc/tpu-fleet/runs/{run}.json"))
    return found


def all_run(fleet: Fleet, worker: int) -> bool:
    found = fleet.statuses(f"{POD}-w{worker}").values()
    return [one.get("state") for one in found] == ["running"] * len(WANTED)


@pytest.mark.parametrize("kind", WANTED)
def test_the_worker_and_the_cause_are_named(fleet: Fleet, tmp_path: Path, kind: str) -> None:
    words = ("tpu-fleet", "why", kind.replace("_", "-"), "--json", "-o", str(tmp_path / "seen"))
    begun = time.monotonic()
    told = fleet.report(*words)
    took = time.monotonic() - begun
    (found,) = told["verdicts"]
    cause, where = WANTED[kind]
    print(f"{kind} in {took:.1f} s: {found['sentence']}")
    said = (found["cause"], found["workers"])
    assert said == (cause, [f"{POD}-w{one}" for one in where]), json.dumps(told, indent=2)
    assert took < LONGEST
