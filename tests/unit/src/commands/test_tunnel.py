"""The tunnels: what there is, which one is meant, and that a broken one is opened again."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
import pytest

from tpu_fleet.commands import tunnel
from tpu_fleet.commands.tunnel import Served

NOTEBOOK = Served(
    name="notebook-a",
    host="solo",
    user="alice",
    port=8888,
    kind="notebook",
    description="JupyterLab a",
    url_path="/lab",
    enabled=True,
    token_file="/etc/tpu-fleet/services/notebook-a.token",
    ssh_config="/state/ssh_tunnels",
)
RAY = dataclasses.replace(NOTEBOOK, name="ray", kind="ray", url_path="/", port=8265)


def event(*services: dict[str, Any], **change: Any) -> dict[str, Any]:
    told = {"host": "solo", "ssh_config": "/state/ssh_tunnels", "services": list(services)}
    data = {
        "task": tunnel.SAY_WHERE,
        "host": "solo",
        "res": {"ansible_facts": {"fleet_tunnels": told}},
    }
    return {"event": "runner_on_ok", "event_data": {**data, **change}}


RECORD = {
    "name": "notebook-a",
    "user": "alice",
    "address": "127.0.0.1",
    "port": 8888,
    "kind": "notebook",
    "description": "JupyterLab a",
    "url_path": "/lab",
    "enabled": True,
    "token_file": "/etc/tpu-fleet/services/notebook-a.token",
}


def test_what_a_host_serves() -> None:
    worker = {**RECORD, "name": "ray-worker", "address": "10.0.0.2"}
    assert tunnel.services_of(event(RECORD, worker)) == [NOTEBOOK]
    assert tunnel.services_of(event(RECORD, task="Another")) == []


@pytest.mark.parametrize("name", ["notebook-a", "notebook-a.solo"])
def test_it_is_found(name: str) -> None:
    assert tunnel.choose([NOTEBOOK, RAY], name) is NOTEBOOK


@pytest.mark.parametrize(
    ("services", "name", "words"),
    [
        ([NOTEBOOK, RAY], "notebook-b", "There is notebook-a, ray"),
        ([], "ray", "nothing at all"),
        ([RAY, dataclasses.replace(RAY, host="pair-w0")], "ray", "one of ray.solo, ray.pair-w0"),
        ([dataclasses.replace(RAY, enabled=False)], "ray", "not enabled"),
    ],
)
def test_what_is_not_meant(services: list[Served], name: str, words: str) -> None:
    with pytest.raises(click.ClickException, match=words):
        tunnel.choose(services, name)


def test_the_token_is_read_by_who_may() -> None:
    assert tunnel.token_command(NOTEBOOK, "alice")[-3:] == ["solo", "cat", NOTEBOOK.token_file]
    assert tunnel.token_command(NOTEBOOK, None)[-4:-1] == ["sudo", "-n", "cat"]


def test_the_greeting_says_where_the_token_is() -> None:
    told = "\n".join(tunnel.greeting_of(NOTEBOOK, 9999, None, ""))
    assert "http://127.0.0.1:9999/lab\n" in told
    assert f"-l alice solo cat {NOTEBOOK.token_file}" in told
    assert "?token=abc" in "\n".join(tunnel.greeting_of(NOTEBOOK, 9999, None, "abc"))
    # The dashboard asks for it in a field.
    told = "\n".join(tunnel.greeting_of(RAY, 9999, None, "abc"))
    assert "?token" not in told
    assert "Token: abc" in told


def test_another_port_where_somebody_has_the_wanted_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert tunnel.free_port(port) not in (0, port)
    assert tunnel.free_port(port) == port


def test_pauses_grow_to_half_a_minute() -> None:
    assert [tunnel.pause_after(n) for n in (1, 2, 3, 9)] == [1.0, 2.0, 4.0, 30.0]


# Listens where the tunnel would, and ends when the file says so: a connection that breaks.
SSH = """#!{python}
import os, pathlib, socket, sys, time
forward = sys.argv[sys.argv.index("-L") + 1].split(":")
mark = pathlib.Path(os.environ["MARK"])
mark.write_text(str(os.getpid()))
server = socket.create_server((forward[0], int(forward[1])))
while mark.read_text() != "break":
    time.sleep(0.05)
sys.exit("connection lost")
"""
HOLD = """
import dataclasses, sys
sys.path.insert(0, "{tests}")
from test_tunnel import NOTEBOOK
from tpu_fleet.commands import tunnel
try:
    tunnel.hold(NOTEBOOK, {port}, None, ["It is open."])
except KeyboardInterrupt:
    print("closed")
"""


def test_a_broken_tunnel_is_opened_again_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text(SSH.format(python=sys.executable))
    program.chmod(0o755)
    mark = tmp_path / "mark"
    port = tunnel.free_port(0)
    process = subprocess.Popen(
        [sys.executable, "-uc", HOLD.format(tests=Path(__file__).parent, port=port)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "MARK": str(mark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    try:
        assert process.stdout.readline() == "It is open.\n"
        first = mark.read_text()
        mark.write_text("break")
        assert "broke: connection lost" in process.stdout.readline()
        assert process.stdout.readline() == "The tunnel is back.\n"
        second = mark.read_text()
        assert second not in (first, "break")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "closed\n"
    finally:
        process.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{second}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{second}").exists(), "ssh is left behind"


def test_much_that_ssh_says_does_not_stop_it() -> None:
    say = "import sys; sys.stderr.write('no\\n' * 100_000 + 'the end\\n')"
    with TemporaryFile() as said, tunnel.running([sys.executable, "-c", say], said) as process:
        assert process.wait(30) == 0
        assert tunnel.last_lines(said, 2) == "no\nthe end"
