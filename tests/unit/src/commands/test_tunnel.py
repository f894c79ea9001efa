"""The tunnels: what there is, which one is meant, and that a broken one is opened again."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError

from tpu_fleet.commands import tunnel
from tpu_fleet.commands.ports import free_port
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
        "task": "Show the file",
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
    assert tunnel.services_of(event(RECORD, res={"ansible_facts": {}})) == []
    assert tunnel.services_of({**event(RECORD), "event": "runner_on_failed"}) == []


@pytest.mark.parametrize("name", ["notebook-a", "notebook-a.solo"])
def test_it_is_found(name: str) -> None:
    assert tunnel.choose([NOTEBOOK, RAY], name) is NOTEBOOK


@pytest.mark.parametrize(
    ("services", "name", "words"),
    [
        ([NOTEBOOK, RAY], "notebook-b", "There is notebook-a, ray"),
        ([], "ray", "none at all"),
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
    told = "\n".join(tunnel.greeting_of(NOTEBOOK, 9999, ""))
    assert "http://127.0.0.1:9999/lab\n" in told
    assert f"-l alice solo cat {NOTEBOOK.token_file}" in told
    assert "?token=abc" in "\n".join(tunnel.greeting_of(NOTEBOOK, 9999, "abc"))
    # The dashboard asks for it in a field.
    told = "\n".join(tunnel.greeting_of(RAY, 9999, "abc"))
    assert "?token" not in told
    assert "Token: abc" in told


def test_pauses_grow_to_half_a_minute() -> None:
    assert [tunnel.pause_after(n) for n in (1, 2, 3, 9)] == [1.0, 2.0, 4.0, 30.0]


# What ssh does: the connection, which ends when the file says so, the question who listens on the
# worker, which another file answers, and the forwarded port.
SSH = """#!{python}
import os, pathlib, socket, sys, time
mark = pathlib.Path(os.environ["MARK"])
path = next(word for word in sys.argv if word.startswith("ControlPath=")).partition("=")[2]
control, forwarded = pathlib.Path(path), pathlib.Path(path + ".forwarded")
if "-O" in sys.argv:
    if "forward" in sys.argv:
        whole = pathlib.Path(path + ".whole")
        whole.write_text(sys.argv[sys.argv.index("-L") + 1])
        whole.rename(forwarded)
        end = time.monotonic() + 20
        while forwarded.exists():
            if time.monotonic() > end:
                sys.exit("not forwarded")
            time.sleep(0.05)
    sys.exit(0 if control.exists() else 255)
if "-M" not in sys.argv:
    mark.with_name("asked").open("a").write(sys.argv[-1] + "\\n")
    print(mark.with_name("answer").read_text())
    sys.exit(0)
mark.write_text(str(os.getpid()))
control.touch()
while mark.read_text() != "break":
    if forwarded.exists():
        way = forwarded.read_text().split(":")
        server = socket.create_server((way[0], int(way[1])))
        forwarded.unlink()
    time.sleep(0.05)
sys.exit("connection lost")
"""
LISTENS = '{"listens": true, "stranger": ""}'
STRANGER = '{"listens": true, "stranger": "process 77 (python3 trap.py) of alice"}'
HOLD = """
import dataclasses, sys
sys.path.insert(0, "{tests}")
from test_tunnel import NOTEBOOK
from tpu_fleet.commands import tunnel
from tpu_fleet.commands.ports import free_port
import signal
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    tunnel.hold(NOTEBOOK, {port}, None, ["It is open."])
except KeyboardInterrupt:
    print("closed")
except tunnel.StrangerError as error:
    sys.exit(str(error))
