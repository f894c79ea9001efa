"""The live screen: keys, sizes, colours; and that the terminal is as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from fleet_seen import AT, Seen, answer, lab
from textual.pilot import Pilot

from tpu_fleet.top.app import STYLES, VIEWS, Top
from tpu_fleet.top.board import LEAST_ROWS
from tpu_fleet.top.closer import Closer, Key
from tpu_fleet.top.lines import Now
from tpu_fleet.top.source import Source


class Told:
    """A source that says what a test has for it."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.follower = self.looker = self
        self.near: set[str] = set()
        self.wanted: Key | None = None
        self.asked = 0
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def ask_now(self) -> None:
        self.asked += 1

    def look_at(self, names: set[str]) -> None:
        self.near = names

    def want(self, key: Key | None) -> None:
        self.wanted = key

    def now(self) -> Now:
        return self.seen.now()


Story = Callable[[Top, Pilot[int], Told], Awaitable[None]]


def played(story: Story, seen: Seen | None = None, size: tuple[int, int] = (80, 24)) -> Top:
    """Run the screen at a size while a story presses keys."""
    told = Told(seen or lab())
    app = Top(cast(Source, told), 3600)

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            assert told.running
            await story(app, pilot, told)

    asyncio.run(play())
    assert not told.running
    return app


