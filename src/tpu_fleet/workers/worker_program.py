"""Write the command line that lets a worker run our program: it goes over the line as text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from .. import on_worker

PACKAGE = on_worker.__name__
# What lies in the folders there is no part of it; a module is what its text makes of it.
BEGIN = """
import json, sys, types
def add(name, text):
    one = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), one.__dict__)
    return one
for name, text in json.loads(sys.argv.pop(1)):
    last = add(name, text)
sys.exit(last.main())
"""


def modules() -> list[tuple[str, str]]:
    """Return names and texts, in the order in which they need each other."""
    parents = PACKAGE.split(".")
    empty = [(".".join(parents[: count + 1]), "") for count in range(len(parents))]
    folder = files(on_worker)
    return empty + [
        (f"{PACKAGE}.{name}", (folder / f"{name}.py").read_text(encoding="utf-8"))
        for name in on_worker.MODULES
    ]


def reader_command(order: Mapping[str, Any], sudo: bool = False) -> str:
    """Write what a worker does."""
    before = ["sudo", "-n"] if sudo else []
    words = [*before, "/usr/bin/python3", "-I", "-c", BEGIN, json.dumps(modules())]
    return f"exec {shlex.join([*words, json.dumps(order)])}"
