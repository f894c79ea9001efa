"""The site's builder: which pages it makes of the checkout's, and what its check of links finds."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD: dict[str, Any] = runpy.run_path(str(ROOT / "scripts/site/build.py"))
FINISH: dict[str, Any] = runpy.run_path(str(ROOT / "scripts/site/finish.py"))
PAGES = {ROOT / "README.md", ROOT / "docs/runs.md", ROOT / "roles/data_disk/README.md"}


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("runs.md#all-runs", "runs.md#all-runs"),
        ("../README.md", "../index.md"),
        ("../roles/data_disk", "../roles/data_disk/README.md"),
        ("../roles/nfs_share", f"{BUILD['REPOSITORY']}/tree/main/roles/nfs_share"),
        ("../galaxy.yml", f"{BUILD['REPOSITORY']}/blob/main/galaxy.yml"),
        ("pictures/apply-8.svg", "pictures/apply-8.svg"),
        ("https://example.org/a", "https://example.org/a"),
        ("#here", "#here"),
        # Sphinx complains of it.
        ("nothing.md", "nothing.md"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_to_the_repository(target: str, there: str) -> None:
    page = ROOT / "docs" / "watch.md"
    assert BUILD["for_sphinx"](f"[a]({target})", page, PAGES) == f"[a]({there})"


def test_code_stays_and_anchors_become_labels() -> None:
    text = '<a id="x"></a>\n```text\n[a](../README.md)\n```\n'
    made = BUILD["for_sphinx"](text, ROOT / "docs" / "watch.md", PAGES)
    assert made == "(x)=\n```text\n[a](../README.md)\n```\n"


def test_a_link_with_the_name_of_a_page_shows_its_title() -> None:
    page = ROOT / "docs" / "watch.md"
    made = BUILD["for_sphinx"]("[runs.md](runs.md#all-runs), [it](runs.md), `runs.md`", page, PAGES)
    assert made == "[Following a run](runs.md#all-runs), [it](runs.md), `runs.md`"


def test_each_section_of_the_contents_becomes_a_page() -> None:
    text = "## One\n[a](a.md#x), [b](b.yml)\n## How-to\n[a](a.md), [c](c.md)\n"
    text += "## Reference\n[d](d.md)\n"
    one, how_to, reference = BUILD["kinds_of"](text)
    assert one == ("One", "a.md", "")
    assert how_to[:2] == ("How-to", "how-to.md")
    assert how_to[2].startswith("# How-to\n")
    # a.md stands below the first section that names it.
    assert "\n\nc.md\n```\n" in how_to[2]
    assert "\n\nd.md\n../collection/index.rst\n```\n" in reference[2]


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="b/c.html#there">', None),
        ('<a href="b/">', None),
        ('<a href="https://example.org">', None),
        ('<img src="data:image/png;base64,x">', None),
        ('<p id="x"><a href="#x">', None),
        ('<a href="b/d.html">', "a.html: b/d.html does not exist"),
        ('<a href="b/c.html#nowhere">', "a.html: b/c.html#nowhere has no such anchor"),
        ('<a href="#y">', "a.html: #y has no such anchor"),
        ('<script src="https://cdn.example/x.js">', "a.html: loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x">', "a.html: loads //cdn.example/x"),
    ],
)
def test_links_of_the_site_are_checked(tmp_path: Path, html: str, fault: str | None) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<h1 id="there">')
    (tmp_path / "a.html").write_text(html)
    assert list(BUILD["faults_of"](tmp_path)) == ([fault] if fault else [])


def table_of(*titles: str) -> str:
    head = "".join(f'<th class="head"><p>{title}</p></th>\n' for title in titles)
    cells = "".join(f"<td><p>{title[:1]}</p></td>\n" for title in titles[:-1])
    row = f'<tr class="row-even">{cells}<td><p></p></td>\n</tr>'
    return (
        f'<table class="table">\n<thead>\n<tr class="row-odd">{head}</tr>\n</thead>\n'
        f"<tbody>\n{row}\n</tbody>\n</table>"
    )


@pytest.mark.parametrize(
    ("titles", "kind"),
    [
        (("key", "meaning"), ""),
        (("a", "b", "c"), " some-table"),
        (("key", "type", "default", "it &amp; that"), " wide-table"),
    ],
)
def test_cells_of_tables_know_their_titles(titles: tuple[str, ...], kind: str) -> None:
    made = FINISH["finished"](f"<p>x</p>{table_of(*titles)}<p>y</p>")
    assert f'<table class="table{kind}">' in made
    named = [f'data-title="{title}"' for title in titles] if kind else []
    assert all(name in made for name in named)
    assert made.count("data-title") == len(named)
    assert made.count("data-empty") == bool(kind)


def test_long_names_in_tables_break_where_their_words_end() -> None:
    name = "a/long_path.of_many/words_in/one"
    cell = f'<table class="table"><tr><td><span class="pre">{name}</span></td></tr></table>'
    made = FINISH["finished"](cell)
    assert "a/<wbr>long_<wbr>path.<wbr>of_" in made
    assert made.replace("<wbr>", "") == cell
    assert FINISH["finished"]('<span class="pre">a_b</span>') == '<span class="pre">a_b</span>'


def test_pictures_lead_to_their_full_size() -> None:
    made = FINISH["finished"]('<p><img alt="A" src="../_images/a.svg" /></p>')
    link = '<a class="picture" href="../_images/a.svg">'
    assert made == f'<p>{link}<img alt="A" src="../_images/a.svg" /></a></p>'


def test_what_opens_a_part_of_the_contents_has_a_name() -> None:
    toggle = f"{BUILD['TOGGLE']} role='presentation'></span></summary>"
    named = toggle.replace("<summary>", '<summary aria-label="Pages below">')
    assert BUILD["with_named_toggles"](f"<p>x</p>{toggle}") == f"<p>x</p>{named}"
