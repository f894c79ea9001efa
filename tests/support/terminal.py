"""A person at a terminal: a shell in a pseudo terminal, and what it wrote with the times of it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pexpect

Event = tuple[float, str]
"""When something was written, in seconds since the terminal was opened, and what."""
CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()].|[=>])|\r")
PROMPT = re.compile(r"(?:^|\n)(?:\(\S+\) )?\$ $")


class Terminal:
    """A bash at a terminal of some size, and a user who takes some time for a key."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        columns: int = 100,
        rows: int = 30,
        key_seconds: float = 0.0,
    ) -> None:
        self.columns, self.rows = columns, rows
        self.environment = environment
        self._key_seconds = key_seconds
        self.events: list[Event] = []
        self._said = ""
        self._began = time.monotonic()
        self._child = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile"],
            cwd=str(folder),
            env={**environment, "PS1": "$ ", "TERM": "xterm-256color"},
            dimensions=(rows, columns),
            encoding="utf-8",
            codec_errors="replace",
        )
        self._child.delaybeforesend = None
        self.wait_for(PROMPT, 10)

    def type(self, line: str, until: str | re.Pattern[str] = PROMPT, seconds: float = 600) -> str:
        """Type a line key by key; return what is written until something is, as a rule a prompt."""
        self._said = ""
        for key in line:
            self.press(key)
            time.sleep(self._key_seconds)
            self.look(0)
        # What is typed is shown, on a busy computer somewhat later; a long line is broken.
        self.wait_for(" ?".join(map(re.escape, line)), 10)
        self._said = ""
        self.press("\r")
        return self.wait_for(until, seconds)

    def run(self, line: str, code: int = 0) -> str:
        """Run a command that has to exit with this code; return what it writes."""
        said = self.type(line)
        shown = len(self.events)
        ended = self.type("echo $?").split()[0]
        # That was our question, not the person's.
        del self.events[shown:]
        assert ended == str(code), f"{line}\n{said}"
        return said

    def press(self, keys: str) -> None:
        """Press keys, and wait for nothing."""
        self._child.send(keys)

    def wait_for(self, seen: str | re.Pattern[str], seconds: float) -> str:
        """Return what is written until something is seen."""
        end = time.monotonic() + seconds
        while True:
            said = CONTROL.sub("", self._said)
            if re.search(seen, said):
                return said
            assert time.monotonic() < end, f"no {seen} in {seconds} s, but:\n{said}"
            self.look(0.5)

    def look(self, seconds: float) -> None:
        """Take in what is written, for some time at most."""
        try:
            text = self._child.read_nonblocking(1 << 16, timeout=seconds)
        except pexpect.TIMEOUT:
            return
        self._said += text
        self.events.append((time.monotonic() - self._began, text))

    def read(self, seconds: float) -> None:
        """Take time to read what is on the screen, which may change."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look(0.2)

    def close(self) -> None:
        """Hang up."""
        self._child.close(force=True)
