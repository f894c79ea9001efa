"""What Sphinx cannot do to a page: titles in the cells of tables, pictures that lead to themselves.

Cells carry the title of their column, so that a narrow window can show a row as a list. Long names
and paths in them may be broken where their words end.
"""

from __future__ import annotations

import re
from html import escape, unescape

TABLE = re.compile(r'<table class="table">.*?</table>', re.DOTALL)
TITLE = re.compile(r'<th class="head[^"]*">(.*?)</th>', re.DOTALL)
ROW = re.compile(r'<tr class="row-\w+">.*?</tr>', re.DOTALL)
CELL = re.compile(r"<td([^>]*)>(.*?)</td>", re.DOTALL)
WORD = re.compile(r'(?<=<span class="pre">)[^<>]{25,}(?=</span>)')
PART = re.compile(r"([/_,.=:](?=\w))")
TAG = re.compile(r"<[^>]*>")
PICTURE = re.compile(r'<img\b[^>]*\bsrc="([^"]*_images/[^"]*)"[^>]*/>')
SOME, WIDE = 3, 4
"""Columns from which on a table needs a window of some width, or a wide one."""


def finished(body: str) -> str:
    """Return the body of a page with titles in its cells, and links around its pictures."""
    with_titles = TABLE.sub(lambda found: _labelled(found[0]), body)
    return PICTURE.sub(
        lambda found: f'<a class="picture" href="{found[1]}">{found[0]}</a>', with_titles
    )


def _labelled(table: str) -> str:
    table = WORD.sub(lambda found: PART.sub(r"\1<wbr>", found[0]), table)
    head, _between, rows = table.partition("</thead>")
    titles = [unescape(TAG.sub("", title)).strip() for title in TITLE.findall(head)]
    if len(titles) < SOME:
        return table
    kind = "wide-table" if len(titles) >= WIDE else "some-table"
    rows = ROW.sub(lambda found: _row(found[0], titles), rows)
    head = head.replace('<table class="table">', f'<table class="table {kind}">', 1)
    return f"{head}</thead>{rows}"


def _row(row: str, titles: list[str]) -> str:
    left = iter(titles)

    def cell(found: re.Match[str]) -> str:
        empty = "" if TAG.sub("", found[2]).strip() else " data-empty"
        title = escape(next(left, ""))
        return f'<td{found[1]} data-title="{title}"{empty}>{found[2]}</td>'

    return CELL.sub(cell, row)
