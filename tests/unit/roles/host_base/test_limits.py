"""The limits of a host: one that the kernel refuses would prevent every login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

TEMPLATES = Path(__file__).resolve().parents[4] / "roles" / "host_base" / "templates"
VM = {"can_raise_limits": True, "hard_limits": {"nofile": "524288"}, "nr_open": 1048576}
CONTAINER = {
    "can_raise_limits": False,
    "hard_limits": {"nofile": "20000", "memlock": "8388608", "stack": "unlimited"},
    "nr_open": 1048576,
}


@pytest.mark.parametrize(
    ("host", "item", "value", "given"),
    [
        (VM, "nofile", "1048576", "1048576"),
        (VM, "nofile", "2000000", "1048576"),
        (VM, "nofile", "unlimited", "1048576"),
        (VM, "memlock", "unlimited", "unlimited"),
        (CONTAINER, "nofile", "1048576", "20000"),
        (CONTAINER, "nofile", "1000", "1000"),
        (CONTAINER, "memlock", "unlimited", "8192"),
        (CONTAINER, "stack", "65536", "65536"),
    ],
)
def test_no_more_than_the_host_can_give(
    host: dict[str, Any], item: str, value: str, given: str
) -> None:
    template = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True).get_template(
        "limit.j2"
    )
    limit: Any = template.module
    assert limit.limit(item, value, host).strip() == given
