"""The pages that are made from the code are those that are committed; links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
GENERATED = ["errors.md"]


def render(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/render_docs.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_generated_pages_are_current() -> None:
    done = render("--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", GENERATED)
def test_outdated_page_is_noticed(tmp_path: Path, name: str) -> None:
    assert render("--dir", str(tmp_path)).returncode == 0
    assert render("--check", "--dir", str(tmp_path)).returncode == 0
    page = tmp_path / name
    page.write_text(page.read_text() + "by hand")
    done = render("--check", "--dir", str(tmp_path))
    assert done.returncode == 1
    assert f"{page} is outdated" in done.stdout


def anchors(text: str) -> set[str]:
    """The anchors of a page: those written out, and those that headings get."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = (DOCS / name).read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _sep, anchor = target.partition("#")
        page = (DOCS / path) if path else DOCS / name
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page.read_text()), target
