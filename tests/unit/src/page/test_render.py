"""The page as HTML."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import fleet_past
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from hostile import controls, texts

from tpu_fleet.history.store import Event, History, Look, Point
from tpu_fleet.page.model import page_of
from tpu_fleet.page.render import html_of, policy

NOW = 1_795_644_000.0
MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "--><iframe src=//evil.example>",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "javascript:alert(1)",
    "<a href=//evil.example>x</a>",
    "\u202eevil\u202c",
)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    one = fleet_past.made(tmp_path / "history.db", NOW, days=1.0, every=1800.0)
    yield one
    one.close()


class Parts(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _value in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def parts_of(html: str) -> Parts:
    found = Parts()
    found.feed(html)
    return found


def test_it_asks_nobody_for_anything(history: History) -> None:
    found = parts_of(html_of(page_of(history, "my-project", NOW)))
    assert found.tags.keys() & {"iframe", "object", "img", "embed", "form", "base"} == set()
    assert all(address.startswith(("#", "data:")) for address in found.addresses)
    assert not [name for name in found.attributes if name.startswith("on")]


def test_the_policy_comes_first_and_allows_nothing(history: History) -> None:
    html = html_of(page_of(history, "my-project", NOW))
    head = html[: html.index("<style>")]
    assert re.search(r'<meta charset="utf-8">\s*<meta http-equiv="Content-Security-Policy"', head)
    assert policy(False).startswith("default-src 'none'")
    for live, scripts in ((False, 1), (True, 2)):
        html = html_of(page_of(history, "my-project", NOW), live)
        assert parts_of(html).tags["script"] == scripts == policy(live).count("'sha256-")
        assert ("connect-src" in policy(live)) is live
        assert ("fetch(" in html) is live


def test_everything_of_a_run_is_there(history: History) -> None:
    page = page_of(history, "my-project", NOW)
    text = parts_of(html_of(page)).text
    for card in page.runs:
        assert card.story.run in text
        for _number, attempt in card.interruptions:
            assert attempt.words in text
        assert f"The time went to {card.spent}." in text
        assert "programs from the cache)" in card.start
        assert card.start in text
    assert "4 failures in 1 h" in text
    assert "Connection timed out" in text
    assert "64 v4 chips on spot" in text
    assert {"loss", "steps a second"} == {c.name for card in page.runs for c in card.curves}
    assert page.slices[0].troubled
    assert page.runs[0].troubled


def test_a_fleet_that_nobody_has_looked_at_has_a_page(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db")
    text = parts_of(html_of(page_of(history, "my-project", NOW))).text
    assert "not looked at yet" in text
    history.close()


def test_hostile_text_shows_as_text_in_every_field(tmp_path: Path, history: History) -> None:
    usual = parts_of(html_of(page_of(history, "p", NOW), live=True))
    for number, evil in enumerate([*MARKUP, *texts(tmp_path / "canary")]):
        with contextlib.closing(fleet_past.spoilt(tmp_path / f"{number}.db", evil, NOW)) as one:
            html = html_of(page_of(one, evil, NOW), live=True)
        assert controls(html) == []
        found = parts_of(html)
        # No other kinds of elements and attributes than with the texts of an honest fleet.
        assert found.tags.keys() <= usual.tags.keys(), evil
        assert found.attributes <= usual.attributes, evil
        assert [found.tags[name] for name in ("script", "style", "meta")] == [2, 1, 5]
        assert [a for a in found.addresses if not a.startswith(("#", "data:"))] == []
        assert visible(evil) in found.text
    assert not (tmp_path / "canary").exists()


def test_a_missing_value_is_no_empty_place() -> None:
    with pytest.raises(Exception, match="no attribute"):
        html_of(object())  # type: ignore[arg-type]


def test_a_flood_of_attempts_is_drawn_in_little_time(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db")
    events = [
        Event(NOW - 80_000 + n * 9, "pair", "digits", 0, name, n, {"cause": "x"})
        for n in range(8000)
        for name in ("attempt-started", "attempt-ended")
    ]
    points = [Point("pair", "digits", "step", NOW - 80_000 + n, n, n) for n in range(20_000)]
    history.add(Look(NOW, events=events, points=points))
    begun = time.process_time()
    html = html_of(page_of(history, "my-project", NOW))
    history.close()
    assert len(html) < 1_000_000
    assert time.process_time() - begun < 10


def test_each_run_has_a_row_that_leads_to_its_card(history: History) -> None:
    html = html_of(page_of(history, "my-project", NOW))
    table = html[html.index('<table id="all-runs">') :].partition("</table>")[0]
    anchors = re.findall(r'href="#(run-[^"]+)"', table)
    assert anchors == ["run-solo/words", "run-pair/digits"]
    for anchor in anchors:
        assert html.count(f' id="{anchor}"') == 1
    # Only cards of runs in trouble are open.
    opened = re.findall(r'<details id="card/([^"]+)/all" open>', html)
    assert opened == ["solo/words"]


def test_the_title_has_the_trouble(history: History, tmp_path: Path) -> None:
    html = html_of(page_of(history, "my-project", NOW))
    assert "<title>1 failed · my-project</title>" in html
    with contextlib.closing(History(tmp_path / "none.db")) as none:
        html = html_of(page_of(none, "my-project", NOW))
    assert "<title>my-project: TPU fleet</title>" in html
    assert "Nothing needs a person" in html


def test_people_have_their_use_with_a_sum(tmp_path: Path) -> None:
    with contextlib.closing(fleet_past.made(tmp_path / "h.db", NOW, days=0.1)) as history:
        page = page_of(history, "my-project", NOW)
    text = parts_of(html_of(page)).text
    assert set(page.account.people) >= {"alice", "bob"}
    for use in (*page.account.people.values(), page.account.whole):
        assert f"{use.hours:,.1f} h" in text
    assert page.forecast is not None
    assert "If the slices stay as they are until 19 Dec" in text


def test_the_queue_is_escaped_and_has_its_reasons(history: History) -> None:
    row = {"place": 1, "run": "lr-1", "state": "waiting", "person": MARKUP[0], "slice": ""}
    row |= {"since": NOW - 60, "why": f"first in turn; {MARKUP[1]}"}
    found = Look(NOW)
    found.facts["queue"] = {"rows": [row], "more": 3, "waiting": 4, "problem": "it is slow"}
    history.add(found)
    html = html_of(page_of(history, "p", NOW))
    assert 'id="queue"' in html
    assert "4 in the queue" in html
    assert "And 3 more" in html
    assert "it is slow" in html
    assert "<script>alert" not in html
    assert "<img src=x" not in html
