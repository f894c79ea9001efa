#!/usr/bin/env python3
"""Look at the built site in a browser: scripts/site/look.py [WIDTH]...

No table hides what is at its right, no page is wider than the window, no text of an error scrolls,
and pictures lead to their full size. It needs chromium (scripts/test-packages) and `make site`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

SITE = Path(__file__).resolve().parents[2] / ".work" / "site"
WIDTHS = (390, 1280)
PAGES = ("*.html", "docs/*.html", "roles/*/*.html", "examples/*/*.html")
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
