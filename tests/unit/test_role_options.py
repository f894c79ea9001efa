"""An option of a role is declared once, in meta/argument_specs.yml, and arrives at the role's code.

CONTRIBUTING says which files a new option touches. Here a role gets one in its argument
specification alone, on a copy, and its module is called as the role's tasks do.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring
from ansible_collections.tpu.fleet.plugins.filter.role_plan import PLANS
from ansible_collections.tpu.fleet.plugins.module_utils._ansible import role_module
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles import specs as role_specs
from role_templates import ROLES, expression, filled, read, variables_of

MODULES = ROLES.parent / "plugins" / "modules"
WITH_MODULE = sorted(
    path.name for path in ROLES.iterdir() if (MODULES / f"{path.name}.py").exists()
)
# What the tasks before have registered, and what Ansible knows of the play.
KNOWN: dict[str, Any] = {
    "__code_checkout_looked": {"versions": {}},
    "ansible_play_hosts": [],
    "groups": {},
    "hostvars": {},
}
PLUGINS = "ansible_collections.tpu.fleet.plugins"


class Arrived(Exception):
    """What a module was given."""


def calls(tasks: list[dict[str, Any]], module: str) -> Iterator[dict[str, Any]]:
    """Yield the tasks that call a module, those in blocks too."""
    for task in tasks:
        if f"tpu.fleet.{module}" in task:
            yield task
        for key in ("block", "rescue", "always"):
            yield from calls(task.get(key, []), module)


def given(role: str, more: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the tasks of a role give to its module."""
    found = []
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in calls(read(path), role):
            variables = {**variables_of(role, {**KNOWN, **more}), **task.get("vars", {})}
            found.append(filled(task[f"tpu.fleet.{role}"], variables))
    return found


def specification(role: str) -> dict[str, Any]:
    options: dict[str, Any] = role_specs.options_of(role)
    return options


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return where the argument specification of the called module gets to."""
    found: dict[str, Any] = {}
    real = basic.AnsibleModule.__init__

    def init(self: basic.AnsibleModule, argument_spec: dict[str, Any], **more: Any) -> None:
        found.update(argument_spec)
        real(self, argument_spec, **more)

    monkeypatch.setattr(basic.AnsibleModule, "__init__", init)
    return found


def called(role: str, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Call the module of a role as Ansible does; return the settings that its code gets."""
    module = importlib.import_module(f"{PLUGINS}.modules.{role}")

    def spy(**more: dict[str, Any]) -> None:
        raise Arrived(role_module.role_module(**more)[1])

    monkeypatch.setattr(module, "role_module", spy)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode())
    with pytest.raises(Arrived) as arrived:
        module.main()
    settings: dict[str, Any] = arrived.value.args[0]
    return settings


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give every role two more options, in copies of the argument specifications."""
    for role in {*WITH_MODULE, *PLANS}:
        path = tmp_path / role / "meta" / "argument_specs.yml"
        path.parent.mkdir(parents=True)
        shutil.copy(ROLES / role / "meta" / "argument_specs.yml", path)
        whole = yaml.safe_load(path.read_text())
        options = whole["argument_specs"]["main"]["options"]
        options[f"{role}_added"] = {"type": "int", "default": 7}
        options[f"{role}_hidden"] = {"type": "str", "default": "", "no_log": True}
        path.write_text(yaml.safe_dump(whole))
    monkeypatch.setattr(role_specs, "ROLES", tmp_path)
    role_specs.options_of.cache_clear()
    yield
    role_specs.options_of.cache_clear()


def test_the_roles_with_a_module_are_found() -> None:
    assert {"user_accounts", "data_disk", "env_secrets", "user_shell"} <= set(WITH_MODULE)


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("role", WITH_MODULE)
def test_an_option_of_the_specification_alone_arrives(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, declared = (
        given(role, more) for more in ({}, {f"{role}_added": "8", f"{role}_hidden": "s3cret"})
    )
    assert len(without) == len(declared) > 0
    for args in without:
        assert called(role, args, monkeypatch)["added"] == 7
    for args in declared:
        assert "s3cret" not in str(args["settings"])
        settings = called(role, args, monkeypatch)
        assert (settings["added"], settings["hidden"]) == (8, "s3cret")


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("role", sorted(PLANS))
def test_an_option_of_the_specification_alone_arrives_at_the_plan(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLANS, role, lambda variables, _defaults, **_more: variables)
    for more, wanted in (({}, 7), ({f"{role}_added": 8}, 8)):
        assert expression(f"__{role}_plan", variables_of(role, more))[f"{role}_added"] == wanted


@pytest.mark.parametrize("role", WITH_MODULE)
def test_no_module_declares_an_option_of_its_role(
    role: str, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    called(role, given(role, {})[0], monkeypatch)
    options = {name.removeprefix(f"{role}_") for name in specification(role)}
    assert {"settings", "secrets"} <= set(spec)
    assert set(spec) & options == set()
    documented = get_docstring(str(MODULES / f"{role}.py"), fragment_loader, is_module=True)[0]
    assert documented["options"].keys() == set(spec)
    assert "internal" in " ".join(documented["notes"])


@pytest.mark.parametrize("role", WITH_MODULE)
def test_no_task_passes_an_option_of_its_role(role: str) -> None:
    names = set(specification(role))
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in calls(read(path), role):
            told = json.dumps([task[f"tpu.fleet.{role}"], task.get("vars", {})], default=str)
            assert [name for name in names if name in told] == [], f"{path}: {task['name']}"
