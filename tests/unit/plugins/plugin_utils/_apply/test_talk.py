"""The controller's end of the talk, against the command that hosts run."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import digest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import talk as apply_talk
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.talk import TalkError, command, talk
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import program

FILES = {hashlib.sha256(b"one").hexdigest(): b"one"}
RESULT = {"say": "result", "status": "ok"}


class Script:
    """A host that answers by a script."""

    def __init__(self, *lines: Any) -> None:
        self.lines = [json.dumps(line).encode() + b"\n" for line in lines]
        self.got = b""

    async def readline(self) -> bytes:
        await asyncio.sleep(0)
        return self.lines.pop(0) if self.lines else b""

    async def write(self, data: bytes) -> None:
        self.got += data


def ask(host: Script) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    async def peers() -> dict[str, Any]:
        return {"w0": {"found": 1}}

    result = asyncio.run(talk(host, {"wish": {}}, FILES, b"agent", heard.append, peers))
    return result, heard


def test_a_host_is_told_who_has_a_file_nearer_and_gets_it_when_that_fails() -> None:
    name = next(iter(FILES))
    host = Script(
        {"say": "need", "files": [name]},
        {"say": "need", "files": [name], "direct": True},
        {"say": "result", "status": "ok"},
    )

    async def peers() -> dict[str, Any]:
        return {}

    async def elsewhere(name: str) -> str:
        return f"http://10.0.0.1:80/{name}"

    asyncio.run(talk(host, {"wish": {}}, FILES, b"agent", print, peers, elsewhere))
    told = host.got.split(b"\n", 1)[1]
    assert told == f"from {name} http://10.0.0.1:80/{name}\nfile {name} 3\none".encode()


def test_a_host_gets_what_it_asks_for() -> None:
    host = Script(
        {"say": "program"},
        {"say": "need", "files": list(FILES)},
        {"say": "peers"},
        {"say": "event", "event": "task", "task": "T", "status": "ok"},
        {"say": "result", "status": "ok"},
    )
    result, heard = ask(host)
    assert (result["status"], result["counts"], result["problem"]) == ("ok", {}, "")
    assert heard == [{"say": "event", "event": "task", "task": "T", "status": "ok"}]
    request, _newline, rest = host.got.partition(b"\n")
    assert request.startswith(b'{"asks": "%s", ' % digest({"wish": {}}).encode())
    assert json.loads(request) == {"asks": digest({"wish": {}}), "protocol": 1, "wish": {}}
    assert rest == b'5\nagentfile %s 3\none{"w0": {"found": 1}}\n' % next(iter(FILES)).encode()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], "without a result"),
        ([{"say": "need", "files": ["0" * 64]}], "which was not offered"),
        (["motd"], "the host: its answer is not accepted"),
        ([{"no": "say"}], "say is 'nothing', not there"),
        ([{"say": "need", "files": [["x"]]}], "files is 'a list of 1'"),
        ([{"say": "need", "files": list(FILES)}] * 2 + [RESULT], "the host wants [0-9a-f]+ again"),
        ([{"say": "need", "files": 2 * list(FILES)}, RESULT], "the host wants [0-9a-f]+ again"),
        ([{"say": "peers"}, {"say": "peers"}, RESULT], "the host said peers twice"),
        ([{"say": "serves", "port": 1}] * 2 + [RESULT], "the host said serves twice"),
        ([{"say": "program"}, {"say": "program"}, RESULT], "the host said program twice"),
    ],
)
def test_a_host_that_says_something_else(said: list[Any], words: str) -> None:
    with pytest.raises((TalkError, AnswerError), match=words):
        ask(Script(*said))


@pytest.mark.parametrize("stuck", [False, True], ids=["talks", "reads-nothing"])
def test_a_host_without_end_is_given_up_by_its_name(stuck: bool) -> None:
    class Endless(Script):
        async def readline(self) -> bytes:
            await asyncio.sleep(0)
            return b'{"say": "alive"}\n'

        async def write(self, data: bytes) -> None:
            if stuck:
                await asyncio.Event().wait()

    async def peers() -> dict[str, Any]:
        return {}

    async def story() -> Any:
        talked = talk(Endless(), {}, {}, b"", len, peers, host="evil-w0", seconds=0.2)
        return await asyncio.wait_for(talked, 20)

    with pytest.raises(TalkError, match=r"evil-w0 had no result after 0\.2 s"):
        asyncio.run(story())


def test_a_host_may_be_silent_as_long_as_it_looks_at_itself() -> None:
    assert apply_talk.SILENCE == 600


def test_the_program_goes_over_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "FOLDER", str(tmp_path / "new"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        said = "import sys\ndef main(): print(sys.argv[1].upper(), end='', flush=True); return 0\n"
        archive.writestr("tpu_fleet_apply/program.py", said)
        known = "def answer(path, line): return b'as before' if line == b'known\\n' else b''\n"
        archive.writestr("tpu_fleet_apply/glance.py", known)
    agent = packed.getvalue()
    words = shlex.split(command(agent, become=False))
    assert words[0] == "/usr/bin/python3"
    words[0] = sys.executable
    whole = b"hello\n%d\n%s" % (len(agent), agent)
    broken = subprocess.run(words, input=whole[:-5], capture_output=True, check=False)
    assert b"did not arrive whole" in broken.stderr
    first = subprocess.run(words, input=whole, capture_output=True, check=True)
    assert first.stdout == b'{"say": "program"}\nHELLO\n'
    second = subprocess.run(words, input=b"again\n", capture_output=True, check=True)
    assert second.stdout == b"AGAIN\n"
    third = subprocess.run(words, input=b"known\n", capture_output=True, check=True)
    assert third.stdout == b"as before"
    # Nothing is left of the one that broke off, and Python has it compiled.
    (kept,) = (tmp_path / "new").iterdir()
    assert list(kept.glob("tpu_fleet_apply/__pycache__/program.*.pyc"))
    assert "sudo" in command(agent)
