"""docs/errors.md, from the table of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_row import (
    BLANKS,
    Reaction,
    Row,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_table import ROWS, row_named
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access.trouble import (
    CAUSES,
    Cause,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._core.error_samples import (
    SAMPLES,
    Sample,
)

from . import wrapped

HEAD = """\
# Errors: their meaning and their remedy

Find the beginning of the message in the table; the link leads to its meaning, to what tpu.fleet
does about it automatically, and to what you have to do. Event ids (`[EID: 0x…]`) are left out,
because they differ every time. While it waits, tpu.fleet shows only the short words of the last
column: `waiting: no capacity for v4-8 in us-central2-b since 03:12:00, attempt 14, next at
03:40:00`.

tpu.fleet ends a message with the remedy, filled in with your project and zone. A module that fails
also returns it as data: `kind`, `remedy`, and where known `flavour`, `reason`, `http_status`,
`rpc_code`, `eid` and `details`. Where this page says that tpu.fleet *stops*, nothing is undone:
what has begun continues, and the next apply resumes it.

What holds a running program up prints no error. `tpu-fleet why` names it:
[its causes and their remedies](why.md#what-it-answers).

What a training program prints of chips that do not initialise, or of a coordinator that it cannot
reach, is in [gang.md](gang.md#chips-that-do-not-initialise).
"""

REPEATS = {
    Reaction.NEXT_PLACE: "the next zone or type immediately, here again later",
    Reaction.HOLD: "the next zone or type immediately, here again later",
    Reaction.NEVER_HERE: "never here; the next zone or type immediately",
    Reaction.WAIT: "after a pause",
    Reaction.LOOK: "after reading the project again",
    Reaction.STOP: "no; a person has to act",
}


def message_of(sample: Sample) -> str:
    """Return the message as tpu.fleet shows it."""
    if sample.http is None:
        return _errors.from_status({"code": 0, "message": sample.text}).message
    return _errors.from_response(sample.http, sample.body).message


def origin_of(sample: Sample) -> str:
    """Say where the message comes from."""
    if sample.http is not None:
        return f"HTTP {sample.http} {sample.status or sample.reason}".strip()
    if sample.queued:
        error = sample.queued.get("failedData", {}).get("error", {})
        code = f", code {error['code']}" if error else ""
        return f"queued resource {sample.queued['state']}{code}"
    return f"operation, code {sample.code}" if sample.code is not None else "tpu.fleet"


def beginning(text: str, limit: int = 90) -> str:
    """Return the part of a message that fits a line of a table, without long names."""
    short = re.sub(r"(['\"])[^'\"]{24,}\1", r"\1…\1", text)
    if len(short) > limit:
        short = short[:limit].rsplit(" ", 1)[0] + " …"
    return f"`{short}`"


def title_of(row: Row) -> str:
    """Return the heading of a row."""
    return row.short[0].upper() + row.short[1:]


def page() -> str:
    """Return the page of errors: a table of messages, then a section for each row."""
    seen: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        for sample in SAMPLES[row.key]:
            seen.setdefault((beginning(message_of(sample)), row.key), []).append(origin_of(sample))
    lines = [
        f"| {text} | {'; '.join(dict.fromkeys(origins))} | [{row_named(key).short}](#{key}) |"
        for (text, key), origins in sorted(seen.items(), key=lambda item: item[0][0].casefold())
    ]
    lines += [
        f"| {beginning(cause.sample)} | git | [{in_blanks(cause.short)}](#{cause.key}) |"
        for cause in CAUSES
    ]
    table = ["| you see | from | it is |", "| --- | --- | --- |", *lines]
    rows = sorted(ROWS, key=lambda row: message_of(SAMPLES[row.key][0]).casefold())
    sections = ["\n".join(section) for section in map(section_of, rows)]
    sections += ["\n".join(section) for section in map(section_of_git, CAUSES)]
    return "\n\n".join([HEAD.rstrip(), "\n".join(table), *sections]) + "\n"


def section_of(row: Row) -> Iterator[str]:
    """Yield the lines about one row."""
    yield f'<a id="{row.key}"></a>'
    yield ""
    yield f"## {title_of(row)}"
    yield ""
    yield "You see:"
    yield ""
    yield "```text"
    yield from dict.fromkeys(message_of(sample) for sample in SAMPLES[row.key])
    yield "```"
    yield ""
    yield wrapped(f"**It means:** {row.means}")
    yield ""
    yield wrapped(f"**tpu.fleet does:** {row.does}")
    yield ""
    # A command that is broken into two lines cannot be copied.
    yield f"**You do:** {in_code(row.remedy.format_map(BLANKS))}"
    yield ""
    flavour = f", flavour `{row.flavour}`" if row.kind == "permission" else ""
    yield f"<sub>kind `{row.kind}`{flavour} · tried again: {REPEATS[row.reaction]}</sub>"


def in_blanks(text: str) -> str:
    """Show the parts that depend on the repository."""
    return re.sub(r"\{(\w+)\}", r"*\1*", text)


def section_of_git(cause: Cause) -> Iterator[str]:
    """Yield the lines about one reason for which git cannot read a repository."""
    yield f'<a id="{cause.key}"></a>'
    yield ""
    yield f"## Git: {in_blanks(cause.short)}"
    yield ""
    yield "You see, after the tree, its owner and the address of the repository:"
    yield ""
    yield "```text"
    yield cause.sample
    yield "```"
    yield ""
    yield wrapped(f"**It means:** {in_blanks(cause.means)}")
    yield ""
    does = (
        "tries three times, and then continues with the other trees"
        if cause.again
        else ("continues with the other trees; this one stays at its installed version")
    )
    yield f"**tpu.fleet does:** {does}."
    yield ""
    at_github = f" At GitHub: {cause.at_github}." if cause.at_github else ""
    yield wrapped(f"**You do:** {in_blanks(cause.remedy)}.{at_github}")


def in_code(remedy: str) -> str:
    """Mark the command in a remedy, so that its blanks are not parsed as HTML."""
    before, run, command = remedy.partition("un: gcloud ")
    if run:
        command, explained, rest = command.partition(" (")
        return f"{before}{run[:4]}`gcloud {command}`{explained}{rest}"
    return remedy.replace("<", "&lt;")
