"""Requirements that exclude each other, and where each of them is declared."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.conflict import (
    declared_twice,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import VenvSpec

SAID = (
    "No solution found when resolving dependencies: Because you require jax==0.10.1 and "
    "jax==0.10.2, we can conclude that your requirements are unsatisfiable."
)
FILE = {"/opt/code/lr/requirements.txt": "# ours\noptax\njax==0.10.1  # old\n"}


def spec(**more: object) -> VenvSpec:
    base = {"name": "jax", "path": "/opt/venvs/jax", "python": "3.11", "framework": "jax"}
    return VenvSpec(**{**base, "framework_version": "0.10.2", **more})  # type: ignore[arg-type] # mixed


def test_each_place_of_a_requirement_is_named() -> None:
    told = declared_twice(SAID, spec(), "tpu", FILE)
    assert told == (
        " jax is required in 2 places: jax[tpu]==0.10.2 by framework and framework_version of the "
        "venv, jax==0.10.1 by /opt/code/lr/requirements.txt, line 3."
    )
    told = declared_twice(SAID, spec(packages=("Jax<1",), constraints=("jax>0.9",)), "cpu", {})
    assert "Jax<1 by packages of the venv, jax>0.9 by constraints." in told


def test_nothing_is_added_where_one_place_or_another_error_is() -> None:
    assert declared_twice(SAID, spec(), "tpu", {}) == ""
    assert declared_twice("jax==0.10.1 was not found", spec(), "tpu", FILE) == ""
