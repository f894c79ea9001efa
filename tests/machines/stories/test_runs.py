"""What a training run promises, on one machine: it needs no care.

The programs are small and never save by themselves: what they go on from they wrote when they were
asked to end. `.venv/bin/pytest tests/machines/stories/test_runs.py`
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import NOTHING, ROOT, Fleet, changes, wait_until, what_changed_but_notes

# In CI tests/machines/e2e kills and reboots the runs of machines, and tests/cloud/run_agent has the
# run agent as processes.
pytestmark = pytest.mark.night

HOST = "solo"
COUNT = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"])
saved = folder / "step"
step = int(saved.read_text()) if saved.exists() else 0
print("attempt", os.environ["TPU_FLEET_ATTEMPT"], "of", sys.argv[1], "begins after", step)
def save(number, frame):
    saved.with_suffix(".new").write_text(str(step))
    saved.with_suffix(".new").replace(saved)
    print("signal", number, "saved", step)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
while not (folder / "over").exists():
    # A signal that comes between the two waits: no step is counted and not shown.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    step += 1
    print("step", step)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    time.sleep(0.1)
"""
BUG = """
import os
def loss(batch):
    raise ValueError("nan in attempt " + os.environ["TPU_FLEET_ATTEMPT"])
loss([])
"""
# As Orbax does, by Python's own library and with nothing but the environment that the agent gives.
SAVES = """
import json, os, time, urllib.error, urllib.parse, urllib.request
account = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
store = "https://storage.googleapis.com/upload/storage/v1"
bucket, _, folder = os.environ["TPU_FLEET_CHECKPOINT_DIR"][len("gs://"):].partition("/")
def ask(url, data=None, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, data, headers)).read()
token = json.loads(ask(account + "/token", **{"Metadata-Flavor": "Google"}))["access_token"]
def save(name):
    query = urllib.parse.urlencode({"uploadType": "media", "name": folder + "/" + name})
    where = f"{store}/b/{bucket}/o?{query}"
    while True:
        try:
            return ask(where, b"0123456789", Authorization="Bearer " + token)
        except urllib.error.HTTPError as error:
            print("refused with", error.code)
            time.sleep(1)
print("authorities in", os.environ.get("REQUESTS_CA_BUNDLE"))
for name in ("100/_CHECKPOINT_METADATA", "100/d/0", "100/commit_success.txt", "200/d/0"):
    save(name)
print("saved")
time.sleep(100000)
"""
# Each machine's lines are known by its boot.
TALKS = """
import pathlib, time
boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
pathlib.Path("plots").mkdir(exist_ok=True)
pathlib.Path("plots/curve").write_text(boot)
for step in range(10**9):
    print("boot", boot, "says", step)
    time.sleep(0.2)
"""
FOLDER = "/home/alice/checkpoints/count"
OWNERS = {"pictures": "alice", "words": "bob"}
CHIP = "/dev/accel0"
# Holds the chip as libtpu does: by having its device open.
HOLD = f"exec 9<{CHIP}; while [ ! -e ~/over ]; do sleep 0.2; done"


def python(program: str, *words: str) -> str:
    return shlex.join(["exec", "python3", "-uc", program, *words])


HAS_A_BUG = {
    "name": "bug",
    "slices": [HOST],
    "user": "bob",
    "command": python(BUG),
    "needs_tpu": False,
}


def count(name: str) -> dict[str, Any]:
    return {
        "name": "count",
        "slices": [HOST],
        "user": "alice",
        "command": python(COUNT, name),
        "checkpoint_dir": FOLDER,
        "needs_tpu": False,
    }


