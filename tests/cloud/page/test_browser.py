"""The page in a browser: nothing it does not know, nothing it asks for, every reader can use it.

TPU_FLEET_PICTURES=1 writes the pictures of docs/page.md.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import fleet_past
import pytest
import run_evidence
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tpu_fleet.history.store import History
from tpu_fleet.page.first import Need
from tpu_fleet.page.model import page_of
from tpu_fleet.page.render import html_of
from tpu_fleet.page.serve import Live, server_of
from tpu_fleet.why.judge import judge
from tpu_fleet.why.page import html_of as html_of_why

NOW = 1_795_644_000.0
ROOT = Path(__file__).resolve().parents[3]
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
SERIOUS = {"serious", "critical"}
PICTURES = {(3, 1600, "light"), (3, 390, "dark"), (1000, 1600, "dark"), (1000, 390, "light")}
SCHEMES = ("light", "dark")
LOOKS = [
    (390, "light"),
    (1600, "dark"),
    # In CI each width and each scheme has the look above.
    pytest.param(390, "dark", marks=pytest.mark.night),
    pytest.param(1600, "light", marks=pytest.mark.night),
]
WIDTHS = (390, 820, 1280, 1600)
RUNS = {1: 1, 3: 2, 50: 7, 1000: 40}
"""How many runs the fleets of so many workers have."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "There is no chromium: run scripts/test-packages."
    with sync_playwright() as player:
        one = player.chromium.launch(executable_path=path)
        yield one
        one.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The pages of small and of large fleets, by the number of workers."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for workers in RUNS:
        days, every = (3.0, 1200.0) if workers == 3 else (0.5, 3600.0)
        history = fleet_past.made(folder / f"{workers}.db", NOW, workers, days, every=every)
        found[workers] = folder / f"{workers}.html"
        found[workers].write_text(html_of(page_of(history, "my-project", NOW)), encoding="utf-8")
        history.close()
    return found


