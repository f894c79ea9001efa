"""Messages arrive at a web server, a mail server and a command of the test."""

from __future__ import annotations

import json
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import apprise
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import check_notify

from tpu_fleet.notify import by_apprise
from tpu_fleet.notify.by_apprise import REFUSALS
from tpu_fleet.notify.message import Message
from tpu_fleet.notify.send import (
    APPRISE,
    NO_ADDRESS,
    REFUSED,
    NotSentError,
    RefusedError,
    send,
    ways_of,
)

MESSAGE = Message(
    "failed", "digits failed on pair", "Attempt 4.", 0.0, "p", "pair", "digits", ("x", "y")
)
MAIL = {"to": ["a@example.org"], "from": "f@example.org", "server": "smtp.example.org"}


class Sink(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs to leave a mail."""

    mails: list[bytes]

    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper() if line.split() else b""
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line)
                if self.server.refuses:  # type: ignore[attr-defined]
                    self.wfile.write(b"554 no\r\n")
                    continue
                self.server.mails.append(b"".join(lines))  # type: ignore[attr-defined]
            if word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(b"250 ok\r\n")


@pytest.fixture
def sink() -> Iterator[Any]:
    """A mail server that keeps what it gets."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Sink)
    server.mails = []  # type: ignore[attr-defined]
    server.refuses = False  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_what_goes_wrong_shows_no_address(hook: Any, tmp_path: Path) -> None:
    for content in (None, ""):
        file = tmp_path / "file"
        if content is not None:
            file.write_text(content)
        with pytest.raises(NotSentError, match=r"cannot be read|is empty"):
            send(MESSAGE, {"apprise_file": str(file)})
    file.write_text("mailto://u:hush@mail.example.org")
    with pytest.raises(NotSentError, match="a password is not sent unencrypted") as caught:
        send(MESSAGE, {"apprise_file": str(file)})
    assert "hush" not in str(caught.value)


def test_a_receiver_that_refuses_a_message_may_take_another(hook: Any, sink: Any) -> None:
    for hook.status in REFUSALS:
        with pytest.raises(RefusedError, match=r"^the receiver refused it$"):
            send(MESSAGE, {"apprise": hook.url})
    sink.refuses = True
    port = sink.server_address[1]
    mail = f"mailto://example.org?smtp=127.0.0.1&port={port}&from=f@example.org&to=a@example.org"
    with pytest.raises(RefusedError):
        send(MESSAGE, {"apprise": mail})


def test_the_module_that_sends_exits_as_it_is_understood() -> None:
    assert (by_apprise.NO_ADDRESS, by_apprise.REFUSED) == (NO_ADDRESS, REFUSED)
    assert by_apprise.__name__ == APPRISE


def test_mail(sink: Any) -> None:
    port = sink.server_address[1]
    where = f"smtp=127.0.0.1&port={port}&from=f@example.org&to=a@example.org"
    send(MESSAGE, {"apprise": f"mailto://example.org?{where}"})
    [mail] = sink.mails
    parsed = message_from_bytes(mail)
    assert parsed["Subject"] == "digits failed on pair"
    assert b"Attempt 4." in mail
    # A server without TLS gets nothing in the clear that was to be safe.
    with pytest.raises(NotSentError, match="could not send it"):
        send(MESSAGE, {"apprise": f"mailtos://u:hush@example.org?{where}"})
    assert len(sink.mails) == 1


@pytest.mark.parametrize(
    "entry",
    [
        *({"webhook": "https://hush", "format": form} for form in ("json", "slack", "ntfy")),
        *(
            {"mail": {**MAIL, **login, "security": security}}
            for security in ("starttls", "tls", "none")
            for login in ({}, {"user": "u"})
        ),
    ],
)
def test_apprise_understands_what_replaces_older_ways(entry: dict[str, Any]) -> None:
    [problem] = check_notify({"fleet_notify": [entry]})
    address = problem.remedy.partition("with the address ")[2].split()[0].removesuffix(".")
    real = {"HOST": "host.example.org", "A/B/C": f"{'T' * 9}/{'B' * 9}/{'C' * 24}"}
    for name, value in real.items():
        address = address.replace(name, value)
    assert apprise.Apprise.instantiate(address) is not None, address


def test_apprise(hook: Any, elsewhere: Any, tmp_path: Path, monkeypatch: Any) -> None:
    netrc, address = tmp_path / "netrc", tmp_path / "address"
    netrc.write_text("machine 127.0.0.1 login me password hush\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    # `redirect=yes` in an address would be followed by apprise itself.
    address.write_text(f"{hook.url}?redirect=yes\n")
    send(MESSAGE, {"apprise_file": str(address), "lines": 1})
    [got] = hook.got
    told = json.loads(got["body"])
    assert (told["title"], told["message"], told["type"]) == (
        "digits failed on pair",
        "Attempt 4.\n\ny",
        "failure",
    )
    assert "Authorization" not in got["headers"]
    # 307 and 308 would carry the message, too.
    hook.location = elsewhere.url
    for hook.status in (301, 302, 307, 308, 404, 500):
        with pytest.raises(NotSentError, match=r"^apprise could not send it$"):
            send(MESSAGE, {"apprise_file": str(address)})
    assert (len(hook.got), elsewhere.asked) == (1, [])


def test_what_apprise_says_is_not_shown(capfd: Any) -> None:
    for address, why in (
        ("json://127.0.0.1:1/hush", "could not send it"),
        ("hush", "does not understand the address"),
        ("discord://hush", "does not understand the address"),
    ):
        with pytest.raises(NotSentError, match=why) as caught:
            send(MESSAGE, {"apprise": address})
        assert "hush" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_the_address_is_in_no_argument(monkeypatch: Any) -> None:
    seen: list[Any] = []

    def run(words: list[str], **more: Any) -> Any:
        seen.append((words, more))
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    send(MESSAGE, {"apprise": "json://hush"})
    [(words, more)] = seen
    assert b"hush" in more["input"]
    assert "hush" not in " ".join([*words, *more["env"].values()])


def test_commands(tmp_path: Path) -> None:
    told = tmp_path / "told"
    send(MESSAGE, {"command": f'echo "$TPU_FLEET_TITLE" > {told}; cat >> {told}', "lines": 1})
    title, body = told.read_text().split("\n", 1)
    assert (title, json.loads(body)["log"]) == ("digits failed on pair", ["y"])
    with pytest.raises(NotSentError, match="ended with 3: no"):
        send(MESSAGE, {"command": "echo no >&2; exit 3"})


def test_what_cannot_even_be_written_is_not_sent(monkeypatch: Any) -> None:
    def broken(*_given: Any) -> Any:
        raise ValueError("hush")

    monkeypatch.setattr("tpu_fleet.notify.send.notice", broken)
    with pytest.raises(RefusedError, match=r"cannot be formatted: ValueError$"):
        send(MESSAGE, {"apprise": "json://x"})


def test_names_of_ways() -> None:
    entries = [{"apprise": "x"}, {"command": "x", "name": "own"}, {"command": "x"}]
    entries.append({"apprise_file": "x"})
    names = [way.name for way, _entry in ways_of(entries)]
    assert names == ["apprise-1", "own", "command-3", "apprise-4"]
