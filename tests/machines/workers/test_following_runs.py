"""`tpu-fleet runs`, `logs` and `collect` on real machines that reboot, move and are cut off."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from container_cloud import ContainerCloud, eventually

ROOT = Path(__file__).resolve().parents[3]
TPU_FLEET = Path(sys.executable).with_name("tpu-fleet")
WORKERS = 4
RUN = "digits"
STATE = f"/var/lib/tpu-fleet/runs/{RUN}"
LOG = f"/var/log/tpu-fleet/runs/{RUN}/run.log"
WRITER = "/opt/files/tpu_fleet_run.py"
# A file of the log takes about 20 lines.
WRITE = (
    f"seq -f 'line %06.0f' {{first}} {{last}} | sudo python3 {WRITER} log --file {LOG}"
    " --health /run/health.json --bytes 240 --keep 60"
)


class Lab:
    """A fleet of one slice of small machines, and the folder of its owner."""

    def __init__(self, cloud: ContainerCloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.count = dict.fromkeys(range(WORKERS), 0)
        (folder / "group_vars").mkdir(parents=True)
        described = {
            "plugin": "tpu.fleet.tpu",
            "projects": ["local-project"],
            "api_endpoint": cloud.endpoint,
            "user": "ubuntu",
        }
        (folder / "fleet.tpu.yml").write_text(json.dumps(described))
        variables = {
            "fleet_state_dir": str(folder / "state"),
            "fleet_ssh_user": "ubuntu",
            "fleet_ssh_private_key_file": str(cloud.key),
            "ansible_ssh_private_key_file": str(cloud.key),
            "fleet_runs": [
                {
                    "name": RUN,
                    "slices": ["pod"],
                    "user": "ubuntu",
                    "results": ["out", "/data/x", "to/key"],
                }
            ],
        }
        (folder / "group_vars/all.yml").write_text(json.dumps(variables))
        (folder / "state").mkdir()
        self.env = {
            **{name: value for name, value in os.environ.items() if "ANSIBLE" not in name},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(folder / "fleet.tpu.yml"),
            "TPU_FLEET_STATE_DIR": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONUNBUFFERED": "1",
        }

    def set_up(self) -> None:
        """Bring what writes logs, and say that the run runs."""
        # A file of the agent is a link here, and a plain file on machines.
        agent = self.folder / "files"
        shutil.copytree(ROOT / "roles/training_run/files", agent, dirs_exist_ok=True)
        self.run("cp", "--sudo", str(agent), ":/opt")
        for worker in range(WORKERS):
            self.status(worker)

    def run(self, *words: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Call `tpu-fleet`."""
        done = subprocess.run(
            (TPU_FLEET, *words),
            cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done

    def ssh(self, worker: int, command: str) -> str:
        """Run a command on a worker, wherever it is now."""
        return self.cloud.ssh(self.cloud.addresses("pod")[worker][1], command)

    def write(self, worker: int, lines: int) -> str:
        """Return the command with which the agent's own log writer writes more lines."""
        first = self.count[worker] + 1
        self.count[worker] += lines
        return WRITE.format(first=first, last=self.count[worker])

    def status(self, worker: int, **more: Any) -> None:
        """Write what the agent would."""
        boot = self.ssh(worker, "cat /proc/sys/kernel/random/boot_id")
        status = {
            "run": RUN, "user": "ubuntu", "state": "running", "attempt": 2, "worker": worker,
            "boot_id": boot, "start": 1000.0, "log_path": LOG, "workdir": "/home/ubuntu/code",
            **more,
        }  # fmt: skip
        text = shlex.quote(json.dumps(status))
        self.ssh(worker, f"sudo mkdir -p {STATE}; echo {text} | sudo tee {STATE}/status.json")

    def readers(self, worker: int) -> str:
        """Return the numbers of the processes that read for us there."""
        return self.ssh(worker, "pgrep -f '^/usr/bin/python3 -I -c' || true")


@pytest.fixture(scope="module")
def lab(container_cloud: ContainerCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    container_cloud.create("pod", "v4-32", **{"local-cloud-machine": "small"})
    lab = Lab(container_cloud, tmp_path_factory.mktemp("lab"))
    lab.set_up()
    try:
        yield lab
    finally:
        container_cloud.delete("pod")


class Follow:
    """`tpu-fleet logs -f`, with a reader."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.out, self.err = lab.folder / "out", lab.folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                (TPU_FLEET, "logs", "-f", RUN),
                cwd=lab.folder, env=lab.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    def lines(self, worker: int) -> list[int]:
        """Return the numbers of the lines of a worker that were shown."""
        found = re.findall(rf"^pod-w{worker} \| line (\d+)$", self.out.read_text(), re.M)
        return list(map(int, found))

    def wait(self, limit: float = 120) -> None:
        """Wait until everything that was written is shown, each line once and in its order."""
        for worker, count in self.lab.count.items():
            everything = list(range(1, count + 1))
            try:
                eventually(lambda w=worker, c=count: len(self.lines(w)) >= c, limit)  # type: ignore[misc]
            except AssertionError:
                print(worker, count, self.lines(worker)[-3:], self.err.read_text())
                raise
            assert self.lines(worker) == everything, self.err.read_text()


def test_every_line_once_whatever_happens_to_the_machines(lab: Lab) -> None:
    cloud = lab.cloud
    for worker in range(WORKERS):
        lab.ssh(worker, lab.write(worker, 50))
    follow = Follow(lab)
    try:
        # What is there already, of several files; and what comes.
        follow.wait()
        for worker in range(WORKERS):
            lab.ssh(worker, lab.write(worker, 30))
        follow.wait()
        # Our reader is killed; then the sshd that serves us.
        lab.ssh(0, "sudo kill -9 $(pgrep -f '^/usr/bin/python3 -I -c' | head -1)")
        lab.ssh(0, lab.write(0, 30))
        lab.ssh(1, "sudo kill -9 $(ps -o ppid= -p $(pgrep -f '^/usr/bin/python3 -I -c' | head -1))")
        lab.ssh(1, lab.write(1, 30))
        follow.wait()
        # The machine is there, but no packet gets through; meanwhile the log rotates.
        cut = "sudo iptables -{} INPUT -p tcp --dport 22 -j DROP"
        script = f"sleep 1; {cut.format('A')}; {lab.write(2, 100)}; sleep 25; {cut.format('D')}"
        lab.ssh(2, f"nohup sh -c {shlex.quote(script)} >/dev/null 2>&1 &")
        # One reboots, and one moves to another address as well; their logs go on.
        address = cloud.addresses("pod")[3][1]
        lab.ssh(3, lab.write(3, 30))
        cloud.command("maintain", "pod", "--worker=3", "--wait")
        assert cloud.addresses("pod")[3][1] != address
        lab.ssh(3, lab.write(3, 60))
        cloud.command("reboot", "pod", "--worker=0")
        lab.ssh(0, lab.write(0, 60))
        follow.wait()
        # A line that is not whole yet is cut in two.
        lab.ssh(1, f"printf 'cut in ' | sudo tee -a {LOG}")
        lab.ssh(1, "sudo kill -9 $(pgrep -f '^/usr/bin/python3 -I -c' | head -1)")
        lab.ssh(1, f"printf 'two\\n' | sudo tee -a {LOG}")
        eventually(lambda: "pod-w1 | cut in two\n" in follow.out.read_text())
        assert follow.process.poll() is None
        eventually(lambda: len(lab.readers(1).split()) == 1, 120)
        for worker in range(WORKERS):
            lab.status(worker, state="succeeded")
        assert follow.process.wait(60) == 0
    finally:
        follow.process.terminate()
        follow.process.wait(60)
    assert f"{RUN} succeeded on pod-w[0-3]." in follow.err.read_text()
    # Of a connection that was cut, its machine hears a while later.
    eventually(lambda: [lab.readers(worker) for worker in range(WORKERS)] == [""] * WORKERS, 120)


# In CI tests/cloud/fan_out and tests/cloud/hostile have these commands, with processes for workers.
@pytest.mark.night
def test_runs_and_logs_as_they_are(lab: Lab) -> None:
    for worker in range(WORKERS):
        lab.status(worker, state="running" if worker else "restarting", step=worker)
    shown = json.loads(lab.run("runs", "--json", "--sudo").stdout)
    assert shown["exit_code"] == 0
    (row,) = shown["runs"]
    assert (row["state"], row["workers_in_this_state"]) == ("restarting", 1)
    assert row["workers"] == ["pod-w0", "pod-w1", "pod-w2", "pod-w3"]
    assert (row["step"], row["furthest_step"]) == (0, 3)
    text = lab.run("runs").stdout
    assert "restarting 1/4" in text
    assert "pod-w[0-3]" in text
    none = lab.run("runs", "word", ok=False)
    assert (none.returncode, none.stderr) == (1, f"There is no run word. There is {RUN}.\n")
    # Once, of one worker, as it is.
    lab.ssh(2, lab.write(2, 50))
    last = lab.count[2]
    done = lab.run("logs", RUN, "--worker=2", "--tail=2")
    assert done.stdout == f"line {last - 1:06}\nline {last:06}\n"
    assert len(lab.run("logs", RUN, "--worker=2").stdout.splitlines()) == last
    # A reader that has enough after a line ends the command at the next one.
    words = shlex.join([str(TPU_FLEET), "logs", "-f", RUN])
    with subprocess.Popen(
        ["/bin/bash", "-c", f"{words} | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=lab.folder, env=lab.env, stdout=subprocess.PIPE, text=True,
    ) as piped:  # fmt: skip
        eventually(lambda: (lab.ssh(2, lab.write(2, 1)), piped.poll())[1] is not None, 240)
        assert piped.stdout
        assert len(piped.stdout.readlines()) == 1
    assert piped.returncode == 128 + signal.SIGPIPE
    none = lab.run("logs", "word", ok=False)
    assert (none.returncode, none.stderr) == (1, f"There is no run word. There is {RUN}.\n")
    # Somebody who may not read it is told what to do.
    lab.ssh(2, f"sudo chmod 700 {Path(LOG).parent}")
    none = lab.run("logs", RUN, "--worker=2", ok=False)
    assert none.returncode == 1
    assert "may not be read. Say --sudo." in none.stderr
    assert lab.run("logs", RUN, "--worker=2", "--sudo", "--tail=0").stdout == ""
    lab.ssh(2, f"sudo chmod 755 {Path(LOG).parent}")


class Terminal:
    """A person at a terminal."""

    def __init__(self, lab: Lab, *words: str) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            (TPU_FLEET, *words),
            cwd=lab.folder, env={**lab.env, "TERM": "xterm"}, stdin=theirs, stdout=theirs,
            stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def sees(self, text: str, limit: float = 120) -> None:
        """Wait until something is shown, and forget what was shown until then."""
        deadline = time.monotonic() + limit
        while text not in self.seen:
            assert time.monotonic() < deadline, f"not shown: {text}: {self.seen[-2000:]}"
            if select.select([self.ours], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.ours, 1 << 16).decode(errors="replace")
                except OSError:
                    assert text in self.seen, f"it ended: {self.seen[-2000:]}"
        self.seen = self.seen.partition(text)[2]

    def types(self, text: str) -> None:
        """Press keys, as slowly as people do: what comes at once is pasted text to tmux."""
        for key in text:
            os.write(self.ours, key.encode())
            time.sleep(0.3)

    def detaches(self) -> None:
        """Press tmux's keys, again as long as a busy computer makes pasted text of them."""
        for limit in (20, 20, 20, 20, 120):
            self.types("\x02d")
            try:
                self.sees("detached", limit)
                return
            except AssertionError:
                if limit == 120 or self.process.poll() is not None:
                    raise


@pytest.mark.night
def test_attach_comes_back_after_a_reboot(lab: Lab) -> None:
    begin = "sudo -u alice tmux new-session -d -s digits 'echo I am $(whoami); cat'"
    lab.ssh(1, "sudo apt-get -q update && sudo apt-get -qy install --no-install-recommends tmux")
    lab.ssh(1, "sudo useradd -m alice")
    lab.ssh(1, begin)
    for worker in range(WORKERS):
        lab.status(worker, user="alice", state="running" if worker else "restarting")
    refused = Terminal(lab, "attach", RUN)
    refused.sees("digits is restarting on pod-w0. Running: digits.")
    assert refused.process.wait(60) == 1
    person = Terminal(lab, "attach", "--retry", "--worker=1", RUN)
    person.sees("I am alice")
    lab.cloud.command("maintain", "pod", "--worker=1", "--wait")
    person.sees("Waiting until it runs again")
    lab.ssh(1, begin)
    lab.status(1, user="alice")
    person.sees("I am alice")
    person.types("typed\r")
    person.sees("typed")
    person.detaches()
    assert person.process.wait(60) == 0
    # Without --retry, it is over with the program.
    person = Terminal(lab, "attach", "--worker=1", RUN)
    person.sees("I am alice")
    person.types("\x04")
    person.sees("digits ended on pod-w1.")
    assert person.process.wait(60) == 1


@pytest.mark.night
@pytest.mark.parametrize("how", ["fetch", "rsync"])
def test_collect(lab: Lab, how: str) -> None:
    to = lab.folder / how
    if how == "rsync":
        install = "apt-get -q update && apt-get -qy install --no-install-recommends rsync"
        if shutil.which("rsync") is None:
            subprocess.run(["/bin/sh", "-c", install], check=True, capture_output=True)
        lab.ssh(0, f"sudo sh -c '{install}'")
    for worker in (0, 1):
        lab.status(worker)
        lab.ssh(worker, lab.write(worker, 50))
    lab.ssh(
        0,
        "mkdir -p code/out/deep; echo best > code/out/deep/model; ln -sf /etc/shadow code/out/x; "
        # What root alone reads is nothing that the run's user has left.
        "sudo sh -c 'echo secret > /root/key'; ln -sfn /root code/to",
    )
    lab.ssh(
        1,
        "sudo mkdir -p /data/x; echo plot | sudo tee '/data/x/a plot'; sudo chown -R ubuntu /data; "
        "sudo chmod -R 700 /data",
    )

    def collect(run: str = RUN) -> subprocess.CompletedProcess[str]:
        words = ("tpu.fleet.collect", "-e", f"run={run}", "-e", f"collect_to={to}")
        words += ("--limit", "pod-w0,pod-w1")
        return subprocess.run(
            (TPU_FLEET.with_name("ansible-playbook"), *words),
            cwd=lab.folder, env=lab.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    first = collect()
    assert first.returncode == 0, first.stdout + first.stderr
    for worker in (0, 1):
        folder = to / RUN / f"pod-w{worker}"
        assert (folder / "status.json").exists(), first.stdout
        assert json.loads((folder / "status.json").read_text())["worker"] == worker
        aside = sorted(folder.glob("run.log.*"), key=lambda path: -int(path.suffix[1:]))
        text = "".join(path.read_text() for path in [*aside, folder / "run.log"])
        numbers = [int(line) for line in re.findall(r"^line (\d+)$", text, re.M)]
        assert numbers == list(range(1, lab.count[worker] + 1))
    assert (to / RUN / "pod-w0/results/out/deep/model").read_text() == "best\n"
    assert (to / RUN / "pod-w1/results/data/x/a plot").read_text() == "plot\n"
    assert not (to / RUN / "pod-w0/results/out/x").exists()
    assert "not there: /data/x, to/key" in first.stdout
    assert not (to / RUN / "pod-w0/results/to").exists()
    # Again: nothing to do; then, what is new.
    again = collect()
    assert re.findall(r"changed=(\d+)", again.stdout) == ["0", "0"], again.stdout
    lab.ssh(0, "echo better > code/out/deep/model")
    assert collect().returncode == 0
    assert (to / RUN / "pod-w0/results/out/deep/model").read_text() == "better\n"
    none = collect("word")
    assert none.returncode == 2
    assert f"There is no run word. There is {RUN}." in " ".join(none.stdout.split())


@pytest.mark.night
def test_a_slice_that_is_made_anew_is_followed_on(lab: Lab) -> None:
    for worker in range(WORKERS):
        lab.status(worker)
        lab.ssh(worker, lab.write(worker, 10))
    follow = Follow(lab)
    try:
        follow.wait()
        lab.cloud.delete("pod")
        lab.cloud.create("pod", "v4-32", **{"local-cloud-machine": "small"})
        lab.set_up()
        for worker in range(WORKERS):
            lab.ssh(worker, lab.write(worker, 30))
        follow.wait(300)
        for worker in range(WORKERS):
            lab.status(worker, state="failed")
        assert follow.process.wait(60) == 0
    finally:
        follow.process.terminate()
        follow.process.wait(60)
    said = follow.err.read_text()
    assert "lines may have been rotated away" in said
    assert f"{RUN} failed on pod-w[0-3]." in said
