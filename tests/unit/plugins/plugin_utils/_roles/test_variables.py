"""A role takes a setting by its name in the fleet file, and by its own."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.amounts import (
    KINDS,
    for_machines,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import FLEET_NAMES, PARTS
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.settings import settings_of
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    options_of,
    role_names,
    role_options,
)
from role_templates import expression, variables_of

# Two values of each type that are no default.
SAMPLES: dict[str, tuple[Any, Any]] = {
    "str": ("17.1", "17.2"),
    "path": ("/opt/one", "/opt/two"),
    "int": (10001, 10002),
    "dict": ({"one": "1"}, {"two": "2"}),
}
AMOUNTS = {
    "duration": ("171s", "172s"),
    "size": ("171MiB", "172MiB"),
    "memory": ("17GiB", "17%"),
}


def samples(option: dict[str, Any]) -> tuple[Any, Any]:
    if option.get("choices"):
        others = [choice for choice in option["choices"] if choice != option.get("default")]
        return others[0], option["default"]
    if option["type"] == "bool":
        return not option["default"], option["default"]
    if option["type"] == "list":
        return ([], [{}]) if option.get("options") else (["one"], ["two"])
    return SAMPLES[option["type"]]


def taken(role: str, own: str, more: dict[str, Any]) -> Any:
    """Return what a role has of a variable: for its module, and where its tasks read it."""
    variables = variables_of(role, more)
    known = expression(
        f"'{role}' | tpu.fleet.role_settings", {**variables, **SETTLED, "groups": {}}
    )
    key = own.removeprefix(f"{role}_")
    found = known["secrets"].get(key, known["settings"][key])
    if own in variables:
        assert for_machines(own, expression(own, variables)) == found
    return found


# What only a host has.
SETTLED = {
    "hostvars": {},
    "tpu_vm_internal_ip": "10.0.0.2",
}


@pytest.mark.parametrize("own", [o for o in FLEET_NAMES if not role_options()[o].get("options")])
def test_a_setting_comes_from_the_fleet_file_or_from_its_own_name(own: str) -> None:
    role = next(role for role in role_names() if own in options_of(role))
    one, two = AMOUNTS[KINDS[own]] if own in KINDS else samples(options_of(role)[own])
    assert taken(role, own, {FLEET_NAMES[own]: one}) == for_machines(own, one)
    assert taken(role, own, {own: one}) == for_machines(own, one)
    assert taken(role, own, {FLEET_NAMES[own]: one, own: two}) == for_machines(own, two)


@pytest.mark.parametrize("own", [o for o in FLEET_NAMES if role_options()[o].get("options")])
def test_a_list_comes_from_the_fleet_file_or_from_its_own_name(own: str) -> None:
    role = next(role for role in role_names() if own in options_of(role))
    inner = options_of(role)[own]["options"]
    needed = {"slices"} if own in PARTS else set()
    given: Any = {
        key: ["x"] if key in needed else _value(part, KINDS.get(f"{own}.{key}", ""))
        for key, part in inner.items()
        if part.get("required") or key in needed
    }
    given = [given] if options_of(role)[own]["type"] == "list" else {"num_slices": 2}
    wanted, nothing = (
        settings_of(role, {own: value})["settings"][own.removeprefix(f"{role}_")]
        for value in (given, type(given)())
    )
    assert wanted != nothing
    assert taken_list(role, own, {FLEET_NAMES[own]: given}) == wanted
    assert taken_list(role, own, {own: given}) == wanted
    assert taken_list(role, own, {FLEET_NAMES[own]: given, own: type(given)()}) == nothing


def taken_list(role: str, own: str, more: dict[str, Any]) -> Any:
    variables = {**variables_of(role, more), **SETTLED}
    known = expression(f"'{role}' | tpu.fleet.role_settings", variables)
    return known["settings"][own.removeprefix(f"{role}_")]


def _value(option: dict[str, Any], kind: str) -> Any:
    if kind:
        return AMOUNTS[kind][0]
    if option.get("choices"):
        return option["choices"][0]
    kinds: dict[str, Any] = {"int": 1, "list": [], "dict": {}, "bool": True}
    return kinds.get(option["type"], "x")


def test_a_default_stays_as_it_is() -> None:
    """Validation fills in the keys of a mapping, which is not to be that of the specification."""
    settings_of("training_run", {})
    assert options_of("training_run")["training_run_multislice"]["default"] == {}