def screen(app: Top) -> list[str]:
    """Return what is on the screen, from what Textual has composed."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip) for strip in strips]
    assert len(lines) == height
    assert {len(line) for line in lines} == {width}
    return [line.rstrip() for line in lines]


def test_the_first_screen() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        lines = screen(app)
        assert lines[0] == "lab  03:46:40 UTC  seen 2 s ago  1 restarting  1 pending  2 running"
        assert lines[1].startswith("7/9 workers answer | 16/40 chips busy | 24 idle: $24.00/h")
        assert lines[2].startswith("billed $0.00/h, $0.00 so far | grant 40/80 chips")
        assert lines[3].split() == ["RUN", "SLICE", "STATE", "STEP", "LOSS", "SAVED", "WHY"]
        names = [line.split()[0] for line in lines[4:10]]
        assert names == ["-", "evaluate", "segment", "words-large", "-", "digits"]
        assert lines[-2] == "-: the slice is preempted"
        assert lines[-1].startswith("1/6 runs  ? help")
        assert told.near == set(told.seen.hosts())
        assert told.wanted is None

    played(story)


def test_the_selected_run_has_its_curves_and_its_log_below() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        await pilot.press("j", "j")
        assert told.wanted == ("solo", "segment", 0)
        assert any("── segment on solo ───" in line for line in screen(app))
        assert any("(looking at its log)" in line for line in screen(app))
        values = tuple(map(float, range(8, 0, -1)))
        log = tuple(f"step {number}" for number in range(40))
        told.seen.closer = Closer(("solo", "segment", 0), values, values[::-1], log)
        app.take()
        lines = screen(app)
        (curves,) = [line for line in lines if line.startswith("loss 0.1234 █▇▆▅▄▃▂▁")]
        assert "▁▂▃▄▅▆▇█" in curves.partition("speed")[2]
        assert lines[-3] == "step 39"
        # Of another run it is not shown.
        await pilot.press("j")
        assert "step 39" not in screen(app)
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        app.take()
        assert told.wanted is None

    played(story)


def test_rows_are_sorted_and_only_mine_are_shown() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        def names() -> list[str]:
            return [f"{line.slice}/{line.run}" for line in app.board.lines]

        await pilot.press("s")
        runs = ["", "", "digits", "evaluate", "segment", "words-large"]
        assert [name.partition("/")[2] for name in names()] == runs
        assert "by name" in screen(app)[-1]
        await pilot.press("s", "s", "s")
        assert "by loss" in screen(app)[-1]
        assert {names()[-1], names()[-2]} == {"gone/", "spare/"}
        losses = [line.view.loss for line in app.board.lines if isinstance(line.view.loss, float)]
        assert len(losses) > 2
        assert losses == sorted(losses)
        await pilot.press("u")
        assert names() == ["solo/segment"]
        assert "only bob" in screen(app)[-1]
        # The others follow, and then everything.
        for user in ("alice", "carol"):
            await pilot.press("u")
            assert {line.view.user for line in app.board.lines} == {user}
        await pilot.press("u")
        assert len(names()) == 6
        await pilot.press("u")
        await pilot.press("escape")
        assert len(names()) == 6
        assert names()[0] == "gone/"

    played(story)


def test_the_selected_row_keeps_its_colour() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        rows = app.board.draw()[4:10]
        styles = ["bad cursor", "bad", "bad", "bad", "", "good"]
        assert [line[0][1] for line in rows] == styles
        assert STYLES["bad cursor"].color == STYLES["bad"].color
        assert STYLES["bad cursor"].reverse

    played(story)


def test_a_wide_screen_has_more_columns() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        titles = screen(app)[3].split()
        wanted = "RUN SLICE STATE STEP SPEED LOSS SAVED FOR WHO TRY DISK CHIPS TYPE TIER WHY"
        assert " ".join(titles) == wanted
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert screen(app)[3].split() == ["RUN", "STATE", "WHY"]
        await pilot.resize_terminal(12, 3)
        await pilot.pause()
        assert len(screen(app)) == 3

    played(story, size=(160, 50))


def test_keys_change_view_and_row() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        await pilot.press("3", "j", "down", "k", "j")
        assert app.board.selected is not None
        assert app.board.selected.name == "words-w3"
        await pilot.press("1")
        assert screen(app)[3].split()[0] == "RUN"
        await pilot.press("G")
        assert app.board.at == 5
        await pilot.press("g")
        assert app.board.at == 0
        await pilot.press("tab")
        assert app.board.view == "slices"
        await pilot.press("4")
        assert any("40 of 80 chips" in line for line in screen(app))
        await pilot.press("escape")
        assert app.board.view == "runs"
        await pilot.press("r")
        assert told.asked == 1

    played(story)


@pytest.mark.parametrize(("digit", "view"), list(enumerate(VIEWS, 1)))
def test_each_view_has_its_digit(digit: int, view: str) -> None:
    async def story(app: Top, pilot: Pilot[int], _told: Told) -> None:
        await pilot.press(str(digit))
        assert app.board.view == view

    played(story)


def test_the_filter() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        await pilot.press("slash", *"bob", "q")
        assert screen(app)[-1] == "/bobq_"
        await pilot.press("backspace", "enter")
        assert [line.name for line in app.board.lines] == ["segment"]
        assert "filter: bob" in screen(app)[-1]
        assert told.near == {"solo"}
        await pilot.press("escape")
        assert len(app.board.lines) == 6

    played(story)


def test_pages_of_text() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        await pilot.press("j", "j", "enter")
        lines = screen(app)
        assert lines[0].startswith("segment: restarting: exit code 137: the kernel ended it")
        assert any("/mnt/data is 97 % full" in line for line in lines)
        await pilot.press("j", "j", "k", "escape")
        assert screen(app)[3].startswith("RUN")
        await pilot.press("question_mark")
        assert any("Ctrl-B D comes back here" in line for line in screen(app))

    played(story)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("l", ("logs", "-f", "--tail", "200", "--slice", "solo", "segment")),
        ("a", ("attach", "--slice", "solo", "--worker", "0", "segment")),
        ("d", ("doctor", "--limit", "solo")),
    ],
)
def test_keys_call_other_commands(key: str, words: Sequence[str]) -> None:
    called = []

    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        app._call = lambda *words: called.append(words)  # type: ignore[method-assign]
        await pilot.press("j", "j", key)

    played(story)
    assert called == [words]


def test_the_cursor_stays_on_its_row() -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        await pilot.press("2", "G")
        assert app.board.selected is not None
        assert app.board.selected.name == "pair"
        told.seen.answers["pair-w0"] = answer({"state": "failed", "reason": "exit code 1"})
        app.take()
        assert app.board.selected.name == "pair"
        assert app.board.at < 4
        assert screen(app)[-2] == "pair: exit code 1"

    played(story)


def test_a_thousand_workers_scroll() -> None:
    seen = Seen({f"node-{number}": 1 for number in range(1000)})

    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        room = app.board.room
        assert room == 18
        assert told.near == {f"node-{number}" for number in range(room)}
        await pilot.press("pagedown")
        assert app.board.at == room
        await pilot.press("G")
        assert "node-999" in "\n".join(screen(app))
        assert len(told.near) == room
        await pilot.press("3", "slash", *"node-99")
        assert len(app.board.lines) == 11

    played(story, seen)


def test_the_selected_run_leaves_room_for_the_others() -> None:
    seen = Seen(dict.fromkeys(map(str, range(99)), 1), {str(n): answer({}) for n in range(99)})

    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        for height, room in ((24, 9), (60, 27), (16, LEAST_ROWS), (13, 7)):
            await pilot.resize_terminal(80, height)
            await pilot.pause()
            assert app.board.room == room
            assert (app.board.closer is None) == (height == 13)

    played(story, seen)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_keys_that_quit(key: str) -> None:
    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        await pilot.press(key)
        await pilot.pause()

    app = played(story)
    assert app.return_code == 0


def test_only_the_colours_of_the_terminal() -> None:
    assert {style.color.type.name for style in STYLES.values() if style.color} == {"STANDARD"}

    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                style: Any = segment.style
                assert style is None or style.bgcolor is None or style.bgcolor.is_default

    played(story)


def test_nothing_is_drawn_again_that_has_not_changed() -> None:
    drawn = []

    async def story(app: Top, pilot: Pilot[int], told: Told) -> None:
        app._pane.refresh = lambda *_words, **_more: drawn.append(1)  # type: ignore
        app.take()
        assert drawn == []
        told.seen.answers["solo"] = answer({"step": 1300})
        app.take()
        assert drawn == [1]

    assert AT
    played(story)