def declared(*runs: dict[str, Any], told: Path) -> dict[str, Any]:
    return {
        **NOTHING,
        "fleet_slices": [{"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"}],
        # What the role of the runs needs, and no more.
        "fleet_base_packages": ["sudo", "tmux", "tzdata"],
        "fleet_users": [
            {"name": name, "uid": uid, "keys": ["{{ fleet_ssh_public_key }}"]}
            for name, uid in (("alice", 2001), ("bob", 2002))
        ],
        "fleet_notify": [{"command": f"cat >> {told}; echo >> {told}"}],
        # So small that the log is put aside all the time, and nothing of it is dropped.
        "fleet_run_log_size": "2KiB",
        "fleet_run_log_files": 500,
        "fleet_runs": list(runs),
    }


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file to which all messages for people go."""
    return tmp_path_factory.mktemp("told") / "messages"


@pytest.fixture(scope="module")
def fleet(_cloud: Fleet, told: Path) -> Iterator[Fleet]:
    """The machine, on which a program counts."""
    with _cloud.holding(declared(count("one"), told=told)) as fleet:
        yield fleet


def root(fleet: Fleet, script: str) -> str:
    return fleet.ssh(HOST, f"sudo bash <<'END'\nset -eu\n{script}\nEND").strip()


def wait_for(fleet: Fleet, run: str, limit: float = 180, **wanted: Any) -> dict[str, Any]:
    """Wait until the agent says these things of a run."""

    def look() -> dict[str, Any] | None:
        status = fleet.status(HOST, run)
        return status if all(status.get(key) == value for key, value in wanted.items()) else None

    return wait_until(f"{run}: {wanted}", look, limit)


def wait_running(fleet: Fleet, run: str, attempt: int) -> dict[str, Any]:
    """Wait until the program of an attempt is there."""

    def look() -> dict[str, Any] | None:
        status = fleet.status(HOST, run)
        there = (status.get("state"), status.get("attempt")) == ("running", attempt)
        return status if there and status["pid"] else None

    return wait_until(f"attempt {attempt} of {run}", look, 180)


def whole_log(fleet: Fleet, run: str, name: str = "run.log") -> str:
    """Return a log with all that was put aside of it, as it is on the machine."""
    files = f"ls -v -r {name}*"
    # Another file may be put aside at any moment: then what was read has gaps or says things twice.
    script = f'until a=$({files}) && text=$(cat $a) && [ "$a" = "$({files})" ]; do :; done'
    return root(fleet, f'cd /var/log/tpu-fleet/runs/{run}; {script}; echo "$text"') + "\n"


def steps(log: str) -> list[int]:
    return [int(number) for number in re.findall(r"^step (\d+)$", log, re.M)]


def goes_on_where_it_was(log: str, attempt: int) -> None:
    """The one before wrote it down when asked to save, and only then did this one begin."""
    begins = rf"(?:^--- .*\n)*^attempt {attempt} of two begins after (\d+)$"
    found = re.search(rf"^signal 15 saved (\d+)\n{begins}", log, re.M)
    assert found, log[-2000:]
    assert found[1] == found[2] != "0"


def events(fleet: Fleet, run: str, *names: str) -> list[dict[str, Any]]:
    lines = whole_log(fleet, run, "events.jsonl").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] in names]


def rows(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return what `tpu-fleet runs` prints, by run."""
    return {row["run"]: row for row in fleet.report("tpu-fleet", "runs", "--json")["runs"]}


def messages_in(told: Path) -> list[dict[str, Any]]:
    """Return all messages to people."""
    return [json.loads(line) for line in told.read_text().splitlines() if line]


def test_the_same_again_leaves_the_program_alone(fleet: Fleet) -> None:
    before = wait_running(fleet, "count", attempt=1)
    # As everybody does; and with the role of the runs, whatever is known.
    for words in (("site.yml",), ("tpu.fleet.train", "-e", "fleet_apply_everything=true")):
        output = fleet.play(*words)
        # A role for which nothing is declared notes the first time that it was applied.
        assert what_changed_but_notes(output) == "", output
        assert changes(output)[HOST][1:] == (0, 0), output
        assert ("training_run" in output) is (len(words) > 1)
        after = fleet.status(HOST, "count")
        assert [after[key] for key in ("pid", "agent_pid", "attempt")] == [
            before[key] for key in ("pid", "agent_pid", "attempt")
        ]
    root(fleet, f"kill -0 {before['pid']}")


def test_another_command_goes_on_where_the_old_one_saved(fleet: Fleet, told: Path) -> None:
    before = fleet.status(HOST, "count")
    fleet.declare(declared(count("two"), told=told))
    fleet.play("site.yml")
    wait_running(fleet, "count", attempt=2)
    log = wait_until("its first steps", lambda: begun(fleet, 2), 60)
    goes_on_where_it_was(log, attempt=2)
    ended = fleet.status(HOST, "count")["history"][0]
    assert (ended["exit_code"], ended["cause"]) == (0, "the definition changed")
    root(fleet, f"! kill -0 {before['pid']} 2> /dev/null")


