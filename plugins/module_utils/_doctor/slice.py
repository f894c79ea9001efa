# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a slice: what must be equal on all its workers. No I/O.

The facts are the answers of one slice's workers, by host name, and the workers without an answer.
A program on several workers hangs silently if one of them differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._host.worker_ports import Tried, blocked_lines, firewall_command
from .check import FAIL, SLICE, WARN, Case, Check, Facts, Hit, fine, hit, listed, skipped


def minority(values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the most common value, and the workers with another one."""
    seen = list(values.values())
    # In a tie, the first worker's value.
    usual = max(seen, key=lambda value: (seen.count(value), -seen.index(value)))
    return usual, {host: value for host, value in values.items() if value != usual}


def _workers(facts: Facts) -> Iterator[Hit]:
    wanted, there = facts["workers"], facts["hosts"]
    missing = [name for name in wanted if name not in there]
    if missing and len(wanted) > 1:
        yield hit("missing", workers=listed(missing), count=len(wanted))
    elif missing:
        yield hit("gone", workers=listed(missing))
    else:
        yield fine(f"{len(wanted)} of {len(wanted)}")


def _same(
    facts: Facts, read: Callable[[Facts], Mapping[str, Any]], differ: Callable[[Any, Any], str]
) -> Iterator[Hit]:
    """Compare the workers' values by name."""
    hosts = facts["hosts"]
    if len(hosts) < 2:
        yield skipped("there is only one worker")
        return
    by_host = {host: read(said) for host, said in hosts.items()}
    for name in sorted({name for found in by_host.values() for name in found}):
        usual, others = minority({host: found.get(name) for host, found in by_host.items()})
        for host, value in others.items():
            how = differ(usual, value)
            if how:
                about = {"name": name, "worker": host, "group": facts["group"]}
                yield hit("differ", subject=name, how=how, **about)


def _venv_difference(usual: Any, found: Any) -> str:
    if usual is None or found is None:
        return "it exists only here" if usual is None else "it is missing"
    usual_has, has = usual.get("packages", {}), found.get("packages", {})
    words = [
        f"{package} {has.get(package, 'missing')} instead of {usual_has.get(package, 'none')}"
        for package in sorted({*usual_has, *has})
        if has.get(package) != usual_has.get(package)
    ]
    if found.get("python") != usual.get("python"):
        words.insert(0, f"Python {found.get('python')} instead of {usual.get('python')}")
    return listed(words)


def _code_difference(usual: Any, found: Any) -> str:
    return f"{_short(found)} instead of {_short(usual)}"


def _short(found: Any) -> str:
    return str(found)[:16] if found is not None else "nothing"


def _run_difference(usual: Any, found: Any) -> str:
    if usual is None or found is None:
        return "it is declared only there" if usual is None else "it is not declared there"
    words = []
    if usual["definition"] != found["definition"]:
        words.append("another definition")
    if abs(usual["attempt"] - found["attempt"]) > 1:
        words.append(f"attempt {found['attempt']} instead of {usual['attempt']}")
    return listed(words)


def _venvs(facts: Facts) -> Iterator[Hit]:
    return _same(facts, lambda said: said["venvs"], _venv_difference)


def _code(facts: Facts) -> Iterator[Hit]:
    return _same(facts, lambda said: said["code"], _code_difference)


def _runs(facts: Facts) -> Iterator[Hit]:
    return _same(facts, lambda said: said["runs"], _run_difference)


def _ports(facts: Facts) -> Iterator[Hit]:
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for said in facts["hosts"].values():
        for run, seen in said.get("ports", {}).items():
            by_run.setdefault(run, []).append(seen)
    if not by_run:
        yield skipped("there is only one worker")
    for run, told in sorted(by_run.items()):
        yield from _ports_of(run, told, complete=len(told) == len(facts["workers"]))


def _ports_of(run: str, told: list[Mapping[str, Any]], complete: bool) -> Iterator[Hit]:
    """Say which ports of workers that are there cannot be reached."""
    there = {one["worker"] for one in told}
    tried = {
        one["worker"]: [Tried(*row) for row in one["blocked"] if complete or row[0] in there]
        for one in told
    }
    lines = blocked_lines(tried)
    if not lines:
        yield fine(f"{sum(one['tried'] for one in told)} tried", subject=run)
        return
    ports = {one.port for rows in tried.values() for one in rows}
    network = next((one["network"] for one in told if one["network"]), "")
    command = firewall_command(ports, told[0]["hosts"], network)
    yield hit("blocked", subject=run, said="; ".join(lines), command=command)


_APPLY = "Run: tpu-fleet apply --limit {group}"

CHECKS: tuple[Check, ...] = (
    Check(
        "all_workers",
        SLICE,
        "whether every worker of the slice could be checked",
        _workers,
        {
            "missing": Case(
                FAIL,
                "{workers} of {count} workers cannot be checked: programs on the others wait "
                "for it silently",
                "See the rows of that worker; if it still does not answer: tpu-fleet repair",
            ),
            "gone": Case(
                FAIL, "{workers} cannot be checked", "See the rows of that worker for the reason."
            ),
        },
    ),
    Check(
        "worker_ports",
        SLICE,
        "whether the workers reach each other's ports, those that the runs need (docs/gang.md)",
        _ports,
        {
            "blocked": Case(
                FAIL,
                "{said}; a start hangs there in silence",
                "Open it, or choose another: {command}",
            )
        },
    ),
    Check(
        "same_venvs",
        SLICE,
        "the versions in each venv, compared between the workers",
        _venvs,
        {"differ": Case(FAIL, "venv {name} on {worker} differs: {how}", f"{_APPLY} --only venvs")},
    ),
    Check(
        "same_code",
        SLICE,
        "the version of each code tree, compared between the workers",
        _code,
        {"differ": Case(FAIL, "code {name} on {worker} differs: {how}", f"{_APPLY} --only code")},
    ),
    Check(
        "same_runs",
        SLICE,
        "the definition and the attempt of each run, compared between the workers",
        _runs,
        {
            "differ": Case(
                WARN,
                "run {name} on {worker} differs: {how}",
                f"{_APPLY} --only runs",
            )
        },
    ),
)
