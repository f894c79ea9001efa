#!/usr/bin/env python3
"""Build the documentation as a site in .work/site: scripts/site/build.py

The pages are those of the checkout; docs/README.md says which there are, and of which kind. The
reference of modules, plugins and roles comes from antsibull-docs. A warning of Sphinx is an error,
and so is a link that leads nowhere, or a page that loads something from elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / ".work" / "site-source"
SITE = ROOT / ".work" / "site"
REPOSITORY = "https://github.com/tpu-fleet/tpu.fleet"
PAGES = (
    *("README.md", "CHANGELOG.rst", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"),
    *("docs/*.md", "docs/internals/*.md"),
    *("roles/*/README.md", "examples/*/README.md", "local_cloud/README.md"),
)
# It says which pages there are, by kind.
CONTENTS = ROOT / "docs" / "README.md"
# What antsibull-docs makes is only in the site.
FROM_CODE = "\n[Modules, plugins and roles](../collection/index.rst) have pages from the code.\n"
HOME = "index.md"
# What the first page of the site has behind its first picture.
CARDS = Path(__file__).with_name("cards.md")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
# A link whose text is the name of the file gets the title of the page.
BY_NAME = re.compile(r"\[`?((?:[\w./-]+/)?[\w-]+\.md)`?\](?=\(([^)\s#]+))")
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
TOGGLE = '<summary><span class="toctree-toggle"'
"""As the theme writes it."""
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# The labels of Ansible's own documentation that the reference names, and where they are.
ANSIBLE = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
    **{
        f"ansible_collections.ansible.builtin.{module}_module": (
            f"collections/ansible/builtin/{module}_module.html"
        )
        for module in ("apt", "template", "wait_for_connection")
    },
}


def main() -> int:
    """Lay the pages out, build the site, and check its links."""
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    lay_out()
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}
    tools = Path(sys.executable).parent
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
    reference = SOURCE / "collection"
    reference.mkdir()
    # What a description says of other options and modules has to exist.
    collection = ROOT / "collections" / "ansible_collections" / "tpu" / "fleet"
    lint = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck")
    subprocess.run([*lint, collection], env=environment, check=True)
    subprocess.run(
        [
            *("antsibull-docs", "collection", "--use-current", "--squash-hierarchy"),
            *("--fail-on-error", "--dest-dir", reference, "tpu.fleet"),
        ],
        env=environment,
        check=True,
    )
    (SOURCE / "ansible.inv").write_bytes(inventory(ANSIBLE))
    subprocess.run(
        [
            *("sphinx-build", "--quiet", "--fail-on-warning", "--keep-going", "--jobs", "2"),
            *("-c", Path(__file__).parent, "-d", SOURCE / ".doctrees", SOURCE, SITE),
        ],
        env=environment,
        check=True,
    )
    for path in SITE.rglob("*.html"):
        path.write_text(with_named_toggles(path.read_text()))
    faults = sorted(faults_of(SITE))
    print("\n".join(faults) or f"The site is in {SITE}/index.html")
    return 1 if faults else 0


def with_named_toggles(html: str) -> str:
    """Return a page whose buttons that open a part of the contents have names, which are read."""
    return html.replace(TOGGLE, TOGGLE.replace("<summary>", '<summary aria-label="Pages below">'))


def lay_out() -> None:
    """Copy the pages of the checkout as Sphinx wants them, and make a page for each kind."""
    shutil.copytree(ROOT / "docs" / "pictures", SOURCE / "docs" / "pictures")
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    for path in pages:
        there = SOURCE / place_of(path)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(for_sphinx(path.read_text(), path, pages))
    contents = SOURCE / place_of(CONTENTS)
    text = contents.read_text()
    kinds = list(kinds_of(text))
    folder = contents.parent
    for _title, name, page in kinds:
        if page:
            (folder / name).write_text(page)
    contents.write_text(f"---\norphan: true\n---\n{text}")
    home = SOURCE / HOME
    picture = re.compile(r"^!\[.*$", re.MULTILINE)
    first = picture.sub(lambda found: f"{found[0]}\n\n{CARDS.read_text()}", home.read_text(), 1)
    tree = toctree(f"{title} <{folder.name}/{name}>" for title, name, _page in kinds)
    home.write_text(first + tree)


def place_of(path: Path) -> str:
    """Return where a page of the checkout stands in the site."""
    name = path.relative_to(ROOT).as_posix()
    return HOME if name == "README.md" else name


def for_sphinx(text: str, path: Path, pages: Set[Path]) -> str:
    """Return a page with anchors and links as Sphinx knows them; code stays as it is."""
    here = Path(place_of(path)).parent

    def link(found: re.Match[str]) -> str:
        target, anchor = (path.parent / found[1]).resolve(), found[2] or ""
        page = target / "README.md" if target.is_dir() else target
        if page in pages:
            return os.path.relpath(place_of(page), here) + anchor
        if not target.exists() or target.is_relative_to(ROOT / "docs" / "pictures"):
            return found[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{target.relative_to(ROOT)}{anchor}"

    def named(found: re.Match[str]) -> str:
        target = (path.parent / found[2]).resolve()
        is_meant = target in pages and target.name == Path(found[1]).name
        title = TITLE.search(target.read_text()) if is_meant else None
        return f"[{title[1]}]" if title else found[0]

    parts = CODE.split(text)
    parts[::2] = [
        LINK.sub(link, BY_NAME.sub(named, ANCHOR.sub(r"(\1)=", part))) for part in parts[::2]
    ]
    return "".join(parts)


def kinds_of(contents: str) -> Iterator[tuple[str, str, str]]:
    """Yield title, name and text of a page for each section of the contents.

    A section that names one page is that page, and yields no text.
    """
    known: set[str] = set()
    for section in re.split(r"(?m)^## ", contents)[1:]:
        title, _newline, text = section.partition("\n")
        if title == "Reference":
            text += FROM_CODE
        found = [link[1] for link in LINK.finditer(text) if link[1].endswith((".md", ".rst"))]
        pages = list(dict.fromkeys(found))
        if len(pages) == 1:
            yield title, pages[0], ""
        else:
            # A page stands below the first section that names it.
            new = [page for page in pages if page not in known]
            name = title.lower().replace(" ", "-").replace(",", "")
            yield title, f"{name}.md", f"# {title}\n{text}{toctree(new)}"
        known.update(pages)


def toctree(pages: Iterable[str]) -> str:
    """Return what makes Sphinx put pages below the one that it stands in."""
    lines = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{lines}\n```\n"


def inventory(labels: Mapping[str, str]) -> bytes:
    """Return labels of another site as Sphinx reads them."""
    lines = "".join(f"{label} std:label -1 {place} -\n" for label, place in labels.items())
    head = "# Sphinx inventory version 2\n# Project: ansible\n# Version:\n# zlib compressed\n"
    return head.encode() + zlib.compress(lines.encode())


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a":
            self.links.update(filter(None, [given.get("href")]))
        elif given.get("rel") != "canonical":
            self.loads.update(given[name] for name in ("href", "src") if name in given)


def faults_of(site: Path) -> Iterator[str]:
    """Yield links that lead nowhere, and what a page would load from elsewhere."""
    found = (path for path in site.rglob("*.html") if path.parent != site / "_static")
    pages = {path: Page(path.read_text()) for path in found}
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.links | page.loads:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads and parts.scheme != "data":
                    yield f"{name}: loads {target}"
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not there.exists():
                yield f"{name}: {target} does not exist"
            elif anchor and there in pages and anchor not in pages[there].anchors:
                yield f"{name}: {target} has no such anchor"


if __name__ == "__main__":
    sys.exit(main())