@contextlib.contextmanager
def shown(
    browser: Browser, address: str, width: int, scheme: Any, days: float = 0.0, **more: Any
) -> Iterator[tuple[Page, list[str]]]:
    """Open a page some days after NOW; yield it with whatever it complained of and asked for."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
        **more,
    )
    context.clock.set_fixed_time(datetime.fromtimestamp(NOW + days * 86400, UTC))
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.append(request.url))
    page.goto(address)
    try:
        yield page, said
    finally:
        context.close()


def asked(said: list[str], own: str) -> list[str]:
    """Return complaints, and requests for anything but the page itself."""
    return [one for one in said if not one.startswith((own, "data:"))]


@pytest.mark.parametrize("workers", RUNS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_quiet_and_fits(
    browser: Browser, pages: dict[int, Path], workers: int, scheme: str
) -> None:
    address = pages[workers].as_uri()
    with shown(browser, address, WIDTHS[0], scheme) as (page, said):
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(17, 21, 27)") == (scheme == "dark")
        assert page.locator("section").count() == 6
        assert page.locator("article.run").count() == RUNS[workers]
        assert page.locator("#all-runs tbody tr").count() == RUNS[workers]
        assert page.locator(".tile").count() == 5
        assert page.locator("#stale").is_hidden()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if (workers, width, scheme) in PICTURES and os.environ.get("TPU_FLEET_PICTURES"):
                page.screenshot(path=ROOT / f"docs/pictures/page-{workers}-{width}-{scheme}.png")
        assert asked(said, address) == []


def test_forty_runs_are_one_screen_and_a_row_leads_to_its_card(
    browser: Browser, pages: dict[int, Path]
) -> None:
    with shown(browser, pages[1000].as_uri(), 1280, "light") as (page, _said):
        table = page.locator("#all-runs").bounding_box()
        assert table is not None
        assert table["height"] < 1150
        link = page.locator("#all-runs a").last
        card = page.locator("article.run > details").last
        assert card.get_attribute("open") is None
        link.click()
        page.locator("article.run > details[open] .curves").last.wait_for()
        assert card.get_attribute("open") is not None
        place = page.locator("article.run").last.bounding_box()
        assert place is not None
        assert 0 <= place["y"] < 900
        # The value of a curve is at the pointer.
        hit = page.locator("article.run").last.locator("rect").nth(3)
        assert "<title>step " in hit.inner_html()
        filled = "one => getComputedStyle(one).fillOpacity"
        before = hit.evaluate(filled)
        hit.hover()
        assert hit.evaluate(filled) != before


def test_a_page_that_is_no_longer_written_says_so(browser: Browser, pages: dict[int, Path]) -> None:
    address = pages[3].as_uri()
    with shown(browser, address, 1280, "light", days=9) as (page, _said):
        assert page.inner_text("#stale").startswith("This page is 9 d old")
        assert "seen 9 d ago" in page.inner_text("#seen")
        assert page.locator(".then").is_hidden()
    # Without its script it has ages as of its time, and says that.
    with shown(browser, address, 1280, "light", days=9, java_script_enabled=False) as (page, _said):
        assert page.locator("#stale").is_hidden()
        assert "ago" not in page.inner_text("#seen")
        assert "Ages are as of then" in page.inner_text("footer")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_no_serious_fault(
    browser: Browser, pages: dict[int, Path], width: int, scheme: str
) -> None:
    with shown(browser, pages[3].as_uri(), width, scheme) as (page, _said):
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.evaluate(AXE)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    faults = [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
    assert faults == []
    assert len(found["passes"]) > 10


# In CI tests/unit/src/why/test_page.py reads its markup.
@pytest.mark.night
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_page_of_why_is_quiet_fits_and_has_no_serious_fault(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    long = [["load", f"/home/alice/{'deep/' * 30}data.py", 88], *run_evidence.TRAIN]
    told = [run_evidence.seen(at, run_evidence.ALL_REDUCE) for at in range(3)]
    verdict = judge([run_evidence.case(*told, run_evidence.seen(3, long, error=["E: x"]))])
    (tmp_path / "why.html").write_text(html_of_why([verdict], NOW), encoding="utf-8")
    address = (tmp_path / "why.html").as_uri()
    with shown(browser, address, width, scheme, bypass_csp=True) as (page, said):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("details[open]").count() == 1
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.evaluate(AXE)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [one["id"] for one in found["violations"] if one["impact"] in SERIOUS] == []
    assert asked(said, address) == []
    # Its policy allows its style, and nothing else.
    with shown(browser, address, width, scheme) as (page, said):
        weight = "getComputedStyle(document.querySelector('.said')).fontWeight"
        assert page.evaluate(weight) == "600"
        assert asked(said, address) == []


# The words of cells that are drawn as two parts, one below the other.
BROKEN = """all => all.flatMap(cell => {
  const found = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/[\\w.]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  }
  return found;
})"""
# Columns whose title is not where its cells are.
ASKEW = """all => all.flatMap(table => [...table.querySelectorAll("tbody td")].filter(cell => {
  const title = table.querySelectorAll("thead th")[cell.cellIndex];
  const side = one => getComputedStyle(one).textAlign.replace("start", "left");
  return side(cell) !== side(title);
}).map(cell => cell.textContent))"""


@pytest.mark.parametrize("width", [390, 1280])
def test_tables_break_no_word_and_titles_stand_over_their_columns(
    browser: Browser, pages: dict[int, Path], width: int
) -> None:
    with shown(browser, pages[3].as_uri(), width, "light") as (page, _said):
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.locator("td").count() > 100
        assert page.eval_on_selector_all("th, td", BROKEN) == []
        assert page.eval_on_selector_all("table", ASKEW) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [900, 1280, 1600])
def test_the_axis_of_the_slices_begins_and_ends_with_their_bars(
    browser: Browser, pages: dict[int, Path], width: int
) -> None:
    ends = "one => { const at = one.getBoundingClientRect(); return [at.left, at.right]; }"
    with shown(browser, pages[3].as_uri(), width, "light") as (page, _said):
        axis = page.locator(".rows .axis").evaluate(ends)
        bar = page.locator(".rows svg").first.evaluate(ends)
        assert axis == pytest.approx(bar, abs=1)


def test_it_is_read_by_keyboard(browser: Browser, pages: dict[int, Path]) -> None:
    with shown(browser, pages[3].as_uri(), 1600, "light") as (page, _said):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        closed = page.locator("details:not([open])")
        before = closed.count()
        closed.first.locator("summary").focus()
        page.keyboard.press("Enter")
        assert closed.count() == before - 1


def test_markup_of_others_does_nothing(browser: Browser, tmp_path: Path) -> None:
    evil = (
        '<img src="//evil.example/x" onerror="document.title=1"><script>document.title=1</script>'
    )
    history = fleet_past.made(tmp_path / "evil.db", NOW, days=0.2, every=1800.0)
    file = tmp_path / "evil.html"
    file.write_text(html_of(page_of(history, evil, NOW)), encoding="utf-8")
    history.close()
    with shown(browser, file.as_uri(), 1600, "light") as (page, said):
        assert asked(said, file.as_uri()) == []
        assert page.inner_text("h1") == evil
        assert page.title() == f"1 failed · {evil}"


def test_the_policy_stops_what_gets_in_all_the_same(
    browser: Browser, pages: dict[int, Path], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    text = pages[3].read_text(encoding="utf-8")
    evil = "<script>document.title = 'evil'</script><img src='http://127.0.0.1:9/x'>"
    file.write_text(text.replace("</main>", f"{evil}</main>"), encoding="utf-8")
    with shown(browser, file.as_uri(), 1600, "light") as (page, said):
        assert page.title() == "1 failed · my-project"
        assert len([one for one in said if "Content Security Policy" in one]) == 2


@contextlib.contextmanager
def served(history: History, **changes: Any) -> Iterator[tuple[Callable[..., None], Live, str]]:
    """Serve a fleet's page; yield what shows it at another time, and changed, and its address."""

    def show(hours: float = 0.0, change: Callable[[Any], None] = lambda _page: None) -> None:
        page = page_of(history, "my-project", NOW + hours * 3600)
        change(page)
        live.set(html_of(page, live=True))

    live = Live()
    show(**changes)
    server, address = server_of(live, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield show, live, address
    finally:
        live.end()
        server.shutdown()
        server.server_close()


@pytest.fixture
def past(tmp_path: Path) -> Iterator[History]:
    history = fleet_past.made(tmp_path / "history.db", NOW, days=0.2, every=1800.0)
    yield history
    history.close()


@contextlib.contextmanager
def opened(browser: Browser, history: History) -> Iterator[tuple[Page, Callable[..., None]]]:
    """Open the served page of a fleet; yield it, and what changes it."""
    with (
        served(history) as (show, _live, address),
        shown(browser, address, 1600, "light") as (page, _said),
    ):
        page.locator("#live", has_text="live").wait_for()
        yield page, show


def summary(page: Page, name: str) -> Locator:
    """Return what opens and closes a part of the page."""
    return page.locator(f"details[id='{name}'] > summary")


def test_it_is_live(browser: Browser, past: History) -> None:
    with (
        served(past) as (show, live, address),
        shown(browser, address, 1600, "light") as (page, said),
    ):
        page.locator("#live", has_text="live").wait_for()
        # A click leaves the focus where it was; the keyboard keeps the page as it is.
        summary(page, "all-workers").click()
        show(1)
        page.locator("footer", has_text="23:00:00").wait_for()
        assert page.locator("details[open][id='all-workers']").count() == 1
        assert page.evaluate("document.activeElement.parentNode.id") == "all-workers"
        page.keyboard.press("Tab")
        show(2)
        page.locator("#live", has_text="waits while the keyboard").wait_for()
        assert page.locator("footer", has_text="23:00:00").count() == 1
        page.evaluate("document.activeElement.blur()")
        page.locator("h1").click()
        show(3)
        page.locator("footer", has_text="01:00:00").wait_for()
        assert page.inner_text("#live") == "live"
        assert asked(said, address) == []
        live.end()
        page.locator("#live.off").wait_for()


def test_each_part_stays_open_or_closed(browser: Browser, past: History) -> None:
    with (
        served(past) as (show, _live, address),
        shown(browser, address, 1600, "light") as (page, _),
    ):
        ids = page.eval_on_selector_all("main details", "all => all.map(one => one.id)")
        assert len(ids) == len(set(ids)) > 8
        assert all(ids)
        first, *others = (one for one in ids if "/curves/" in one)
        summary(page, first).click()
        for part in ("interruptions", "events"):
            summary(page, f"card/solo/words/{part}").click()
        before = page.eval_on_selector_all("details[open]", "all => all.map(one => one.id)")

        def other_state(found: Any) -> None:
            found.runs = [replace(one, story=replace(one.story, state="x")) for one in found.runs]

        show(1, other_state)
        page.locator("footer", has_text="23:00:00").wait_for()
        after = page.eval_on_selector_all("details[open]", "all => all.map(one => one.id)")
        assert after == before
        assert first in after
        assert not set(others) & set(after)


def test_nothing_moves_under_the_reader(browser: Browser, past: History) -> None:
    def turned(found: Any) -> None:
        found.runs.reverse()
        found.needs += [Need("no answer", f"w{number}", "timed out") for number in range(9)]

    cards = "all => all.map(one => one.id)"
    with (
        served(past) as (show, _live, address),
        shown(browser, address, 1600, "light") as (page, _),
    ):
        before = page.eval_on_selector_all("article.run", cards)
        assert len(before) == 2
        page.evaluate("one => scrollTo({top: one, behavior: 'instant'})", 500)
        place = f"document.getElementById('{before[1]}').getBoundingClientRect().top"
        seen = page.evaluate(place)
        show(1, turned)
        page.locator("footer", has_text="23:00:00").wait_for()
        assert page.locator(".needs li").count() >= 9
        assert page.eval_on_selector_all("article.run", cards) == before
        assert abs(page.evaluate(place) - seen) < 2
        page.reload()
        assert page.eval_on_selector_all("article.run", cards) == before[::-1]


def test_selected_text_stays_selected(browser: Browser, past: History) -> None:
    with (
        served(past) as (show, _live, address),
        shown(browser, address, 1600, "light") as (page, _),
    ):
        page.evaluate("getSelection().selectAllChildren(document.querySelector('.tiles'))")
        show(1)
        page.locator("#live", has_text="waits while text is selected").wait_for()
        assert len(page.evaluate("getSelection().toString()")) > 10


@pytest.mark.parametrize("seconds", [3.0, pytest.param(120.0, marks=pytest.mark.night)])
def test_nothing_jumps_or_closes_while_runs_change(
    browser: Browser, past: History, seconds: float
) -> None:
    rows = "all => all.map(one => one.id)"
    opened_now = "all => all.filter(one => one.open).map(one => one.id)"
    with opened(browser, past) as (page, show):
        for name in ("compare", "all-workers", "card/pair/digits/all"):
            summary(page, name).click()
        page.evaluate("document.activeElement.blur()")
        order = page.eval_on_selector_all("#all-runs tbody tr", rows)
        opened_before = page.eval_on_selector_all("details", opened_now)
        row = page.locator("#all-runs tbody tr").last
        row.hover()
        before = row.bounding_box()
        until, number = time.monotonic() + seconds, 0
        while number < 4 or time.monotonic() < until:
            number += 1

            def change(found: Any, number: int = number) -> None:
                found.runs.reverse()
                del found.needs[number % 3 :]
                found.needs += [Need("lost", f"w{n}", "no answer") for n in range(number % 5)]
                states = ("running", "restarting", "failed", f"x{number}")
                found.runs = [
                    replace(one, story=replace(one.story, state=states[number % 4]))
                    for one in found.runs
                ]

            show(number / 60, change)
            written = datetime.fromtimestamp(NOW + number * 60, UTC).strftime("%H:%M:%S")
            page.locator("footer", has_text=written).wait_for()
            assert page.eval_on_selector_all("#all-runs tbody tr", rows) == order
            assert page.eval_on_selector_all("details", opened_now) == opened_before
            after = row.bounding_box()
            assert before is not None
            assert after is not None
            assert abs(after["y"] - before["y"]) < 2, number
