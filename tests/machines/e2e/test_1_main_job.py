"""The main job: from a fleet file to runs that come through crashes and reboots unharmed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fleet import Fleet, changes, wait_until, what_changed_but_notes
from story import STEPS, write_count

WORKERS = ("pair-w0", "pair-w1")


def test_site_brings_the_fleet_to_training(fleet: Fleet) -> None:
    recap = changes(fleet.first_site)
    assert set(recap) == {"localhost", "solo", *WORKERS}
    assert all(lost == failed == 0 for _, lost, failed in recap.values())
    for worker in ("solo", *WORKERS):
        assert recap[worker][0] > 10
        # Packages are the first that it began with.
        begun = fleet.ssh(worker, "sudo journalctl -q -o cat -u tpu-fleet-packages.service")
        assert "Deactivated successfully" in begun
    for worker, run in [*((worker, "together") for worker in WORKERS), ("solo", "alone")]:
        # The workers of a slice agree on a start, which is a matter of seconds.
        wait_until(
            f"{run} on {worker}",
            lambda worker=worker, run=run: fleet.status(worker, run).get("state") == "running",
            60,
        )


def finals(fleet: Fleet, run: str) -> list[dict[str, Any]]:
    return [
        json.loads(re.findall(r"final (\{.*\})", fleet.log(worker, run))[-1]) for worker in WORKERS
    ]


def test_a_killed_program_goes_on_from_its_checkpoint(fleet: Fleet) -> None:
    wait_until("a checkpoint", lambda: fleet.steps("pair-w1", "disturbed") >= 60, 120)
    before = fleet.status("pair-w1", "disturbed")
    fleet.ssh("pair-w1", f"sudo kill -9 {before['pid']}")
    for worker in WORKERS:
        wait_until(
            f"attempt 2 on {worker}",
            lambda worker=worker: (
                (s := fleet.status(worker, "disturbed")).get("attempt") == 2
                and s["state"] == "running"
                and "attempt 2 begins at step" in fleet.log(worker, "disturbed")
            ),
            120,
        )
    begun = [
        int(re.findall(r"attempt 2 begins at step (\d+)", fleet.log(worker, "disturbed"))[-1])
        for worker in WORKERS
    ]
    assert begun[0] == begun[1] >= 50


def test_a_profile_of_all_workers_is_one_session_and_ends_no_attempt(
    fleet: Fleet, tmp_path: Path
) -> None:
    words = ("disturbed", "--seconds", "2", "-o", str(tmp_path), "--json")
    told = fleet.report("tpu-fleet", "profile", *words)
    (session,) = Path(told["folder"], "plugins/profile").iterdir()
    assert sorted(path.name for path in session.iterdir()) == [
        f"{worker}.xplane.pb" for worker in WORKERS
    ]
    found = told["profiles"]
    assert all(one["devices"] == 1 and 0 < one["idle"] < 1 for one in found), found
    assert all(abs(one["late_seconds"]) < 2 <= one["seconds"] for one in found), found
    assert "collective" in {one["kind"] for one in told["operations"]}
    for worker in WORKERS:
        assert fleet.status(worker, "disturbed")["attempt"] == 2
        assert "profile" not in fleet.ssh(worker, "sudo ls /var/log/tpu-fleet/runs/disturbed")


def test_two_workers_are_one_job(fleet: Fleet) -> None:
    for worker in WORKERS:
        wait_until(
            f"undisturbed succeeds on {worker}",
            lambda worker=worker: fleet.status(worker, "undisturbed").get("state") == "succeeded",
            300,
        )
        status = fleet.status(worker, "undisturbed")
        assert (status["attempt"], status["exit_code"]) == (1, 0)
    logs = [fleet.log(worker, "undisturbed") for worker in WORKERS]
    losses = [re.findall(r"step (\d+) loss (\S+)", log) for log in logs]
    assert len(losses[0]) >= STEPS // 20
    assert losses[0] == losses[1]
    first, second = finals(fleet, "undisturbed")
    assert first == second
    assert (first["process_count"], first["steps"]) == (2, STEPS)


def test_a_stopped_run_is_asked_to_end_on_all_workers(fleet: Fleet) -> None:
    told = fleet.report("tpu-fleet", "stop", "together", "--json")
    [row] = told["runs"]
    assert (row["state"], row["workers"], told["exit_code"]) == ("stopped", list(WORKERS), 0)


def test_a_rebooted_worker_comes_back_and_the_gang_goes_on(fleet: Fleet) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = fleet.ssh("pair-w1", boot_id)
    reached = fleet.steps("pair-w0", "disturbed")
    fleet.run("tpu-fleet", "cloud", "reboot", "pair", "--worker", "1")
    # No playbook, no controller: the machines alone bring the run back.
    for worker in WORKERS:
        wait_until(
            f"attempt 3 on {worker}",
            lambda worker=worker: (
                fleet.status(worker, "disturbed").get("attempt") == 3
                and "attempt 3 begins at step" in fleet.log(worker, "disturbed")
            ),
            180,
        )
    assert fleet.ssh("pair-w1", boot_id) != before
    begun = int(
        re.findall(r"attempt 3 begins at step (\d+)", fleet.log("pair-w0", "disturbed"))[-1]
    )
    assert begun >= reached - 50 - 20
    assert fleet.status("pair-w1", "undisturbed")["state"] == "succeeded"  # not run again
    assert fleet.status("solo", "alone")["attempt"] == 1


def test_a_stopped_run_stays_stopped_until_it_is_started(fleet: Fleet) -> None:
    # One of its workers has rebooted meanwhile.
    output = fleet.play("tpu.fleet.train")
    assert "training_run" not in what_changed_but_notes(output), output
    told = " ".join(output.split())
    assert re.search(r"together \(pair\): stopped; \S+ stopped it; to start it", told), output
    [row] = fleet.report("tpu-fleet", "runs", "together", "--json")["runs"]
    assert (row["state"], row["workers_in_this_state"], row["attempt"]) == ("stopped", 2, 1)
    assert "stopped it; to start it: tpu-fleet start together" in row["reasons"][0]
    started = fleet.run("tpu-fleet", "start", "together")
    assert "together on pair: running on 2 workers, attempt 2" in started


def test_sync_takes_an_edit_to_its_run_and_to_no_other(fleet: Fleet) -> None:
    pid = fleet.status("solo", "alone")["pid"]
    attempt = fleet.status(WORKERS[0], "together")["attempt"]
    write_count(fleet.folder, "version 2")
    (told,) = fleet.report("tpu-fleet", "sync", "together", "--json")["slices"]
    assert (told["slice"], told["workers"], told["files"]) == ("pair", 2, 1)
    # The other file, which is larger, did not travel.
    assert told["bytes"] < 2 * 1000
    for worker in WORKERS:
        wait_until(
            f"the new code on {worker}",
            lambda worker=worker: "version 2" in fleet.log(worker, "together"),
            60,
        )
        assert fleet.status(worker, "together")["attempt"] == attempt + 1
    assert fleet.status("solo", "alone")["pid"] == pid


def test_reprovision_finds_everything_in_order(fleet: Fleet) -> None:
    recap = changes(fleet.play("tpu.fleet.reprovision"))
    assert all(lost == failed == 0 for _, lost, failed in recap.values())
    # What people have been given names the addresses that a maintenance changed.
    state = fleet.folder / "state"
    now = set(re.findall(r"HostName (\S+)", (state / "ssh_config").read_text()))
    written = list((state / "onboarding").glob("*/tpu-fleet/addresses"))
    assert written
    for file in written:
        assert set(re.findall(r"HostName (\S+)", file.read_text())) == now


def test_site_again_changes_nothing_and_disturbs_no_run(fleet: Fleet) -> None:
    def seen() -> dict[str, Any]:
        return {
            (host, name): (status["state"], status["pid"], status["attempt"])
            for host in ("solo", *WORKERS)
            for name, status in fleet.statuses(host).items()
            # It may end by itself meanwhile.
            if name != "disturbed"
        }

    before = seen()
    assert [state for state, _, _ in before.values()].count("running") == 3
    # As everybody does; and with every role, whatever is known, on the worker that leads.
    everything = ("--limit", f"localhost,{WORKERS[0]}", "-e", "fleet_apply_everything=true")
    for more in ((), everything):
        output = fleet.play("site.yml", *more)
        if not more:
            nothing = dict.fromkeys(("localhost", "solo", *WORKERS), (0, 0, 0))
            assert changes(output) == nothing, output
        assert what_changed_but_notes(output) == "", output
        assert ("training_run" in output) is bool(more)
        assert seen() == before


def test_check_mode_says_that_nothing_would_change(fleet: Fleet) -> None:
    # After a change that no role made, all roles that were applied look.
    for host in ("solo", *WORKERS):
        fleet.ssh(host, "sudo touch /etc/tpu-fleet-of-no-role")
    output = fleet.play("site.yml", "--check", "--diff")
    assert changes(output) == dict.fromkeys(("localhost", "solo", *WORKERS), (0, 0, 0)), output
    for host in ("solo", *WORKERS):
        why = rf"applying: \[{host}\] .*/etc/tpu-fleet-of-no-role is new"
        assert re.search(why, output), output
        fleet.ssh(host, "sudo rm /etc/tpu-fleet-of-no-role")


def test_users_log_in_and_attach(fleet: Fleet) -> None:
    for user in ("alice", "bob"):
        command = ("ssh", "-F", str(fleet.ssh_config), "-o", "LogLevel=ERROR", "-l", user)
        assert fleet.run(*command, "pair-w1", "id -un").strip() == user
    bob = ("ssh", "-F", str(fleet.ssh_config), "-o", "LogLevel=ERROR", "-l", "bob", "pair-w0")
    assert "together" in fleet.run(*bob, "tmux list-sessions")
    assert re.search(r"step \d+ loss", fleet.run(*bob, "tmux capture-pane -p -t together"))


def test_status_shows_slices_and_runs(fleet: Fleet) -> None:
    rows = {row["host"]: row for row in fleet.report("tpu-fleet", "status", "--json")["workers"]}
    assert set(rows) == {"solo", *WORKERS}
    assert rows["pair-w1"]["slice"] == "pair"
    assert rows["pair-w1"]["external_ip"] == fleet.cloud()["pair"]["workers"][1]["external_ip"]
    assert [run["run"] for run in rows["solo"]["runs"]] == ["alone"]
    table = fleet.run("tpu-fleet", "status")
    assert "pair-w0" in table
    assert re.search(r"^alone +solo +\w+ +running +1 ", table, re.MULTILINE)


def test_disturbed_and_undisturbed_end_alike_to_the_bit(fleet: Fleet) -> None:
    for worker in WORKERS:
        wait_until(
            f"disturbed succeeds on {worker}",
            lambda worker=worker: fleet.status(worker, "disturbed").get("state") == "succeeded",
            300,
        )
    assert finals(fleet, "disturbed") == finals(fleet, "undisturbed")


def test_what_has_ended_is_tried_once_more(fleet: Fleet) -> None:
    said = fleet.run("tpu-fleet", "retry", "disturbed")
    assert "disturbed on pair: attempt 4 has begun on 2 workers" in said
    for worker in WORKERS:
        wait_until(
            f"disturbed succeeds again on {worker}",
            lambda worker=worker: (
                (s := fleet.status(worker, "disturbed")).get("attempt") == 4
                and s["state"] == "succeeded"
            ),
            300,
        )
    assert finals(fleet, "disturbed") == finals(fleet, "undisturbed")
