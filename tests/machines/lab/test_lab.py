"""Everything that the guides have one do by hand, done by one fleet file, looked at from outside.

The tests are one story: each goes on where the one before it ended.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import executions
import pytest
import requests
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import roles_in_order
from fleet import ROOT, changes, wait_until, what_changed_but_notes
from lab import SECRETS, TOKEN, Lab

HOSTS = ("solo", "pair-w0", "pair-w1")
# All that roles write to, without what a running machine writes there by itself.
WATCHED = "/boot /etc /home /opt /root /srv /usr /var/cache /var/lib /var/spool"
LISTING = (
    f"sudo find {WATCHED} -xdev -not -path '*/.ansible*' -not -path '/var/lib/systemd/*' "
    "-not -path '/var/lib/sudo/*' -not -path '/var/lib/google/*' "
    # What a machine checks with.
    "-not -path '/*/tpu-fleet/apply/*' -not -path '/*/tpu-fleet/uv/*' -type f "
    "-printf '%p %s %T@ %m %u\\n' | sort"
)
# Executions on an unchanged host: what the whole of configure may cost.
LIMIT = 60


def test_check_mode_goes_to_the_end_on_fresh_machines_and_changes_nothing(lab: Lab) -> None:
    before = {host: lab.fleet.ssh(host, LISTING) for host in HOSTS}
    told = lab.fleet.play("site.yml", "--check", "--diff")
    recap = changes(told)
    assert set(recap) >= set(HOSTS)
    assert all(lost == failed == 0 for _changed, lost, failed in recap.values()), told
    assert all(recap[host][0] > 10 for host in HOSTS), "it would change next to nothing"
    for host in HOSTS:
        after = lab.fleet.ssh(host, LISTING)
        changed = set(after.splitlines()) ^ set(before[host].splitlines())
        assert sorted(changed) == [], host
    keys = requests.post(f"{lab.url}_cloud/github", json={}, timeout=30).json()["keys"]
    assert keys == []


def test_one_command_makes_everything(lab: Lab) -> None:
    started = time.monotonic()
    told = lab.fleet.play("site.yml")
    recap = changes(told)
    assert set(recap) == {"localhost", *HOSTS}
    assert all(lost == failed == 0 for _changed, lost, failed in recap.values())
    print(f"site.yml: {time.monotonic() - started:.0f} s")


def test_the_second_run_changes_nothing_and_costs_little(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = ("-e", "fleet_apply_everything=true")
    told = lab.fleet.play("site.yml", *everything)
    assert what_changed_but_notes(told) == ""
    settings = executions.environment(tmp_path)
    # Counted here, where a task on a machine is an execution.
    push = ("-e", "fleet_apply=push")
    lab.fleet.run("ansible-playbook", "tpu.fleet.configure", *push, **settings)
    counts = executions.read(tmp_path)
    with capsys.disabled():
        # scripts/run_tests.py shows it.
        print("\n" + textwrap.indent(executions.table(counts), "note: "))
    roles = {count.role.rpartition(".")[2] for count in counts}
    assert roles >= {*roles_in_order()} - {"training_run"}
    assert 0 < counts[-1].executions < LIMIT


def test_two_people_log_in_with_the_rights_they_have(lab: Lab) -> None:
    for host in HOSTS:
        assert lab.as_user("alice", host, "id -u; sudo -n whoami").split() == ["2001", "root"]
        assert lab.as_user("bob", host, "id -u; id -Gn").split() == ["2002", "bob", "lab"]
        lab.as_user("bob", host, "sudo -n whoami", ok=False)
        assert "apt-get" in lab.as_user("bob", host, "sudo -n -l")
        assert lab.as_user("alice", host, "passwd -S").split()[1] in ("L", "LK", "NP")


def test_each_person_has_a_text_and_a_configuration_of_their_own(lab: Lab) -> None:
    folder = lab.fleet.folder / "state" / "onboarding"
    for person in ("alice", "bob"):
        written = "".join(p.read_text() for p in (folder / person).rglob("*") if p.is_file())
        for host in HOSTS:
            assert host in written, person


def test_shell_tools_time_zone_and_dotfiles(lab: Lab) -> None:
    for host in HOSTS:
        shell = lab.as_user("alice", host, "echo $0; date +%Z; which nvim mosh-server byobu aria2c")
        assert "zsh" in shell.splitlines()[0]
        assert "HKT" in shell
        assert len(re.findall("^/usr/bin/", shell, re.M)) == 4
        # As a terminal would show it: slice, worker, and what the dotfiles say.
        look = 'for hook in $precmd_functions; do $hook; done; print -P -- "$PROMPT"'
        told = lab.as_user("alice", host, f"zsh -ic '{look}; print $EDITOR; alias gs'")
        slice_name, _dash, worker = host.partition("-")
        assert f"[{slice_name}{' ' + worker if worker else ''}]" in told
        assert "nvim" in told
        assert "git status" in told


def test_a_private_repository_is_there_and_commits_have_a_name(lab: Lab) -> None:
    assert lab.server is not None
    for host in HOSTS:
        folder = json.loads(lab.fleet.ssh(host, "sudo cat /var/lib/tpu-fleet/code/app.json"))
        assert folder["version"] == lab.commit
        config = lab.as_user("alice", host, "git config user.email; git config pull.rebase")
        assert config.split() == ["alice@example.org", "false"]
        clone = "rm -rf /tmp/mine && git clone -q git@github.com:lab/app.git /tmp/mine && echo done"
        assert "done" in lab.as_user("alice", host, clone)
    titles = {access["title"] for access in lab.server.accesses()}
    assert len(titles) >= len(HOSTS)
    # Not by the word itself, which sudo would write into its log.
    token = TOKEN.replace("ghp", "gh[p]")
    assert lab.fleet.ssh("solo", f"sudo grep -rl '{token}' /etc /home /var || true") == ""


def test_three_venvs(lab: Lab) -> None:
    jax = "import jax; print(jax.devices())"
    for host in HOSTS:
        assert "Cpu" in lab.as_user("alice", host, f"/opt/venvs/jax/bin/python -c '{jax}'")
        # It is the one that alice's logins begin in, too.
        where = "which python; echo $(readlink -f /opt/venvs/jax)/bin/python"
        python, wanted = lab.as_user("alice", host, f"zsh -lc '{where}'").split()
        assert python == wanted
        assert "tomli" in lab.as_user("bob", host, "/home/bob/venvs/app/bin/python -m app")
    torch = "import torch; print((torch.ones(2, 2) + 1).sum().item())"
    assert "8.0" in lab.as_user("alice", "solo", f"/opt/venvs/torch/bin/python -c '{torch}'")
    versions = [lab.fleet.ssh(host, "cat /var/lib/tpu-fleet/venvs/jax.json") for host in HOSTS]
    packages = [json.loads(text)["packages"] for text in versions]
    assert packages[0] == packages[1] == packages[2]


def test_a_data_disk_and_a_shared_folder(lab: Lab) -> None:
    assert "ext4" in lab.as_user("alice", "solo", "findmnt -no FSTYPE /data")
    lab.as_user("bob", "solo", "touch /data/from-bob")
    lab.as_user("alice", "pair-w0", "echo hello > /shared/from-alice")
    # Worker 0 exports it, and has it at the same path.
    kind = "ls /shared >/dev/null; findmnt -no FSTYPE /shared | tail -n 1"
    assert lab.as_user("bob", "pair-w1", kind) == "nfs4\n"
    assert lab.as_user("bob", "pair-w0", kind) == "ext4\n"
    for host in HOSTS[1:]:
        assert lab.as_user(
            "bob", host, "cat /shared/from-alice; stat -c %U /shared/from-alice"
        ).split() == [
            "hello",
            "alice",
        ]


def test_training_runs_and_has_its_secrets(lab: Lab) -> None:
    wait_until("steps", lambda: lab.fleet.steps("pair-w0", "digits") > 20, 300)
    status = lab.fleet.status("pair-w0", "digits")
    assert status["state"] == "running"
    environ = lab.fleet.ssh("pair-w0", f"sudo cat /proc/{status['pid']}/environ | tr '\\0' '\\n'")
    assert f"WANDB_API_KEY={SECRETS['WANDB_API_KEY']}" in environ
    pane = lab.as_user("alice", "pair-w0", "tmux capture-pane -p -t digits")
    assert "step" in pane
    keys = lab.as_user("bob", "solo", "stat -c '%a %U' ~/.aws/credentials; cat ~/.aws/credentials")
    assert keys.startswith("600 bob")
    assert SECRETS["AWS_SECRET_ACCESS_KEY"] in keys
    lab.as_user("alice", "solo", "cat /home/bob/.aws/credentials", ok=False)


def test_a_notebook_and_a_tensorboard_through_tunnels(lab: Lab) -> None:
    for name, path, words in (
        ("notebook-alice", "/api", "version"),
        ("tensorboard-runs", "/", "TensorBoard"),
    ):
        tunnel = lab.fleet.start("tpu-fleet", "tunnel", name)
        try:
            assert tunnel.stdout is not None
            told = ""
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", told)):
                line = tunnel.stdout.readline()
                assert line, told
                told += line
            answer = requests.get(found[0] + path, timeout=60)
            assert answer.status_code == 200
            assert words in answer.text
        finally:
            tunnel.terminate()
            tunnel.wait(30)
    # From another machine there is nothing to reach.
    for host, other, port in (("solo", "pair-w1", 8888), ("pair-w0", "solo", 6006)):
        address = lab.fleet.ssh(host, "hostname -I").split()[0]
        lab.fleet.ssh(host, f"timeout 5 bash -c '</dev/tcp/127.0.0.1/{port}'")
        lab.fleet.ssh(other, f"timeout 5 bash -c '</dev/tcp/{address}/{port}'", ok=False)


def test_metrics_on_the_internal_address(lab: Lab) -> None:
    address = lab.fleet.ssh("solo", "hostname -I").split()[0]
    metrics = lab.fleet.ssh("pair-w0", f"curl -s http://{address}:9100/metrics")
    assert "node_load1" in metrics
    metrics = lab.fleet.ssh("pair-w0", "curl -s http://$(hostname -I | cut -d' ' -f1):9100/metrics")
    assert 'run="digits"' in metrics


def test_a_sweep_over_all_slices(lab: Lab) -> None:
    sweep = str(ROOT / "examples/sweeps/ray")
    lab.fleet.run("scp", "-q", "-r", "-F", str(lab.fleet.ssh_config), sweep, "alice@solo:")
    # As the role's README has it, on the head.
    submit = (
        "export RAY_API_SERVER_ADDRESS=http://127.0.0.1:8265 RAY_AUTH_MODE=token "
        "RAY_AUTH_TOKEN_PATH=/etc/tpu-fleet/services/ray.token; "
        "/opt/tpu-fleet/venvs/ray_cluster/bin/ray job submit --working-dir ray -- "
        "python sweep.py --rates 0.01 1 --rounds 2"
    )
    said: list[dict[str, Any]] = []

    def all_take_part() -> bool:
        # On a busy computer Ray takes workers for dead, its own head too, and lets them join again.
        try:
            told = lab.as_user("alice", "solo", submit, limit=600)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(error)
            return False
        said[:] = [json.loads(line) for line in told.splitlines() if line.startswith('{"')]
        used = {one["slice"] for one in said if "rate" in one}
        return bool(said) and len(said[0]["slices"]) == len(used) == 2

    wait_until("both slices in the sweep", all_take_part, 1200)
    workers = {one["name"]: (one["marker"], one["workers"]) for one in said[0]["slices"]}
    assert workers == {"pair": ("TPU-v4-16-head", 2), "solo": ("TPU-v4-8-head", 1)}
    trials = {one["slice"]: len(one["hosts"]) for one in said if "rate" in one}
    assert trials == {"pair": 2, "solo": 1}


def test_the_doctor_finds_nothing_wrong(lab: Lab) -> None:
    # On one small computer a framework may take a minute to be imported.
    report = lab.fleet.report(*("tpu-fleet", "doctor", "--json", "--timeout", "240"), codes=(0, 1))
    assert {row["host"] for row in report["rows"]} >= {"controller", *HOSTS}
    # That somebody should install updates, say, is no trouble.
    assert [row for row in report["rows"] if row["status"] == "fail"] == []
    assert report["exit_code"] < 2


def test_teardown_leaves_nothing_behind(lab: Lab) -> None:
    lab.fleet.play("tpu.fleet.teardown", "-e", "teardown=all")
    assert lab.fleet.cloud() == {}
    keys = requests.post(f"{lab.url}_cloud/github", json={}, timeout=30).json()["keys"]
    assert keys == []
