"""The live screen, with Textual: keys change the board, a timer takes what is known."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import click
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widget import Widget

from .board import HELP, Board, details
from .lines import Piece
from .source import Source

STYLES = {
    "": Style.null(),
    "bad": Style(color="red"),
    "wait": Style(color="yellow"),
    "good": Style(color="green"),
    "title": Style(bold=True),
    "foot": Style(bold=True),
}
STYLES |= {f"{name} cursor": style + Style(reverse=True) for name, style in STYLES.items()}
EARLY = (0.3, 1.0, 2.0, 3.5)
"""Seconds after the start at which the screen is drawn also: most answers come then."""
QUIT_BY: dict[int, int] = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
"""The exit code of each signal, as shells have it."""
VIEWS = ("runs", "slices", "workers", "grant", "queue")
BY_DIGIT = {str(number): view for number, view in enumerate(VIEWS, 1)}


class Pane(Widget, can_focus=True):
    """The whole screen as one widget, which is drawn again only when a line has changed."""

    DEFAULT_CSS = "Pane { width: 100%; height: 100%; }"

    def __init__(self, board: Board) -> None:
        super().__init__()
        self.board = board
        self._drawn: list[list[Piece]] = []

    def draw(self) -> None:
        """Draw the board, if it differs from what is on the screen."""
        drawn = self.board.draw()
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Take another size."""
        self.board.resize(event.size.width, event.size.height)
        self.draw()

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        pieces = self._drawn[y] if y < len(self._drawn) else []
        return Strip([Segment(text, STYLES[style]) for text, style in pieces])


class Top(App[int]):
    """`tpu-fleet top`."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "* { background: ansi_default; color: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "leave", show=False, priority=True)]

    def __init__(self, source: Source, every: float) -> None:
        # The terminal's own colours, and none where NO_COLOR is set.
        super().__init__(ansi_color=True)
        self.source = source
        self.board = Board()
        self._every = every
        self._pane = Pane(self.board)
        self._before: dict[int, Any] = {}
        self.call_out: Callable[[Sequence[str]], int] = in_terminal

    def compose(self) -> ComposeResult:
        """Return the only widget."""
        yield self._pane

    def on_mount(self) -> None:
        """Begin."""
        self._pane.focus()
        self._take_signals()
        self.source.start()
        self.take()
        for seconds in EARLY:
            self.set_timer(seconds, self.take)
        self.set_interval(self._every, self.take)

    def on_unmount(self) -> None:
        """End all connections, also after a crash."""
        self.source.stop()
        for number, before in self._before.items():
            signal.signal(number, before)

    def take(self) -> None:
        """Take what is known now, and draw it."""
        self.board.update(self.source.now())
        self._show()

    def _show(self) -> None:
        self.source.follower.look_at(self.board.near())
        self.source.looker.want(self.board.closer)
        self._pane.draw()

    def action_leave(self) -> None:
        """Quit."""
        self.exit(0)

    def _take_signals(self) -> None:
        """End properly by a signal, so that the terminal is as it was."""
        loop = asyncio.get_running_loop()

        def end(number: int, _frame: object) -> None:
            loop.call_soon_threadsafe(self.exit, QUIT_BY[number])

        # Not by the loop: it would get a Ctrl-C that was for another command.
        for number in QUIT_BY:
            self._before[number] = signal.signal(number, end)

    def on_key(self, event: events.Key) -> None:
        """Do what a key says."""
        if self.board.typing:
            self._type(event)
        elif event.key == "q":
            self.exit(0)
        else:
            self._do(event.key, event.character or "")
        event.stop()
        if self._running:
            self._show()

    def _type(self, event: events.Key) -> None:
        board = self.board
        if event.key in ("enter", "escape"):
            board.typing = False
            if event.key == "escape":
                board.narrow("")
        elif event.key == "backspace":
            board.narrow(board.filter[:-1])
        elif event.is_printable and event.character:
            board.narrow(board.filter + event.character)

    def _do(self, key: str, character: str) -> None:
        board = self.board
        page = board.room
        moves = {"j": 1, "down": 1, "k": -1, "up": -1, "pagedown": page, "pageup": -page}
        moves |= {"g": -(10**9), "home": -(10**9), "G": 10**9, "end": 10**9}
        commands = {"l": self.open_log, "a": self.open_terminal, "d": self.open_doctor}
        if key in moves or character in moves:
            board.go(moves.get(key) or moves[character])
        elif character in BY_DIGIT:
            board.show(BY_DIGIT[character])
        elif key == "tab":
            board.show(VIEWS[(VIEWS.index(board.view) + 1) % len(VIEWS)])
        elif character == "/" and board.text is None:
            board.typing = True
        elif character == "s" and board.text is None:
            board.sort()
        elif character == "u" and board.text is None:
            board.next_person()
        elif character == "?":
            board.open(HELP.strip("\n").split("\n"))
        elif key == "escape":
            board.leave()
        elif key == "enter" and board.selected and board.now:
            board.open(details(board.selected, board.now))
        elif key == "r":
            self.source.ask_now()
        elif key in commands:
            commands[key]()

    def open_log(self) -> None:
        """Open the log of the selected row."""
        line = self.board.selected
        if line and line.run:
            self._call("logs", "-f", "--tail", "200", "--slice", line.slice, line.run)

    def open_terminal(self) -> None:
        """Open the terminal of the selected row."""
        line = self.board.selected
        if line and line.run:
            self._call("attach", "--slice", line.slice, "--worker", str(line.worker), line.run)

    def open_doctor(self) -> None:
        """Open the doctor of the selected row."""
        line = self.board.selected
        if line and line.host:
            self._call("doctor", "--limit", line.host)

    def _call(self, *words: str) -> None:
        """Give the terminal to another command of tpu-fleet, and come back."""
        with self.suspend():
            self.call_out(words)


def in_terminal(words: Sequence[str]) -> int:
    """Run a command of tpu-fleet in the terminal, and wait for a key, so that it can be read."""
    # Ctrl-C is for the command. A handler, because the command would inherit that it is ignored.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        click.echo(f"tpu-fleet {' '.join(words)}")
        code = subprocess.run([sys.executable, "-m", "tpu_fleet", *words], check=False).returncode
        # After a detach all is seen.
        if words[0] != "attach" or code:
            click.echo("\nPress a key to go back.")
            with contextlib.suppress(KeyboardInterrupt, EOFError):
                click.getchar()
    finally:
        signal.signal(signal.SIGINT, before)
    return code