def test_a_program_with_a_bug_is_told_of_once(fleet: Fleet, told: Path) -> None:
    # Who watches knows the fleet; what had failed before there was a watcher is no news.
    fleet.run("tpu-fleet", "watch", "run", "--once")
    assert not told.exists()
    before = fleet.status(HOST, "count")
    fleet.declare(declared(count("two"), HAS_A_BUG, told=told))
    fleet.play("site.yml")
    failed = wait_for(fleet, "bug", state="failed")
    assert failed["attempt"] == 4
    for _ in range(2):
        fleet.run("tpu-fleet", "watch", "run", "--once")
    messages = messages_in(told)
    assert [message["event"] for message in messages] == ["failed"], messages
    assert (messages[0]["run"], messages[0]["slice"]) == ("bug", HOST)
    # The agent's own line says how it ended.
    log = [line for line in messages[0]["log"] if not line.startswith("--- tpu-fleet ")]
    assert log[-1] == "ValueError: nan in attempt 4", messages
    assert log[-4] == "Traceback (most recent call last):"

    # Each time it was given longer; and when it was over, it was over.
    started = events(fleet, "bug", "attempt-started")
    ended = events(fleet, "bug", "attempt-ended")
    assert [event["attempt"] for event in started] == [1, 2, 3, 4]
    assert [event["exit_code"] for event in ended] == [1, 1, 1, 1], ended
    # At least these seconds, on however fast a computer.
    pauses = [b["at"] - a["at"] for a, b in zip(ended, started[1:], strict=False)]
    assert all(pause >= 2**n for n, pause in enumerate(pauses, 1)), pauses
    assert len(events(fleet, "bug", "run-failed")) == 1
    # The machine has something better to do.
    root(fleet, "systemctl is-active tpu-fleet-run@count tpu-fleet-run@bug")
    after = fleet.status(HOST, "count")
    assert (after["pid"], after["attempt"]) == (before["pid"], before["attempt"])


def test_two_people_want_the_tpu_and_somebody_has_it(fleet: Fleet, told: Path) -> None:
    # The local cloud has no chips: a file where the agent looks for the device of the first one.
    root(fleet, f"touch {CHIP}; chmod 666 {CHIP}")
    stray = f"systemd-run --quiet --unit=stray --uid=bob sh -c 'exec 9<{CHIP}; exec sleep 100000'"
    root(fleet, stray)
    pid = root(fleet, "systemctl show --property=MainPID --value stray")
    runs = [
        {"name": name, "slices": [HOST], "user": user, "command": HOLD, "retries": 0}
        for name, user in OWNERS.items()
    ]
    fleet.declare(declared(count("two"), HAS_A_BUG, *runs, told=told))
    fleet.play("site.yml")
    # Nobody is killed for it. Who has it is said to whoever looks, and to whoever waits.
    refused = f"{CHIP} is held by process {pid} (sleep) of bob"
    seen = wait_until(
        "the refusal",
        lambda: (now := rows(fleet)) and any(refused in str(now[r]) for r in OWNERS) and now,
        60,
    )
    assert {seen[run]["state"] for run in OWNERS} == {"pending"}
    assert refused in " ".join(fleet.run("tpu-fleet", "runs").split())
    root(fleet, "systemctl stop stray")

    first = wait_until("the first", lambda: the_running_one(rows(fleet)), 120)
    second = next(run for run in OWNERS if run != first)
    wanted = f"{first} of {OWNERS[first]}"
    now = wait_until(
        "the second waits",
        lambda: (now := rows(fleet)[second])["waits_for"] == wanted and now,
        60,
    )
    assert now["state"] == "pending"
    assert f"waits for {wanted}" in fleet.run("tpu-fleet", "runs", second)
    root(fleet, f"touch ~{OWNERS[first]}/over")
    wait_for(fleet, first, state="succeeded")
    wait_running(fleet, second, attempt=1)
    assert rows(fleet)[second]["waits_for"] in (None, "")
    root(fleet, f"touch ~{OWNERS[second]}/over")
    wait_for(fleet, second, state="succeeded")
    # They had it one after the other.
    times = [events(fleet, run, "attempt-started", "attempt-ended") for run in (first, second)]
    assert times[0][1]["at"] <= times[1][0]["at"]
    assert wait_running(fleet, "count", attempt=2)


def the_running_one(found: dict[str, dict[str, Any]]) -> str | None:
    running = [run for run in OWNERS if found[run]["state"] == "running"]
    assert len(running) < 2, found
    return running[0] if running else None


