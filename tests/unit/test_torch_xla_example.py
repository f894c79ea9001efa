"""The examples with JAX and with torch_xla are used alike."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.frameworks import (
    DEFAULT_VERSIONS,
    torch_range,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import pins

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def program(example: str) -> ast.Module:
    return ast.parse((EXAMPLES / example / "train.py").read_text())


def function(example: str, name: str) -> str:
    (found,) = (
        node
        for node in program(example).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    return ast.unparse(found)


def said(example: str) -> list[str]:
    """Return the words of all lines that the program prints, in their order."""
    calls = [
        node
        for node in ast.walk(program(example))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    lines = [call.args[0].values for call in calls if isinstance(call.args[0], ast.JoinedStr)]
    texts = ((part.value for part in line if isinstance(part, ast.Constant)) for line in lines)
    return ["…".join(map(str, text)) for text in texts]


def test_they_have_one_command_line() -> None:
    assert function("torch_xla", "parse") == function("jax", "parse")


def test_they_print_the_same_lines() -> None:
    assert said("torch_xla") == said("jax")
    assert len(said("jax")) == 5


@pytest.mark.parametrize("name", ["torch", "torch_xla"])
def test_the_versions_are_those_of_the_role(name: str) -> None:
    lines = (EXAMPLES / "torch_xla/requirements.txt").read_text().splitlines()
    version = DEFAULT_VERSIONS["torch_xla"]
    wanted = {"torch": torch_range("torch_xla", version)[0], "torch_xla": version}
    assert pins(lines)[name.replace("_", "-")] == wanted[name]
