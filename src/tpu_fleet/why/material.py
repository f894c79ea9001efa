"""The folder with all that was seen: written for people, and read again to be judged."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Evidence,
    evidence,
)
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.secrets import without_secrets

PAGE, REPORT = "why.html", "why.json"
LONGEST_LINE = 1000
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
    """Return a worker's text without what looks like a secret."""
    lines = (without_secrets(line[:LONGEST_LINE]) for line in text.split("\n"))
    return "\n".join(lines)


@dataclass(frozen=True)
class Kept:
    """Evidence that lies in a folder."""

    shown: tuple[Shown, ...]
    problems: tuple[str, ...]
    """Files that are no evidence, and why."""


def read(folder: Path, run: str) -> Kept:
    """Read the evidence of a run below a folder, of each worker the newest of the newest attempt.

    It finds what `write` has written, and what `tpu-fleet fetch` has brought of a hang. Raises
    OSError.
    """
    newest: dict[str, Shown] = {}
    problems = []
    for path in sorted(folder.rglob("*.json")):
        if path.name in (REPORT, "status.json") or not path.is_file():
            continue
        try:
            found = Shown(_host(path), _parsed(path))
        except AnswerError as error:
            problems.append(str(error))
            continue
        if found.evidence.run.name != run:
            continue
        before = newest.get(found.host)
        if before is None or _order(found) > _order(before):
            newest[found.host] = found
    return Kept(tuple(of_one_attempt(list(newest.values()))), tuple(problems))


def _parsed(path: Path) -> Evidence:
    if path.stat().st_size > bounds.ANSWER:
        raise AnswerError(str(path), "", f"{path.stat().st_size} bytes", "evidence of a worker")
    return evidence(str(path), path.read_bytes())


def _host(path: Path) -> str:
    """Return the worker of a file: its own name, or that of the folder of a fetched note."""
    return path.parent.name if re.fullmatch(r"\w+-\d+", path.stem) and _is_note(path) else path.stem


def _is_note(path: Path) -> bool:
    return path.stem.rpartition("-")[0] in ("hang", "start")


def _order(one: Shown) -> tuple[int, float]:
    return (one.evidence.run.attempt, one.evidence.at)


def of_one_attempt(shown: Sequence[Shown]) -> list[Shown]:
    """Leave out workers whose newest evidence is of an earlier attempt than that of others."""
    last = max((one.evidence.run.attempt for one in shown), default=0)
    return [one for one in shown if one.evidence.run.attempt == last]