def test_without_a_controller_a_reboot_is_nothing(fleet: Fleet, told: Path) -> None:
    before = fleet.status(HOST, "count")
    fleet.run("tpu-fleet", "cloud", "reboot", HOST)
    after = wait_running(fleet, "count", attempt=before["attempt"] + 1)
    assert after["boot_id"] != before["boot_id"]
    assert after["run_id"] == before["run_id"]
    log = wait_until("its first steps", lambda: begun(fleet, after["attempt"]), 60)
    goes_on_where_it_was(log, after["attempt"])
    # What had ended has ended.
    ended = fleet.statuses(HOST)
    assert {(ended[run]["state"], ended[run]["attempt"]) for run in OWNERS} == {("succeeded", 1)}
    assert (ended["bug"]["state"], ended["bug"]["attempt"]) == ("failed", 4)
    # Whoever looks again finds no news in it.
    fleet.run("tpu-fleet", "watch", "run", "--once")
    assert [one["run"] for one in messages_in(told) if one["event"] == "failed"] == ["bug"]


def begun(fleet: Fleet, attempt: int) -> str | None:
    """Return the log when an attempt of the counting program has begun."""
    log = whole_log(fleet, "count")
    return log if f"attempt {attempt} of two begins" in log else None


def test_every_line_is_shown_once_whatever_address_the_machine_gets(
    fleet: Fleet, tmp_path: Path
) -> None:
    shown, said = tmp_path / "shown", tmp_path / "said"
    words = ("tpu-fleet", "logs", "-f", "count")
    with shown.open("w") as out, said.open("w") as err:
        follower = subprocess.Popen(
            words, cwd=ROOT, env=fleet.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
    try:
        wait_until("the log", lambda: len(steps(shown.read_text())) > 20, 60)
        address = fleet.cloud()[HOST]["workers"][0]["external_ip"]
        attempt = fleet.status(HOST, "count")["attempt"]
        fleet.run("tpu-fleet", "cloud", "maintain", HOST, "--wait")
        assert fleet.cloud()[HOST]["workers"][0]["external_ip"] != address
        # It finds the way by itself; so do we, by the ssh configuration that it wrote.
        begins = f"attempt {attempt + 1} of two begins after"
        wait_until("the next attempt", lambda: begins in shown.read_text(), 180)
        known = len(steps(shown.read_text()))
        wait_until("more of it", lambda: len(steps(shown.read_text())) > known + 20, 60)
        wait_running(fleet, "count", attempt=attempt + 1)
        root(fleet, f"touch {FOLDER}/over")
        assert follower.wait(120) == 0, said.read_text()
    finally:
        follower.terminate()
        follower.wait(60)
    log = whole_log(fleet, "count")
    assert shown.read_text() == log, said.read_text()
    # The program saved before the machine went down, so it counted as if nothing had happened.
    assert steps(log) == list(range(1, steps(log)[-1] + 1))
    assert f"count succeeded on {HOST}." in said.read_text()


def test_a_stopped_run_stays_stopped_when_its_slice_is_created_again(
    fleet: Fleet, told: Path
) -> None:
    kept = {**count("kept"), "name": "kept", "checkpoint_dir": "/home/alice/checkpoints/kept"}
    fleet.declare(declared(kept, told=told))
    fleet.play("tpu.fleet.site")
    wait_running(fleet, "kept", attempt=1)
    assert "stopped" in fleet.run("tpu-fleet", "stop", "kept")
    fleet.run("tpu-fleet", "cloud", "preempt", HOST)
    output = fleet.play("tpu.fleet.site")
    assert re.search(r"kept.*stopped it.*tpu-fleet start kept", " ".join(output.split())), output
    [row] = fleet.report("tpu-fleet", "runs", "kept", "--json")["runs"]
    assert (row["state"], row["attempt"]) == ("stopped", 0)
    # It was new there once: another apply leaves it as it is.
    assert "training_run" not in what_changed_but_notes(fleet.play("tpu.fleet.site"))
    fleet.run("tpu-fleet", "start", "kept")
    wait_running(fleet, "kept", attempt=1)
    assert json.loads((fleet.folder / "state" / "stopped.json").read_text()) == {}


def test_checkpoints_are_written_to_a_bucket_by_its_real_name_and_seen(
    fleet: Fleet, told: Path
) -> None:
    url = f"http://127.0.0.1:{fleet.port}/storage/v1/b"
    requests.post(url, json={"name": "lab-saves"}, timeout=30).raise_for_status()
    policy = requests.get(f"{url}/lab-saves/iam", timeout=30).json()["bindings"]
    allow(f"{url}/lab-saves", [])
    saves = {
        **count("saves"),
        "name": "saves",
        "command": python(SAVES),
        "checkpoint_dir": "gs://lab-saves/digits",
    }
    fleet.declare(declared(saves, told=told))
    fleet.play("site.yml")
    # An account without a role: no attempt begins without its fence, and the run says why.
    why = wait_until("the role", lambda: _with_role(fleet.status(HOST, "saves")), 180)
    assert "the fence gs://lab-saves/digits/.tpu-fleet-attempt.saves" in why
    assert rows(fleet)["saves"]["seconds_since_checkpoint"] is None
    allow(f"{url}/lab-saves", policy)
    wait_running(fleet, "saves", attempt=1)
    wait_until("a checkpoint", lambda: saved(rows(fleet)["saves"]), 400)
    status = fleet.status(HOST, "saves")
    # The time of the mark, by the cloud's clock.
    mark = requests.get(f"{url}/lab-saves/o/digits%2F100%2Fcommit_success.txt", timeout=30).json()
    at = datetime.fromisoformat(mark["updated"]).timestamp()
    assert status["saved_at"] == pytest.approx(at, abs=0.002)
    assert (status["bucket"]["name"], status["bucket"]["step"]) == ("100", 100)
    assert status["bucket"]["bytes"] == 30
    wait_until("no problem", lambda: not rows(fleet)["saves"]["problems"], 90)
    log = whole_log(fleet, "saves")
    assert "authorities in /etc/ssl/certs/ca-certificates.crt" in log
    assert "saved" in log.splitlines()


def _with_role(status: dict[str, Any]) -> str:
    reason = str(status.get("reason", ""))
    return reason if "roles/storage.objectViewer" in reason else ""


def allow(bucket: str, bindings: list[dict[str, Any]]) -> None:
    """Give a bucket another policy."""
    answer = requests.put(f"{bucket}/iam", json={"bindings": bindings}, timeout=30)
    answer.raise_for_status()


def saved(row: dict[str, Any]) -> bool:
    return row["seconds_since_checkpoint"] is not None


def test_a_log_outlives_its_slice(fleet: Fleet, told: Path, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{fleet.port}/storage/v1/b"
    requests.post(url, json={"name": "lab-logs"}, timeout=30)
    talks = {
        **count("talks"),
        "name": "talks",
        "command": python(TALKS),
        "checkpoint_dir": "gs://lab-logs/talks",
        "results": ["plots"],
    }
    fleet.declare(declared(talks, told=told))
    fleet.play("site.yml")
    wait_running(fleet, "talks", attempt=1)
    # What is on the machine half a minute before the loss is not lost.
    wait_until("some lines", lambda: said_in(whole_log(fleet, "talks")), 60)
    before = said_in(whole_log(fleet, "talks"))
    time.sleep(33)
    fleet.run("tpu-fleet", "cloud", "preempt", HOST)
    shown = said_in(fleet.run("tpu-fleet", "logs", "talks"))
    assert shown[: len(before)] == before
    (boot,) = {boot for boot, _step in shown}
    in_one_stream(shown)

    fleet.run("tpu-fleet", "fetch", "talks", "-o", str(tmp_path))
    (folder,) = (tmp_path / "talks" / HOST / "archive").iterdir()
    assert said_in((folder / "run.log").read_text()) == shown
    assert (folder / "results/plots/curve").read_text() == boot
    history = fleet.report("tpu-fleet", "history", "talks", "--json")
    (story,) = history["runs"]
    assert [one["number"] for one in story["attempts"]] == [1]
    fleet.run("tpu-fleet", "page", "-o", str(tmp_path / "page.html"))
    assert "talks" in (tmp_path / "page.html").read_text()

    # It is created again: one log, of the machine that is gone and of the one that is there.
    fleet.play("site.yml")
    wait_until("more lines", lambda: len(said_in(whole_log(fleet, "talks"))) > 20, 300)
    both = said_in(fleet.run("tpu-fleet", "logs", "talks"))
    assert both[: len(shown)] == shown
    assert len({boot for boot, _step in both}) == 2
    assert len(both) > len(shown) + 20
    in_one_stream(both)
    fleet.run("tpu-fleet", "fetch", "talks", "-o", str(tmp_path))
    assert len(list((tmp_path / "talks" / HOST / "archive").iterdir())) == 1


def said_in(log: str) -> list[tuple[str, int]]:
    """Return which boot said which step, line by line."""
    return [(boot, int(step)) for boot, step in re.findall(r"^boot (\w+) says (\d+)", log, re.M)]


def in_one_stream(said: list[tuple[str, int]]) -> None:
    """No line is missing, and none is there twice."""
    for boot in dict.fromkeys(boot for boot, _step in said):
        own = [step for one, step in said if one == boot]
        assert own == list(range(len(own))), own
