"""Which worker is meant, and what runs there as whom."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.commands import ssh
from tpu_fleet.commands.attach import Meant
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.hosts import Known

WORKERS = ("pair-w0", "pair-w1", "solo")
GROUPS = {"tpu_slice_pair": ["pair-w0", "pair-w1"], "tpu_slice_solo": ["solo"]}
KNOWN = Known(
    Path("/s/ssh_config"),
    Fleet({name: Target(name, "192.0.2.1", user="ubuntu") for name in WORKERS}, groups=GROUPS),
)


def run(name: str, host: str) -> Run:
    slice_name, _w, worker = host.partition("-w")
    status = RunStatus(name, user="alice", state="failed")
    return Run(host, slice_name, int(worker or 0), "failed", status, 0.0)


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that answer at once."""
    runs = [run("digits", "pair-w1"), run("digits", "pair-w0"), run("solo", "pair-w0")]
    monkeypatch.setattr(ssh, "known_fleet", lambda _refresh: KNOWN)
    monkeypatch.setattr(ssh, "chosen", lambda choose: (KNOWN, choose(KNOWN)))
    monkeypatch.setattr("tpu_fleet.commands.attach.ask_for_runs", lambda *_more: Answers(runs=runs))


@pytest.mark.parametrize(
    ("meant", "host", "user"),
    [
        (Meant("pair"), "pair-w0", ""),
        (Meant("pair", worker=1), "pair-w1", ""),
        (Meant("pair-w1"), "pair-w1", ""),
        (Meant("digits"), "pair-w0", "alice"),
        (Meant("digits", worker=1), "pair-w1", "alice"),
        # A run with the name of a worker: its slice says that the run is meant.
        (Meant("solo"), "solo", ""),
        (Meant("solo", "pair"), "pair-w0", "alice"),
    ],
)
def test_who_is_meant(meant: Meant, host: str, user: str) -> None:
    assert ssh.place(meant.run, meant, None)[1:] == (host, user)


def test_an_unknown_name_is_answered_with_the_one_that_it_resembles() -> None:
    with pytest.raises(click.ClickException) as caught:
        ssh.place("digit", Meant("digit"), None)
    assert caught.value.message == (
        "There is no worker, slice or run digit. Did you mean digits? "
        "There is digits, pair, pair-w0, pair-w1, solo."
    )


@pytest.mark.parametrize(
    ("run_user", "command", "words"),
    [
        ("", (), ""),
        ("ubuntu", (), ""),
        ("", ("ls *.log",), "ls *.log"),
        ("", ("ls", "a b"), "ls 'a b'"),
    ],
)
def test_what_the_login_itself_runs(run_user: str, command: tuple[str, ...], words: str) -> None:
    assert ssh.remote_words(run_user, "ubuntu", command) == words


@pytest.mark.parametrize(("may", "who"), [(True, "alice"), (False, "me")])
def test_a_run_is_logged_in_to_as_its_user_if_that_is_allowed(
    may: bool, who: str, tmp_path: Path
) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text(
        "#!/bin/sh\n"
        f"[ {may} = True ] || {{ echo sudo: a password is required >&2; exit 1; }}\n"
        'while [ "$1" != -- ]; do [ "$1" = -u ] && ME=$2; shift; done; shift\n'
        'export ME; exec "$@"\n'
    )
    sudo.chmod(0o755)
    words = ssh.remote_words("alice", "ubuntu", ("echo $ME 'a  b'; exit 3",))
    done = subprocess.run(
        ["/bin/sh", "-c", words],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "ME": "me"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, f"{who} a  b\n")
    assert ("may not become alice here" in done.stderr) is not may
