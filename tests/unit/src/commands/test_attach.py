"""Which run is attached to, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import NOT_BACK
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.commands.attach import Meant, choose, login_of, why_not
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.login import ssh_command


def run(name: str, host: str, state: str = "running", **more: str) -> Run:
    slice_name, _w, worker = host.partition("-w")
    status = RunStatus(name, user="alice", state=state, **more)  # type: ignore[arg-type]
    return Run(host, slice_name, int(worker or 0), state, status, 0.0)


RUNS = [
    run("digits", "pair-w1"),
    run("digits", "pair-w0"),
    run("words", "pair-w0", "pending", behind="digits", behind_user="alice"),
    run("wide", "pair-w0"),
    run("wide", "solo", "failed", reason="3 quick failures"),
    run("tail", "pair-w1"),
]


@pytest.mark.parametrize(
    ("meant", "host"),
    [
        (Meant("digits"), "pair-w0"),
        (Meant("digits", worker=1), "pair-w1"),
        (Meant("digits", "pair", 1), "pair-w1"),
        (Meant("wide", "solo"), "solo"),
        (Meant("tail"), "pair-w1"),
    ],
)
def test_who_is_meant(meant: Meant, host: str) -> None:
    assert choose(RUNS, meant).host == host


@pytest.mark.parametrize(
    ("meant", "says"),
    [
        (
            Meant("digit"),
            "There is no run digit. Did you mean digits? There is digits, tail, wide, words.",
        ),
        (
            Meant("wider", "solo"),
            "There is no run wider on slice solo. Did you mean wide? "
            "There is digits, tail, wide, words.",
        ),
        (Meant("wide"), "wide runs on several slices: choose with --slice, one of pair, solo."),
        (Meant("digits", "solo"), "digits is not on slice solo, but on pair."),
        (Meant("digits", worker=7), "digits is not on worker 7, but on 0, 1."),
    ],
)
def test_what_else_there_is(meant: Meant, says: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        choose(RUNS, meant)
    assert caught.value.message == says


@pytest.mark.parametrize(
    ("meant", "says"),
    [
        (Meant("digits"), ""),
        (
            Meant("words"),
            "words is pending on pair-w0: waits for digits of alice. Running: digits, tail, wide.",
        ),
        (
            Meant("wide", "solo"),
            "wide is failed on solo: 3 quick failures. Running: digits, tail, wide.",
        ),
    ],
)
def test_only_what_runs_is_attached_to(meant: Meant, says: str) -> None:
    assert why_not(choose(RUNS, meant), RUNS) == says


def test_a_run_that_is_not_back_since_the_reboot_is_not_there() -> None:
    alone = run("digits", "solo", NOT_BACK)
    assert why_not(alone, [alone]).endswith("the reboot on solo. No run is running.")


@pytest.mark.parametrize(
    ("user", "login", "become"),
    [(None, "ubuntu", True), ("alice", "alice", False), ("root", "root", True)],
)
def test_who_logs_in_need_not_be_whose_run_it_is(
    user: str | None, login: str, become: bool
) -> None:
    known = Known(
        Path("/s/ssh_config"), Fleet({"solo": Target("solo", "192.0.2.1", user="ubuntu")})
    )
    words = ssh_command(known, login_of(known, run("digits", "solo"), user, read_only=True))
    assert words[:4] == ["ssh", "-t", "-F", "/s/ssh_config"]
    assert words[-3:-1] == [login, "solo"]
    assert words[-1].startswith("sudo -n -H -u alice -- /bin/sh" if become else "/bin/sh -c")
    assert words[-1].endswith("tpu-fleet digits -r")
