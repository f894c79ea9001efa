"""`tpu-fleet ssh` as a person calls it, on real SSH servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from fleet_folder import TPU_FLEET, Fleet
from ports import free_port
from sshd import Farm
from terminal import Terminal


@pytest.fixture(scope="module")
def fleet(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet whose configuration is written by a command."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), farm, {"solo": 1, "pair": 2})
    assert fleet.run("exec", "--slice", "solo", "--", "true").returncode == 0
    return fleet


def address(fleet: Fleet, worker: str) -> str:
    return str(fleet.groups["tpu"][worker]["ansible_host"])


WHERE = "set -- $SSH_CONNECTION; echo $3"


@pytest.mark.parametrize(
    ("words", "worker"),
    [
        (["pair-w1"], "pair-w1"),
        (["pair"], "pair-w0"),
        (["pair", "--worker", "1"], "pair-w1"),
        (["solo"], "solo"),
    ],
)
def test_a_worker_and_a_slice(fleet: Fleet, words: list[str], worker: str) -> None:
    done = fleet.run("ssh", *words, "--", WHERE)
    assert (done.returncode, done.stdout) == (0, f"{address(fleet, worker)}\n"), done.stderr


def test_the_command_is_passed_on_with_its_exit_code(fleet: Fleet) -> None:
    done = fleet.run("ssh", "pair-w1", "--", "printf", "%s|", "a b", "$HOME", "'", "--slice")
    assert (done.returncode, done.stdout) == (0, "a b|$HOME|'|--slice|"), done.stderr
    done = fleet.run("ssh", "pair-w1", "--", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_a_pipe_goes_through(fleet: Fleet) -> None:
    done = subprocess.run(
        [TPU_FLEET, "ssh", "solo", "--", "tr", "a-z", "A-Z"],
        cwd=fleet.folder,
        env=fleet.environment,
        input="words\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "WORDS\n"), done.stderr


def test_a_command_that_returns_255_is_not_started_twice(fleet: Fleet) -> None:
    before = fleet.farm.sessions()
    done = fleet.run("ssh", "solo", "--", "exit 255")
    assert (done.returncode, done.stderr) == (255, "")
    assert fleet.farm.sessions() - before == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["pair-w7"], "There is no worker, slice or run pair-w7. Did you mean pair-w1?"),
        (["pair", "--worker", "2"], "pair has no worker 2, but 0, 1."),
        ([], "Say which worker, slice or run. There is pair-w[0-1],solo."),
    ],
)
def test_unknown_names(fleet: Fleet, words: list[str], says: str) -> None:
    done = fleet.run("ssh", *words, "--", "true")
    assert done.returncode == 1
    assert says in done.stderr


def test_a_fleet_of_one_worker_needs_no_name(farm: Farm, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    done = fleet.run("ssh", "--", "echo here")
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


def elsewhere(fleet: Fleet, worker: str) -> None:
    """Have this computer know another address of a worker, where no machine is."""
    nowhere = "127.77.11.2"
    port = free_port(nowhere)
    [path] = (fleet.state / "workers").iterdir()
    stored = json.loads(path.read_text())
    stored["targets"][worker].update(address=nowhere, port=port)
    path.write_text(json.dumps(stored))
    (fleet.state / "ssh_config").unlink()
    # A command that asks no worker writes the configuration again.
    fleet.run("exec", "--no-refresh", "--limit", worker, "--", "true")


def test_a_worker_that_moved_is_found(farm: Farm, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"pair": 2})
    assert fleet.run("exec", "--", "true").returncode == 0
    elsewhere(fleet, "pair-w1")
    done = fleet.run("ssh", "pair-w1", "--", WHERE)
    assert (done.returncode, done.stdout) == (0, f"{address(fleet, 'pair-w1')}\n"), done.stderr
    assert "pair-w1: it was not reached. Reading its address from the API." in done.stderr


def test_a_machine_with_another_host_key_is_refused(farm: Farm, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", farm, {"pair": 2})
    # The key that is known for this worker is another machine's.
    other = next(host for host, server, _at in farm.hosts() if server is not farm.servers[0])
    fleet.groups["tpu"]["pair-w0"]["tpu_vm_ssh_options"]["HostKeyAlias"] = f"tpu.{other}.0"
    fleet.write()
    done = fleet.run("ssh", "pair", "--", "echo in")
    assert (done.returncode, done.stdout) == (255, "")
    assert "verification failed" in done.stderr


def test_a_shell_at_a_terminal(fleet: Fleet) -> None:
    person = Terminal(fleet.folder, fleet.environment, columns=80)
    person.type(f"{TPU_FLEET} ssh pair-w1", until=r"[$#] $")
    said = person.type(f"{WHERE}; stty size", until=r"30 80")
    assert address(fleet, "pair-w1") in said
    person.type("exit 7")
    assert "code 7" in person.type("echo code $?", until=r"code \d+")
    person.close()
