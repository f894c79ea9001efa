"""Evaluate the templates of a role as Ansible does on a host, without a host."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ansible._internal._templating._jinja_bits import (
    AnsibleEnvironment,
    _TemplateCompileContext,
)
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).resolve().parents[2] / "roles"


def _compile_once() -> None:
    """Have a template compiled once for all hosts and tests; Ansible does it each time."""
    compile_template = AnsibleEnvironment.compile
    compiled: dict[tuple[str, bool], Any] = {}

    def compile_or_find(self: Any, source: Any, *more: Any, **options: Any) -> Any:
        # One with settings of its own, or one that Jinja has parsed already.
        if self.overlayed or not isinstance(source, str) or any(more) or any(options.values()):
            return compile_template(self, source, *more, **options)
        key = (str(source), _TemplateCompileContext.current().escape_backslashes)
        if key not in compiled:
            compiled[key] = compile_template(self, source, *more, **options)
        return compiled[key]

    AnsibleEnvironment.compile = compile_or_find


_compile_once()


@functools.cache
def read(path: Path) -> Any:
    """Read a file as Ansible does, with templates to fill in."""
    return DataLoader().load_from_file(str(path), trusted_as_template=True)


def variables_of(role: str, more: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that the role's tasks see on a host, and more."""
    return {
        "inventory_hostname": "host",
        "role_path": str(ROLES / role),
        "ansible_search_path": [str(ROLES / role)],
        "ansible_check_mode": False,
        **read(ROLES / role / "defaults" / "main.yml"),
        **(read(ROLES / role / "vars" / "main.yml") if (ROLES / role / "vars").exists() else {}),
        **more,
    }


def task(role: str, file: str, name: str) -> dict[str, Any]:
    """Return a task of the role."""
    return next(task for task in read(ROLES / role / "tasks" / file) if task["name"] == name)


def arguments(role: str, file: str, name: str, variables: dict[str, Any]) -> Any:
    """Return what a task gives to its module."""
    found = task(role, file, name)
    (module,) = (key for key in found if "." in key)
    return filled(found[module], {**variables, **found.get("vars", {})})


def filled(template: Any, variables: dict[str, Any]) -> Any:
    """Fill in a template, or all those in a value."""
    return Templar(loader=DataLoader(), variables=variables).template(template)


def expression(text: str, variables: dict[str, Any]) -> Any:
    """Evaluate an expression, as when does."""
    return filled(trust_as_template(f"{{{{ {text} }}}}"), variables)
