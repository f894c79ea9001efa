# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doctor's report, from the findings on the controller and on the workers. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._core.answer import AnswerError
from .._core.worker_words import doctor_answer
from .._tpu.names import group_name, natural_key
from .check import FAIL, OK, SKIPPED, Finding, examine, exit_code, listed, one_line, worst
from .slice import CHECKS as SLICE_CHECKS

HERE = "controller"
ABOUT_RUNS = ("runs", "loss")
"""Checks of a worker about the runs of its slice: all its workers find the same."""
_LIMIT = "--limit "
# Only the first words of Ansible's failure message are used.
_WORDS = 300


def report(
    controller: Mapping[str, Any],
    answers: Mapping[str, Mapping[str, Any]],
    workers: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return all rows in reading order.

    `answers` are the results of host_doctor by host, as Ansible registered them; `workers` are
    the requested ones, each with name and slice.
    """
    wanted = list(workers)
    answers = {str(host): _answer(str(host), answer) for host, answer in answers.items()}
    rows = [_row(HERE, finding) for finding in controller.get("findings") or []]
    if not controller.get("findings"):
        rows.append(_row(HERE, _failed("doctor", controller)))
    from_here = controller.get("workers") or {}
    by_slice: dict[str, list[str]] = {}
    for worker in sorted(wanted, key=lambda item: natural_key(str(item["host"]))):
        host = str(worker["host"])
        by_slice.setdefault(str(worker["slice"]), []).append(host)
        rows += [_row(host, finding) for finding in from_here.get(host) or []]
        answer = answers.get(host) or {}
        if answer.get("findings"):
            rows += [_row(host, finding) for finding in answer["findings"]]
        elif answer and not answer.get("skipped"):
            rows.append(_row(host, _failed("doctor", answer)))
    rows = _once_for_a_run(rows, {host: name for name, hosts in by_slice.items() for host in hosts})
    rows = _once_for_equal(rows, by_slice)
    for name, hosts in by_slice.items():
        rows += [_row(name, finding.to_dict()) for finding in _slice(name, hosts, answers)]
    status = worst(row["status"] for row in rows)
    fixed = [
        {"host": host, **step}
        for host, answer in sorted(answers.items())
        for step in (answer or {}).get("fixed") or []
    ]
    counts = {kind: sum(row["status"] == kind for row in rows) for kind in (OK, SKIPPED)}
    bad = [row for row in rows if row["status"] not in (OK, SKIPPED)]
    return {
        "status": status,
        "exit_code": exit_code(status),
        "rows": rows,
        "fixed": fixed,
        "lines": [*map(fix_line, fixed), *map(line, bad), _counted(counts, bad)],
    }


def _once_for_a_run(
    rows: Sequence[dict[str, Any]], slices: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows, with one in place of several workers' about the same trouble of a run.

    What the others say is added where it differs, such as the exit code of each.
    """
    together: dict[Any, list[dict[str, Any]]] = {}
    for number, row in enumerate(rows):
        about = (slices.get(row["host"]), row["check"], row["subject"], row.get("case"))
        is_one = row["check"] in ABOUT_RUNS and row["status"] not in (OK, SKIPPED)
        together.setdefault(about if is_one else number, []).append(row)
    return [_merged(of_run) for of_run in together.values()]


def _once_for_equal(
    rows: Sequence[dict[str, Any]], by_slice: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the rows, with one in place of several workers' equal trouble and equal remedy.

    Remedies that differ in the worker that `--limit` names count as equal: it takes several.
    """
    together: dict[Any, list[dict[str, Any]]] = {}
    for number, row in enumerate(rows):
        about = tuple(row[name] for name in ("check", "subject", "status", "says"))
        key = (*about, row["remedy"].replace(_LIMIT + row["hosts"][0], _LIMIT))
        together.setdefault(number if row["status"] in (OK, SKIPPED) else key, []).append(row)
    groups = {tuple(hosts): group_name("tpu_slice", name) for name, hosts in by_slice.items()}
    return [_of_several(equal, groups) for equal in together.values()]


def _of_several(
    rows: Sequence[dict[str, Any]], groups: Mapping[tuple[str, ...], str]
) -> dict[str, Any]:
    """Return one row for these; its remedy is for all of them, by the slice's group or by name."""
    first, one = rows[0], _together(rows)
    if len(rows) == 1:
        return first
    limit = _LIMIT + groups.get(tuple(one["hosts"]), ",".join(one["hosts"]))
    return {**one, "remedy": first["remedy"].replace(_LIMIT + first["hosts"][0], limit)}


def _merged(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    says: dict[str, list[str]] = {}
    for row in rows:
        says.setdefault(str(row["says"]), []).append(row["host"])
    more = [f"on {listed(hosts)}: {text}" for text, hosts in says.items() if text != first["says"]]
    return {**_together(rows), "says": "; ".join([first["says"], *more])}


def _together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the first row, as one of all hosts of these."""
    hosts = [host for row in rows for host in row["hosts"]]
    return {**rows[0], "host": ", ".join(hosts), "hosts": hosts}


def _answer(host: str, answer: Any) -> dict[str, Any]:
    """Read a worker's answer; an invalid one is a failed check."""
    try:
        return doctor_answer(host, answer or {})
    except AnswerError as error:
        return {"failed": True, "msg": error.says}


def _row(host: str, finding: Mapping[str, Any]) -> dict[str, Any]:
    return {"host": host, "hosts": [host], **finding}


def _failed(check: str, answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the row of a check that could not run."""
    said = one_line(str(answer.get("msg") or "the check did not start"), _WORDS)
    unreachable = bool(answer.get("unreachable"))
    remedy = (
        "Try ssh by hand; run the doctor again when it answers."
        if unreachable
        else "It needs Python 3.8 or later and sudo without a password; run the playbook with -vvv."
    )
    return Finding(check, FAIL, f"could not be checked: {said}", remedy, case="failed").to_dict()


def _slice(name: str, hosts: list[str], answers: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    compared = {
        host: answers[host]["compare"] for host in hosts if (answers.get(host) or {}).get("compare")
    }
    facts = {"workers": hosts, "hosts": compared, "group": group_name("tpu_slice", name)}
    return examine(SLICE_CHECKS, facts)


def line(row: Mapping[str, Any]) -> str:
    """Format one row as one line."""
    subject = f" {row['subject']}" if row["subject"] else ""
    remedy = f" -> {row['remedy']}" if row["remedy"] else ""
    return f"{row['status']}: {row['host']}: {row['check']}{subject}: {row['says']}{remedy}"


def fix_line(step: Mapping[str, Any]) -> str:
    """Format a repair as one line."""
    if step["did"]:
        return f"fixed: {step['host']}: {step['did']} ({step['problem']})"
    return f"not fixed: {step['host']}: {step['problem']}: {step['failed']}"


def _counted(counts: Mapping[str, int], bad: Sequence[Mapping[str, Any]]) -> str:
    fails = sum(row["status"] == FAIL for row in bad)
    return (
        f"{fails} fail, {len(bad) - fails} to look at, {counts[OK]} ok, {counts[SKIPPED]} skipped"
    )
