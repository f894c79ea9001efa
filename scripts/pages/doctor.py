"""docs/doctor.md: the hand-written text, with the tables of checks and of repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from string import Formatter

from ansible_collections.tpu.fleet.plugins.module_utils._doctor import (
    controller as _doctor_controller,
)
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import host as doctor_host
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import slice as doctor_slice
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.check import Check

from . import DOCS, filled

PAGE = DOCS / "doctor.md"


def page() -> str:
    """Return the page with current tables."""
    return filled(PAGE, TABLES)


def shown(text: str) -> str:
    """Return a text with names in place of the values."""
    parts = []
    for literal, name, _form, _conversion in Formatter().parse(text):
        plain = literal.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
        parts.append(f"{plain}*{name}*" if name else plain)
    return "".join(parts)


def table(checks: Iterable[Check]) -> str:
    """Return all cases of some checks; each check begins with its subject."""
    rows = ["| check | | says | what to do |", "| --- | --- | --- | --- |"]
    for check in checks:
        rows.append(f"| **`{check.key}`** | | *{shown(check.looks_at)}* | |")
        for case in check.cases.values():
            rows.append(f"| | {case.status} | {shown(case.says)} | {shown(case.remedy)} |")
    return "\n".join(rows)


def mends_table() -> str:
    """Return what --fix does."""
    rows = ["| check | when | `--fix` |", "| --- | --- | --- |"]
    for check in doctor_host.CHECKS:
        for case in check.cases.values():
            if case.fix:
                rows.append(f"| `{check.key}` | {shown(case.says)} | {shown(case.fix)} |")
    return "\n".join(rows)


TABLES: dict[str, Callable[[], str]] = {
    "mends": mends_table,
    "controller": lambda: table(_doctor_controller.CHECKS),
    "way": lambda: table(_doctor_controller.WORKER_CHECKS),
    "worker": lambda: table(doctor_host.CHECKS),
    "slice": lambda: table(doctor_slice.CHECKS),
}
