"""docs/why.md: the hand-written text, with the table of causes and a sentence of each."""

from __future__ import annotations

import re
from collections.abc import Callable

from tpu_fleet.why.causes import CAUSES, NOTE, TROUBLE, Cause

from . import DOCS, ROOT, filled

PAGE = DOCS / "why.md"
SENTENCES = ROOT / "tests/unit/src/why/sentences.txt"
"""The sentence of each kind of evidence, by the tests."""
NAMES = {"firewall": "gcloud compute firewall-rules create …"}
"""What stands in a command in place of a field that is a command itself."""


def page() -> str:
    """Return the page with current tables."""
    return filled(PAGE, TABLES)


def examples() -> dict[str, str]:
    """Return the first sentence of each cause."""
    found: dict[str, str] = {}
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        _name, key, sentence = line.split(" | ")
        found.setdefault(key, sentence)
    return found


def what_to_do(cause: Cause) -> str:
    """Return the remedy and the command, with names in place of the values."""
    command = re.sub(r"\{(\w+)\}", lambda name: NAMES.get(name[1], name[1].upper()), cause.command)
    remedy = re.sub(r"\{(\w+)\}", lambda name: f"*{name[1]}*", cause.remedy)
    return f"{remedy} `{command}`" if command else remedy or "Nothing."


def table(trouble: bool) -> str:
    """Return the causes that hold a run up, or those that need nothing, the most certain first."""
    said = examples()
    rows = ["| it says, for example | seen | what to do |", "| --- | --- | --- |"]
    for key, cause in sorted(CAUSES.items(), key=lambda pair: -pair[1].weight):
        if (cause.grade == TROUBLE) == trouble and cause.grade != NOTE:
            example = said.get(key, f"{cause.title}.").replace("|", "\\|")
            rows.append(f"| {example} | {cause.seen} | {what_to_do(cause)} |")
    return "\n".join(rows)


TABLES: dict[str, Callable[[], str]] = {
    "trouble": lambda: table(True),
    "fine": lambda: table(False),
}
