"""Messages arrive: at a web server, a mail server and a command of the test."""

from __future__ import annotations

import json
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from tpu_fleet.notify import by_apprise
from tpu_fleet.notify.message import Message
from tpu_fleet.notify.send import NotSentError, send, ways_of, what_is_missing

MESSAGE = Message(
    "failed", "digits failed on pair", "Attempt 4.", 0.0, "p", "pair", "digits", ("x", "y")
)


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
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_webhooks(hook: Any, tmp_path: Path) -> None:
    address, token = tmp_path / "address", tmp_path / "token"
    address.write_text(f"{hook.url}\n")
    token.write_text("tk_1\n")
    send(MESSAGE, {"webhook": hook.url})
    send(MESSAGE, {"webhook_file": str(address), "format": "slack"})
    send(MESSAGE, {"webhook_file": str(address), "format": "ntfy", "token_file": str(token)})
    plain, slack, ntfy = hook.got
    assert json.loads(plain["body"])["log"] == ["x", "y"]
    assert "Authorization" not in plain["headers"]
    assert json.loads(slack["body"])["text"].startswith("*digits failed on pair*")
    assert ntfy["body"] == b"Attempt 4.\n\nx\ny"
    assert ntfy["headers"]["Title"] == "digits failed on pair"
    assert ntfy["headers"]["Authorization"] == "Bearer tk_1"


def test_what_goes_wrong_shows_no_address(hook: Any, tmp_path: Path) -> None:
    # A redirection would carry the address, or what is in it, to somebody else.
    for status in (302, 404, 500):
        hook.status = status
        with pytest.raises(NotSentError, match=f"answered {status}$"):
            send(MESSAGE, {"webhook": hook.url})
    hook.stop()
    wrong = ("http://127.0.0.1:1/hush", "http://user:hush@[bad/", "ftp://hush")
    for address in (hook.url, *wrong):
        with pytest.raises(NotSentError) as caught:
            send(MESSAGE, {"webhook": address})
        assert "hush" not in str(caught.value)
    for content in (None, ""):
        file = tmp_path / "file"
        if content is not None:
            file.write_text(content)
        with pytest.raises(NotSentError, match=r"cannot be read|is empty"):
            send(MESSAGE, {"webhook_file": str(file)})


def test_mail(sink: Any) -> None:
    port = sink.server_address[1]
    entry = {"to": ["a@example.org"], "from": "f@example.org", "server": "127.0.0.1", "port": port}
    send(MESSAGE, {"mail": {**entry, "security": "none"}})
    [mail] = sink.mails
    parsed = message_from_bytes(mail)
    assert parsed["Subject"] == "[p] digits failed on pair"
    assert b"Attempt 4." in mail
    # A server without TLS gets nothing in the clear that was to be safe.
    with pytest.raises(NotSentError, match="does not take the mail"):
        send(MESSAGE, {"mail": entry})
    login = {**entry, "security": "none", "server": "mail.example.org", "user": "u"}
    with pytest.raises(NotSentError, match="a password is not sent unencrypted"):
        send(MESSAGE, {"mail": {**login, "password": "hush"}})
    assert len(sink.mails) == 1


def test_apprise(hook: Any, elsewhere: Any, tmp_path: Path, monkeypatch: Any) -> None:
    netrc, address = tmp_path / "netrc", tmp_path / "address"
    netrc.write_text("machine 127.0.0.1 login me password hush\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    # `redirect=yes` in an address would be followed by apprise itself.
    address.write_text(f"{hook.url.replace('http', 'json', 1)}?redirect=yes\n")
    send(MESSAGE, {"apprise_file": str(address), "lines": 1})
    [got] = hook.got
    told = json.loads(got["body"])
    assert (told["title"], told["message"], told["type"]) == (
        "digits failed on pair",
        "Attempt 4.\ny",
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


def test_without_the_extra(monkeypatch: Any) -> None:
    assert what_is_missing({"apprise": "json://x"}) == ""
    monkeypatch.setattr(by_apprise, "is_there", lambda: False)
    assert what_is_missing({"command": "true"}) == ""
    with pytest.raises(NotSentError, match=r"pip install 'tpu-fleet\[apprise\]'"):
        send(MESSAGE, {"apprise_file": "~/none"})


def test_commands(tmp_path: Path) -> None:
    told = tmp_path / "told"
    send(MESSAGE, {"command": f'echo "$TPU_FLEET_TITLE" > {told}; cat >> {told}', "lines": 1})
    title, body = told.read_text().split("\n", 1)
    assert (title, json.loads(body)["log"]) == ("digits failed on pair", ["y"])
    with pytest.raises(NotSentError, match="ended with 3: no"):
        send(MESSAGE, {"command": "echo no >&2; exit 3"})


def test_what_cannot_even_be_written_is_not_sent() -> None:
    mail = {"to": ["a@b\nBcc: c@d"], "from": "f@example.org", "server": "127.0.0.1"}
    with pytest.raises(NotSentError, match="cannot be formatted: ValueError"):
        send(MESSAGE, {"mail": {**mail, "security": "none"}})


def test_names_of_ways() -> None:
    entries = [{"webhook": "x"}, {"mail": {"to": []}}, {"command": "x", "name": "own"}]
    entries.append({"apprise_file": "x"})
    names = [way.name for way, _entry in ways_of(entries)]
    assert names == ["webhook-1", "mail-2", "own", "apprise-4"]
