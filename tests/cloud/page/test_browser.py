"""The page in a browser: nothing it does not know, nothing it asks for, everybody can read it.

TPU_FLEET_PICTURES=1 writes the pictures of docs/page.md.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import fleet_past
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tpu_fleet.page.model import page_of
from tpu_fleet.page.render import html_of
from tpu_fleet.page.serve import Live, server_of

NOW = 1_795_644_000.0
ROOT = Path(__file__).resolve().parents[3]
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
SERIOUS = {"serious", "critical"}
PICTURES = {(3, 1600, "light"), (3, 390, "dark"), (1000, 1600, "dark"), (1000, 390, "light")}
LOOKS = [(width, scheme) for width in (390, 1600) for scheme in ("light", "dark")]


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
    """The pages of a small and of a large fleet, by the number of workers."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for workers, days, every in ((3, 3.0, 1200.0), (1000, 0.5, 3600.0)):
        history = fleet_past.made(folder / f"{workers}.db", NOW, workers, days, every=every)
        found[workers] = folder / f"{workers}.html"
        found[workers].write_text(html_of(page_of(history, "my-project", NOW)), encoding="utf-8")
        history.close()
    return found


@contextlib.contextmanager
def shown(
    browser: Browser, address: str, width: int, scheme: Any
) -> Iterator[tuple[Page, list[str]]]:
    """Open a page; yield it with whatever it complained of and asked for."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
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


@pytest.mark.parametrize("workers", [3, 1000])
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_it_is_quiet_and_fits(
    browser: Browser, pages: dict[int, Path], workers: int, width: int, scheme: str
) -> None:
    address = pages[workers].as_uri()
    with shown(browser, address, width, scheme) as (page, said):
        assert asked(said, address) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(17, 21, 27)") == (scheme == "dark")
        assert page.locator("section").count() == 6
        assert page.locator("article.run").count() == (2 if workers == 3 else 40)
        if (workers, width, scheme) in PICTURES and os.environ.get("TPU_FLEET_PICTURES"):
            page.screenshot(path=ROOT / f"docs/pictures/page-{workers}-{width}-{scheme}.png")


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
        assert page.title() == f"{evil}: TPU fleet"


def test_the_policy_stops_what_gets_in_all_the_same(
    browser: Browser, pages: dict[int, Path], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    text = pages[3].read_text(encoding="utf-8")
    evil = "<script>document.title = 'evil'</script><img src='http://127.0.0.1:9/x'>"
    file.write_text(text.replace("</main>", f"{evil}</main>"), encoding="utf-8")
    with shown(browser, file.as_uri(), 1600, "light") as (page, said):
        assert page.title() == "my-project: TPU fleet"
        assert len([one for one in said if "Content Security Policy" in one]) == 2


def test_it_is_live(browser: Browser, tmp_path: Path) -> None:
    history = fleet_past.made(tmp_path / "history.db", NOW, days=0.2, every=1800.0)
    live = Live()
    live.set(html_of(page_of(history, "my-project", NOW), live=True))
    server, address = server_of(live, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with shown(browser, address, 1600, "light") as (page, said):
            page.locator("#live", has_text="live").wait_for()
            page.locator("summary", has_text="All workers").click()
            page.evaluate("document.activeElement.blur()")
            live.set(html_of(page_of(history, "my-project", NOW + 3600), live=True))
            page.locator("footer", has_text="23:00:00").wait_for()
            # What was open stays open.
            assert page.locator("details[open] > summary", has_text="All workers").count() == 1
            assert asked(said, address) == []
            live.end()
            page.locator("#live.off").wait_for()
    finally:
        live.end()
        server.shutdown()
        server.server_close()
        history.close()
