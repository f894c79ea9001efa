"""Pictures of what a terminal showed."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from terminal_picture import COLUMN, LAST, LONGEST, film, picture

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "pictures"
RED = "\x1b[1;31mno <b> & \x1b[0mrest"


def texts(drawn: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def frames(drawn: str) -> list[tuple[float, int]]:
    """When each screen begins, in percent of the film, and how far up it is moved."""
    found = re.findall(r"([\d.]+)%{transform:translateY\(-(\d+)px\)}", drawn)
    return [(float(at), int(up)) for at, up in found]


def test_what_was_written_stands_there_as_text_in_its_colour() -> None:
    drawn = picture("a & b", [(0, RED)], 40)
    assert texts(drawn) == ["a &amp; b", "no &lt;b&gt; &amp;", "rest"]
    assert 'class="red b"' in drawn


def test_a_reversed_row_is_written_on_its_ground() -> None:
    drawn = picture("top", [(0, "\x1b[7mpair\x1b[0m")], 40)
    assert '<rect class="white" x="0" width="33.6"' in drawn
    assert re.search(r'<text [^>]*class="i"[^>]*>pair<', drawn)


@pytest.mark.parametrize("cut", [True, False])
def test_only_a_whole_screen_forgets_what_went_up(cut: bool) -> None:
    events = [(0.0, "".join(f"line {number}\r\n" for number in range(8)))]
    drawn = picture("x", events, 40, 5) if cut else picture("x", events, 40)
    assert ("line 1" in drawn) is not cut
    assert "line 7" in drawn


def test_a_film_has_a_screen_for_each_change_and_no_long_wait() -> None:
    events = [(0.0, "one\r\n"), (1e3, ""), (2e3, "two\r\n"), (2e3 + 0.01, "three")]
    drawn = film("demo", events, 40, 5)
    whole = LONGEST + LAST
    assert f"animation:film {whole:.1f}s" in drawn
    assert frames(drawn) == [
        (0.0, 0),
        (pytest.approx(100 * LONGEST / whole, abs=0.001), 5 * 19),
    ]
    # What stays is drawn once, and shown twice.
    assert texts(drawn).count("one") == 1
    assert drawn.count('href="#l0"') == 2


def test_what_was_there_is_there_again_after_a_program_that_filled_the_screen() -> None:
    top = "\x1b[?1049h\x1b[2J\x1b[Hmany"
    written = f"one\r\n{top}\x1b[?1049lthree"
    assert texts(picture("demo", [(0.0, written)], 40))[1:] == ["one", "three"]
    assert "many" in picture("demo", [(0.0, f"one\r\n{top}")], 40)


def test_who_wants_no_motion_sees_the_end() -> None:
    drawn = film("demo", [(0.0, "one\r\n"), (1.0, "two")], 40, 5)
    still = drawn.partition("prefers-reduced-motion")[2]
    assert "animation:none;transform:translateY(-95px)" in still


@pytest.mark.parametrize("name", sorted(path.name for path in PICTURES.glob("tutorial-*.svg")))
def test_letters_stand_as_far_apart_as_their_columns(name: str) -> None:
    """A text that was changed after it was drawn is stretched to the width of the former."""
    found = re.findall(r'textLength="([\d.]+)"[^>]*>([^<]*)<', (PICTURES / name).read_text())
    assert found
    for width, text in found:
        assert float(width) == pytest.approx(len(unescape(text)) * COLUMN), text
