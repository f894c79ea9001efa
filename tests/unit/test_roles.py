"""What holds for every role: documented as it is, and run by the host alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import FLEET_NAMES
from role_templates import expression

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parent for path in (ROOT / "roles").glob("*/meta"))
# What would need the controller, or another host, while the host is being configured.
CONTROLLER_KEYS = {"delegate_to", "local_action", "delegate_facts", "connection", "run_once"}
CONTROLLER_LOOKUPS = re.compile(
    r"lookup\(\s*['\"](?:ansible\.builtin\.)?(?:file|fileglob|env|pipe|url|password|lines)['\"]"
)
# What a bundle carries along, or a host can do without: the reason why it is no such need.
NO_NEED = {
    ("training_run", "install.yml"): "reads the role's own files",
    ("env_secrets", "main.yml"): "reads the role's own files",
    ("code_checkout", "digests.json.j2"): "reads the snapshot that comes with the bundle",
    ("code_checkout", "main.yml"): "takes the commit of the first worker in the play, or of itself",
    ("code_checkout", "verify.yml"): "compares with itself where it is the only one",
    ("python_env", "main.yml"): "takes what the first worker in the play resolved, or itself",
    ("python_env", "files.json.j2"): "reads the role's own files",
}
PARTS = ("tasks", "handlers", "vars", "templates")
PHASES = ["validate", "install", "configure", "verify"]
OTHER_HOSTS = re.compile(r"\bhostvars\b|\bgroups\[|\bansible_play_hosts\b|\bansible_play_batch\b")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def task_files(role: Path) -> list[Path]:
    return sorted([*role.glob("tasks/**/*.yml"), *role.glob("handlers/**/*.yml")])


def tasks_in(items: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    for task in items or []:
        yield task
        for key in ("block", "rescue", "always"):
            yield from tasks_in(task.get(key))


def options_of(role: Path) -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = load(role / "meta" / "argument_specs.yml")[
        "argument_specs"
    ]["main"]["options"]
    return options


def without_description(name: str, options: dict[str, Any]) -> list[str]:
    found = []
    for key, option in options.items():
        if not option.get("description") or not option.get("type"):
            found.append(f"{name}{key}")
        found += without_description(f"{name}{key}.", option.get("options", {}))
    return found


@functools.cache
def words_of_yaml() -> frozenset[str]:
    """Return the words of all that Ansible evaluates, but for the declarations themselves."""
    files = [
        path
        for folder in (
            "roles/*/tasks",
            "roles/*/vars",
            "roles/*/templates",
            "playbooks",
            "inventory",
        )
        for path in ROOT.glob(f"{folder}/**/*")
        if path.is_file()
    ]
    made = [
        line
        for path in ROOT.glob("roles/*/defaults/main.yml")
        for line in path.read_text().splitlines()
        if "{{" in line
    ]
    texts = [path.read_text() for path in files]
    # The name of the variable itself is before the colon.
    texts += [line.partition(":")[2] for line in made]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def controller_needs(text: str, tasks: list[dict[str, Any]]) -> list[str]:
    found = [key for task in tasks_in(tasks) for key in sorted(CONTROLLER_KEYS & set(task))]
    return found + CONTROLLER_LOOKUPS.findall(text) + OTHER_HOSTS.findall(text)


def test_roles_are_found() -> None:
    names = {role.name for role in ROLES}
    assert {"host_base", "user_accounts", "python_env", "code_checkout", "training_run"} <= names


def without_fleet(key: str, value: Any) -> Any:
    """Return a default as it is where the fleet file says nothing: a value, or a template."""
    if key not in FLEET_NAMES:
        return value
    found = re.fullmatch(rf"{{{{ {FLEET_NAMES[key]} \| default\((.*)\) }}}}\s*", value, re.DOTALL)
    assert found, f"{key} does not take the value of {FLEET_NAMES[key]}"
    return f"{{{{ {found[1]} }}}}" if "default(" in found[1] else expression(found[1], {})


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
class TestRole:
    def test_each_option_has_one_default(self, role: Path) -> None:
        defaults = load(role / "defaults" / "main.yml") or {}
        options = options_of(role)
        with_default = {
            key: option["default"] for key, option in options.items() if "default" in option
        }
        # A strict antsibull-docs takes a template for a text only; the description says it instead.
        defaults = {key: without_fleet(key, value) for key, value in defaults.items()}
        in_words = {
            key
            for key, value in defaults.items()
            if "{{" in str(value) and options[key]["type"] not in ("str", "path")
        }
        assert {key: with_default[key] for key in defaults if key not in in_words} == {
            key: value for key, value in defaults.items() if key not in in_words
        }
        assert in_words & set(with_default) == set()
        for key in in_words:
            source = re.findall(r"\w+", defaults[key])[0]
            assert f"The default is C({source})" in str(options[key]["description"]), key
        required = {key for key, option in options.items() if option.get("required")}
        assert set(options) == set(with_default) | in_words | required

    def test_defaults_are_only_what_is_read_as_a_variable(self, role: Path) -> None:
        """Code has the defaults of the specification."""
        found = load(role / "defaults" / "main.yml") or {}
        defaults = {key: without_fleet(key, value) for key, value in found.items()}
        made = {key for key, value in defaults.items() if "{{" in str(value)}
        assert {key for key in set(defaults) - made if key not in words_of_yaml()} == set()
        specified = {
            key for key, option in options_of(role).items() if "{{" in str(option.get("default"))
        }
        assert specified <= made, "only Ansible evaluates it"

    def test_what_is_read_of_the_fleet_file_is_read_by_both_names(self, role: Path) -> None:
        """A variable of this role has a default for that; one of another role is not known here."""
        defaults = load(role / "defaults" / "main.yml") or {}
        for folder in ("defaults", "handlers", "tasks", "templates", "vars"):
            for path in (role / folder).glob("*.*"):
                text = re.sub(r"(?m)^ *#.*", "", path.read_text())
                for name in FLEET_NAMES.keys() & set(re.findall(r"\w+", text)):
                    if name.startswith(f"{role.name}_"):
                        assert name in defaults, f"{path}: {name}"
                        continue
                    other = FLEET_NAMES[name]
                    uses = re.findall(rf"\b{name}\b(?! \| default\({other} \|)", text)
                    first = len(re.findall(rf"\b{other} \| default\({name} \|", text))
                    assert len(uses) == first, f"{path}: {name} without {other}"

    def test_every_option_has_type_and_description(self, role: Path) -> None:
        assert without_description("", options_of(role)) == []

    def test_variables_carry_the_role_name(self, role: Path) -> None:
        internal = load(role / "vars" / "main.yml") or {}
        assert all(key.startswith(f"{role.name}_") for key in options_of(role))
        assert all(key.startswith(f"__{role.name}_") for key in internal)

    def test_readme_names_every_option(self, role: Path) -> None:
        text = (role / "README.md").read_text()
        groups = [re.escape(word[:-1]) for word in re.findall(r"\b\w+_\*", text)]
        patterns = [f"{role.name}_"]
        missing = [
            key
            for key in options_of(role)
            if key not in text and not any(re.match(group, key) for group in groups)
        ]
        assert missing == []
        assert f"tpu.fleet.{role.name}" in text, "one example"
        assert patterns[0] in text

    def test_it_needs_neither_controller_nor_other_hosts(self, role: Path) -> None:
        needs = {}
        for path in task_files(role):
            found = controller_needs(path.read_text(), load(path) or [])
            if found and (role.name, path.name) not in NO_NEED:
                needs[path.name] = found
        for path in [*role.glob("templates/**/*"), *role.glob("vars/*.yml")]:
            if (role.name, path.name) in NO_NEED:
                continue
            if path.is_file() and (found := controller_needs(path.read_text(), [])):
                needs[path.name] = found
        assert needs == {}

    def test_main_is_short_and_tags_each_phase_once(self, role: Path) -> None:
        main = role / "tasks" / "main.yml"
        assert len(main.read_text().splitlines()) <= 40
        for task in load(main):
            files = [
                str(value.get("file") if isinstance(value, dict) else value)
                for key, value in task.items()
                if key.endswith(("import_tasks", "include_tasks"))
            ]
            # A phase of one task needs no file of its own.
            phases = [file.removesuffix(".yml") for file in files] or PHASES
            tags = [*task.get("tags", []), *_applied(task)]
            assert role.name in tags
            assert any(f"{role.name}_{phase}" in tags for phase in phases)
        for path in task_files(role):
            if path.name != "main.yml":
                assert not [task for task in tasks_in(load(path)) if "tags" in task], path


def _applied(task: dict[str, Any]) -> list[str]:
    include = task.get("ansible.builtin.include_tasks")
    tags: list[str] = include.get("apply", {}).get("tags", []) if isinstance(include, dict) else []
    return tags


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("- name: x\n  delegate_to: localhost\n  ansible.builtin.ping:\n", True),
        ("- name: x\n  block:\n    - name: y\n      local_action: ping\n", True),
        ("- name: x\n  ansible.builtin.copy:\n    content: \"{{ lookup('file', 'a') }}\"\n", True),
        ('- name: x\n  ansible.builtin.debug:\n    var: hostvars["a"].b\n', True),
        (
            "- name: x\n  ansible.builtin.copy:\n    content: \"{{ lookup('template', 'a') }}\"\n",
            False,
        ),
    ],
)
def test_the_check_itself_can_fail(text: str, needs: bool) -> None:
    assert bool(controller_needs(text, yaml.safe_load(text))) is needs
