"""The folder with all that was seen: written for people, and read again to be judged."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import Evidence, evidence
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.secrets import without_secrets

PAGE, REPORT = "why.html", "why.json"
LONGEST_LINE = 1000
NOTE = re.compile(r"((?:hang|start)-\d+)\.json")
"""A note of an agent, in the folder of its worker."""
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
"""Names of workers that are names of files too."""


@dataclass(frozen=True)
class Shown:
    """What a worker has shown, as it is written to the folder."""

    host: str
    evidence: Evidence
    text: str = ""


def folder_name(at: float) -> str:
    """Return the name of the folder of what was seen at a time."""
    return time.strftime("why-%Y%m%dT%H%M%SZ", time.gmtime(at))


def write(folder: Path, shown: Iterable[Shown], report: Mapping[str, Any], page: str) -> None:
    """Write the page, the report, and of each worker its evidence and the text for people.

    Only its owner may read the folder: stacks and commands are not for all people. Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in shown:
        if FILE.fullmatch(one.host):
            told = json.dumps(one.evidence.to_dict(), indent=1)
            (folder / f"{one.host}.json").write_text(told, encoding="utf-8")
            (folder / f"{one.host}.txt").write_text(for_people(one.text), encoding="utf-8")
    (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(page, encoding="utf-8")


def for_people(text: str) -> str:
    """Return a worker's text without what looks like a secret, or steers a terminal."""
    lines = (without_secrets(line[:LONGEST_LINE]) for line in text.split("\n"))
    return visible("\n".join(lines))


@dataclass(frozen=True)
class Kept:
    """Evidence that lies in a folder."""

    shown: tuple[Shown, ...]
    problems: tuple[str, ...]
    """Files that are no evidence, and why."""


def read(folder: Path, run: str) -> Kept:
    """Read the newest evidence of a run below a folder: what one look, or one hang, has shown.

    It finds what `write` has written, and what `tpu-fleet fetch` has brought of hangs. Raises
    OSError.
    """
    looks: dict[str, dict[str, Shown]] = {}
    problems = []
    for path, look, host in _files(folder):
        try:
            found = Shown(host, _parsed(path))
        except AnswerError as error:
            problems.append(str(error))
            continue
        if found.evidence.run.name == run:
            # An archive may have it too.
            looks.setdefault(look, {})[host] = found
    newest = max((list(one.values()) for one in looks.values()), key=_order, default=[])
    return Kept(tuple(of_one_attempt(newest)), tuple(problems))


def _files(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the files with evidence: each with the look that it is of, and its worker."""
    places = {folder, *(path.parent for path in folder.rglob(REPORT))}
    for path in sorted(folder.rglob("*.json")):
        note = NOTE.fullmatch(path.name)
        if note:
            kept = path.parents[1].name == "archive"
            yield path, note[1], path.parents[2 if kept else 0].name
        elif path.parent in places and path.name not in (REPORT, "status.json"):
            yield path, str(path.parent), path.stem


def _parsed(path: Path) -> Evidence:
    if not path.is_file() or path.stat().st_size > bounds.ANSWER:
        raise AnswerError(str(path), "", "another file", "evidence of a worker")
    return evidence(str(path), path.read_bytes())


def _order(look: Sequence[Shown]) -> tuple[int, float]:
    return max((one.evidence.run.attempt, one.evidence.at) for one in look)


def of_one_attempt(shown: Sequence[Shown]) -> list[Shown]:
    """Leave out workers whose newest evidence is of an earlier attempt than that of others."""
    last = max((one.evidence.run.attempt for one in shown), default=0)
    return [one for one in shown if one.evidence.run.attempt == last]
