#!/usr/bin/env python3
"""Look at the built site in a browser: scripts/site/look.py [WIDTH]...

No table hides what is at its right, no page is wider than the window, no text of an error scrolls,
and pictures lead to their full size; axe finds nothing serious in light or dark. The search finds
the page of a word first, copied commands have no prompt, and the page for what is not found leads
back. It needs chromium (scripts/test-packages) and `make site`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SITE = Path(__file__).resolve().parents[2] / ".work" / "site"
WIDTHS = (390, 820, 1280, 1600)
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
# One of each kind: the first page, prose, a long reference, pictures, code, what is not found.
LOOKED_BY_AXE = (
    *("index.html", "docs/install.html", "docs/fleet-file.html", "docs/tutorial.html"),
    *("docs/commands.html", "roles/training_run/README.html", "404.html"),
)
PAGES = ("*.html", "docs/*.html", "docs/internals/*.html", "roles/*/*.html", "examples/*/*.html")
# What people search for, and the page that they mean.
SEARCHES = {
    "install": "docs/install.html",
    "log in": "docs/log-in.html",
    "checkpoints": "docs/data-and-checkpoints.html",
    "wandb": "docs/secrets.html",
    "upgrade": "docs/upgrade.html",
    "glossary": "docs/glossary.html",
    "grant": "docs/grant.html",
    "fleet_slices": "docs/fleet-file.html",
    "watch": "docs/watch.html",
    "drill": "docs/drill.html",
    "python": "docs/python.html",
}
# The button selects what it copies in a field of its own.
COPIED = """() => {
  let copied = "";
  document.addEventListener("copy", () => { copied = document.activeElement.value || ""; });
  document.querySelector("button.copybtn").click();
  return copied;
}"""
FAULTS = """() => {
  const found = [];
  const hides = (one) => one.scrollWidth > one.clientWidth + 1;
  const all = (what) => [...document.querySelectorAll("article " + what)];
  const begin = (one) => one.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
  for (const table of all("table.table")) {
    if (hides(table.parentElement)) found.push("a table hides its right: " + begin(table));
  }
  for (const code of all(".highlight-text pre")) {
    if (hides(code)) found.push("an error text scrolls: " + begin(code));
  }
  for (const picture of all("img")) {
    if (!picture.closest("a")) found.push("a picture is no link: " + picture.alt);
  }
  if (hides(document.documentElement)) found.push("the page is wider than the window");
  return found;
}"""


def main(words: list[str]) -> int:
    """Look at each page at each width."""
    path = shutil.which("chromium")
    if not path:
        print("There is no chromium: run scripts/test-packages.", file=sys.stderr)
        return 2
    if not (SITE / "index.html").exists():
        print("There is no site: run `make site`.", file=sys.stderr)
        return 2
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=path)
        faults = [
            f"{name}, {width} pixels: {fault}"
            for width in map(int, words or map(str, WIDTHS))
            for name, fault in faults_of(browser, width)
        ]
        faults += [*searches(browser), *copies(browser), *not_found(browser), *serious(browser)]
        browser.close()
    print("\n".join(faults) or "Each page of the site fits.")
    return 1 if faults else 0


def faults_of(browser: Browser, width: int) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the pages at a width."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    for path in sorted({path for pattern in PAGES for path in SITE.glob(pattern)}):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        for fault in page.evaluate(FAULTS):
            yield path.relative_to(SITE).as_posix(), fault
    page.close()


def searches(browser: Browser) -> Iterator[str]:
    """Yield the words for which the search does not find their page first."""
    page = browser.new_page()
    for words, wanted in SEARCHES.items():
        page.goto(f"{(SITE / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
        first = page.locator("#search-results li a").first
        found = str(first.get_attribute("href", timeout=60_000)).partition("#")[0].partition("?")[0]
        if not found.endswith(wanted):
            yield f"the search for {words} finds {found} first"
    page.close()


def copies(browser: Browser) -> Iterator[str]:
    """Yield what a button of a block of commands copies beside the commands."""
    page = browser.new_page()
    page.goto((SITE / "docs/install.html").as_uri())
    page.locator("button.copybtn").first.wait_for(state="attached", timeout=60_000)
    copied = page.evaluate(COPIED)
    lines = copied.splitlines()
    if not lines or any(line.startswith("$") for line in lines):
        yield f"docs/install.html: its first button copies {copied!r}"
    page.close()


def not_found(browser: Browser) -> Iterator[str]:
    """Yield where the page for what is not found does not lead to the first page."""
    page = browser.new_page()
    page.goto((SITE / "404.html").as_uri())
    if page.locator("#home").evaluate("link => link.href") != (SITE / "index.html").as_uri():
        yield "404.html does not lead to index.html"
    page.close()


def serious(browser: Browser) -> Iterator[str]:
    """Yield the serious faults that axe finds, in both schemes, on a phone and on a laptop."""
    for width, scheme in product((390, 1280), SCHEMES):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        for name in LOOKED_BY_AXE:
            page.goto((SITE / name).as_uri(), wait_until="domcontentloaded")
            page.evaluate(AXE)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            for one in (each for each in found if each["impact"] in ("serious", "critical")):
                where = one["nodes"][0]["html"][:120]
                yield f"{name}, {width} pixels, {scheme}: {one['id']} ({one['impact']}): {where}"
        page.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