"""


class Held:
    """A tunnel that is held open by a process, over an ssh that does what the test wants."""

    def __init__(self, folder: Path) -> None:
        program = folder / "ssh"
        program.write_text(SSH.format(python=sys.executable))
        program.chmod(0o755)
        self.mark, self._answer = folder / "mark", folder / "answer"
        self.asked = folder / "asked"
        self.port = free_port(0)
        self.answer(LISTENS)
        self.process = subprocess.Popen(
            [sys.executable, "-uc", HOLD.format(tests=Path(__file__).parent, port=self.port)],
            env={
                **os.environ,
                "PATH": f"{folder}:{os.environ['PATH']}",
                "MARK": str(self.mark),
                "TMPDIR": str(folder),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def answer(self, text: str) -> None:
        self._answer.write_text(text)

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def until(self, wanted: str, skipped: str) -> None:
        """Read lines until one is as wanted; a busy computer may need several tries."""
        while (line := self.line()) != wanted:
            assert skipped in line

    def end(self) -> None:
        """Fail if an ssh is left behind."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        pid = self.mark.read_text()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not Path(f"/proc/{pid}").exists(), "ssh is left behind"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    one = Held(tmp_path)
    yield one
    one.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broken_tunnel_is_opened_again_and_a_signal_ends_it(
    held: Held, number: signal.Signals
) -> None:
    assert held.line() == "It is open.\n"
    assert tunnel.answers(held.port)
    first = held.mark.read_text()
    held.mark.write_text("break")
    assert "broke: connection lost" in held.line()
    held.until("The tunnel is back.\n", "Trying again")
    assert held.mark.read_text() not in (first, "break")
    # The question is asked over each connection.
    assert len(held.asked.read_text().splitlines()) >= 2
    held.process.send_signal(number)
    assert held.process.communicate(timeout=30)[0] == "closed\n"


def test_a_stranger_on_the_port_gets_nothing(held: Held) -> None:
    assert held.line() == "It is open.\n"
    held.answer(STRANGER)
    held.mark.write_text("break")
    assert "broke: connection lost" in held.line()
    refused = held.line()
    assert "Port 8888 of solo is held by process 77 (python3 trap.py) of alice" in refused
    assert "Nothing was sent there" in refused
    assert held.process.wait(30) == 1
    assert not tunnel.answers(held.port)


def test_a_service_that_does_not_listen_yet_is_waited_for(held: Held) -> None:
    assert held.line() == "It is open.\n"
    held.answer('{"listens": false, "stranger": ""}')
    held.mark.write_text("break")
    assert "broke: connection lost" in held.line()
    assert "notebook-a does not listen yet. Trying again." in held.line()
    assert not tunnel.answers(held.port)
    held.answer(LISTENS)
    held.until("The tunnel is back.\n", "Trying again")


@pytest.mark.parametrize(
    ("code", "answer", "error", "words"),
    [
        (0, STRANGER, tunnel.StrangerError, "held by process 77"),
        (0, '{"listens": false}', tunnel.NotYetError, "notebook-a does not listen yet"),
        (255, LISTENS, tunnel.NotYetError, "connection closed"),
        (0, "", AnswerError, "solo"),
        (0, "no", AnswerError, "solo"),
        (0, "[]", AnswerError, "solo"),
        (0, '{"stranger": ""}', AnswerError, "listens"),
        (0, '{"listens": 1}', AnswerError, "listens"),
        (0, '{"listens": true, "stranger": 1}', AnswerError, "stranger"),
    ],
)
def test_the_port_is_forwarded_only_if_the_worker_says_so(
    code: int, answer: str, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def ask(command: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, code, answer, "connection closed")

    monkeypatch.setattr(tunnel, "_asked", ask)
    with pytest.raises(error, match=words):
        tunnel.Link(NOTEBOOK, None, "/t/ssh").forward(9999)
    assert ["-O" in command for command in asked] == [False]


def test_much_that_ssh_says_does_not_stop_it() -> None:
    say = "import sys; sys.stderr.write('no\\n' * 100_000 + 'the end\\n')"
    with TemporaryFile() as said, tunnel.running([sys.executable, "-c", say], said) as process:
        assert process.wait(30) == 0
        assert tunnel.last_lines(said, 2) == "no\nthe end"
