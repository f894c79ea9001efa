"""The table of frameworks in docs/python.md."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.frameworks import (
    DEFAULT_VERSIONS,
    RELEASES,
    Release,
    span,
)

from . import DOCS, filled

WITHOUT_CHIPS = {
    "jax": "JAX for the CPU",
    "torch_xla": "torch_xla for the CPU",
    "torch_tpu": "PyTorch alone",
}


def page() -> str:
    """Return the page with its table."""
    return filled(DOCS / "python.md", {"frameworks": table})


def table() -> str:
    """Return a row for the last release with each range of Pythons, and for the defaults."""
    head = "| framework | Python | libtpu | PyTorch | without chips |\n|---|---|---|---|---|"
    return "\n".join([head, *(line for name in RELEASES for line in _rows(name))])


def _rows(framework: str) -> Iterator[str]:
    rows = RELEASES[framework]
    for row, after in zip(rows, (*rows[1:], None), strict=True):
        default = row.version == DEFAULT_VERSIONS[framework]
        if default or after is None or after.pythons != row.pythons:
            yield _line(framework, row, default)


def _line(framework: str, row: Release, default: bool) -> str:
    """Return a line of the table."""
    name = f"`{framework}` {row.version}{' (default)' if default else ''}"
    pythons = f"3.{row.pythons[0]} to 3.{row.pythons[1]}"
    torch = span(row.torch) if row.torch[0] else ""
    return f"| {name} | {pythons} | {span(row.libtpu)} | {torch} | {WITHOUT_CHIPS[framework]} |"
