"""What an environment must hold, and under which name."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._venvs import (
    VenvSpec,
    build_path,
    digest,
    pins,
    problems,
    requirement_lines,
    unmet,
)


def spec(**changes: Any) -> VenvSpec:
    values: dict[str, Any] = {
        "name": "jax",
        "path": "/opt/venvs/jax",
        "python": "3.11",
        "framework": "jax",
        "framework_version": "0.10.2",
        "packages": ("optax==0.2.8",),
    }
    return VenvSpec(**{**values, **changes})


@pytest.mark.parametrize(
    ("accelerator", "lines"),
    [
        ("tpu", ["jax[tpu]==0.10.2", "optax==0.2.8"]),
        ("cpu", ["jax==0.10.2", "optax==0.2.8"]),
    ],
)
def test_the_framework_is_for_what_the_host_has(accelerator: str, lines: list[str]) -> None:
    assert requirement_lines(spec(), accelerator) == lines
    assert requirement_lines(spec(framework="none"), accelerator) == lines[1:]


@pytest.mark.parametrize(
    "changes",
    [
        {"python": "3.12"},
        {"framework_version": "0.10.1"},
        {"framework": "none"},
        {"packages": ("optax==0.2.7",)},
        {"requirements": "numpy\n"},
        {"constraints": ("numpy<3",)},
    ],
)
def test_other_content_is_another_build(changes: dict[str, Any]) -> None:
    assert digest(spec(**changes), "cpu") != digest(spec(), "cpu")


def test_the_same_content_is_the_same_build_wherever_it_lies() -> None:
    assert digest(spec(path="/elsewhere/jax", name="other"), "cpu") == digest(spec(), "cpu")
    assert digest(spec(), "tpu") != digest(spec(), "cpu")
    assert build_path(spec(), "0123456789abcdef") == "/opt/venvs/.jax-0123456789ab"


def test_pins_are_read_as_indexes_name_them() -> None:
    lines = ["Foo_Bar==1.0", "jax[tpu]==0.10.2", "x>=2", "y==1.*", "z == 3 ; python_version > '3'"]
    assert pins(lines) == {"foo-bar": "1.0", "jax": "0.10.2", "z": "3"}


@pytest.mark.parametrize(
    ("python", "installed", "wrong"),
    [
        ("3.11.2", {"jax": "0.10.2", "optax": "0.2.8"}, []),
        ("3.10.12", {"jax": "0.10.2", "optax": "0.2.8"}, ["Python is 3.10.12 instead of 3.11"]),
        ("3.11.2", {"jax": "0.6.2", "optax": "0.2.8"}, ["jax is 0.6.2 instead of 0.10.2"]),
        ("3.11.2", {"jax": "0.10.2"}, ["optax is missing instead of 0.2.8"]),
    ],
)
def test_an_old_version_never_passes_silently(
    python: str, installed: dict[str, str], wrong: list[str]
) -> None:
    assert unmet(spec(), "cpu", python, installed) == wrong


def test_a_local_version_part_does_not_matter() -> None:
    assert (
        unmet(
            spec(packages=("torch==2.9.0",)),
            "cpu",
            "3.11.2",
            {"jax": "0.10.2", "torch": "2.9.0+cpu"},
        )
        == []
    )


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "a/b"}, "name"),
        ({"path": "venv"}, "path"),
        ({"path": "/venv"}, "path"),
        ({"path": "/opt/../etc"}, "path"),
        ({"python": "latest"}, "python"),
        ({"framework_version": ""}, "framework_version"),
    ],
)
def test_a_wrong_wish_names_its_field(changes: dict[str, Any], word: str) -> None:
    assert problems(spec()) == []
    (problem,) = problems(spec(**changes))
    assert f"{word} " in problem
