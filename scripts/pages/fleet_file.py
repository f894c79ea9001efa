"""docs/fleet-file.md, from the schema of the fleet file, the roles, and an example.

The schema has the types. Descriptions and defaults come from where the key is defined: the schema,
the argument_specs of the roles, or the documentation of the module tpu_vm. The example must be a
valid fleet file that uses every key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import yaml
from ansible_collections.tpu.fleet.plugins.doc_fragments.node import ModuleDocFragment
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import AROUND
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import role_keys
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import NOTIFIED
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import (
    LISTS,
    PLAYBOOK_VARIABLES,
    SCALARS,
    WORDS,
    Key,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import ROLES, roles_in_order

from . import DOCS, wrapped

EXAMPLE = DOCS / "fleet-file.example.yml"

HEAD = """\
# The fleet file, key by key

The fleet file consists of the variables below, in `inventory/group_vars/all/*.yml` of your
inventory, in one file or several. [`fleet-file.example.yml`](fleet-file.example.yml) uses every
key. [getting-tpus.md](getting-tpus.md) explains how the keys of a slice work together.

A relative path starts at the folder of the inventory, where `fleet.tpu.yml` is: `../code` is beside
this folder. In a template write `inventory_dir`, as in
`"{{ lookup('ansible.builtin.file', inventory_dir ~ '/../keys/bob.pub') }}"`. A section with nothing
below it is empty. A variable whose name is almost that of one of these is an error, also in the
variables of groups and hosts; all others are your own.

`ansible-playbook tpu.fleet.provision --check` checks the whole file before it sends a request to
Google, and reports all mistakes at once, with field, value and remedy.

Required keys are marked with *.
"""

SCALARS_ABOUT = "Where the fleet is, and what applies to all of it."
ABOUT = {
    "fleet_allocations": "What the grant allows. Nothing is created outside it. Without it nothing "
    "is created at all; with `fleet_allocations: unrestricted` only the project's quota limits "
    "what is created. See [grant.md](grant.md).",
    "fleet_slices": "The slices that you want. Without a slice a fleet is only its people and "
    "environments.",
    "fleet_prices": "Prices that override those of the collection when `tpu-fleet status` shows "
    "costs.",
    "fleet_self_setup": "Where machines find what they set themselves up with when no controller "
    "does. See [self-setup.md](self-setup.md).",
    "fleet_notify": "Whom `tpu-fleet watch` notifies. See [watch.md](watch.md).",
    "fleet_services": "APIs of the project that `tpu.fleet.enable_api` enables, beside those that "
    "the fleet file needs.",
    "fleet_project_keys": "SSH keys in the project's metadata, which open **every** machine of the "
    "project.",
    "fleet_mosh": "The firewall rule for mosh.",
    "fleet_disks": "Data disks, which outlive the slices.",
    "fleet_service_account": "The account as which slices act, with the least rights.",
}
SEE_AROUND = "See [around-the-slice.md](around-the-slice.md)."
OF_ONE_PLAYBOOK = {
    "teardown": ("teardown", "The slices to delete, separated by commas, or `all`."),
    "finish": ("finish", "The slice to [stop or delete](after-the-end.md) after its runs."),
    "run": ("collect", "The run whose files are [fetched](runs.md#what-it-left)."),
    "collect_to": ("collect", "Folder on this computer; default `fleet_results_dir`."),
    "doctor_fix": ("doctor", "Whether to make the [safe repairs](doctor.md)."),
    "doctor_fail_on": (
        "doctor",
        "From which status the playbook fails: `fail`, `warn` or `never`.",
    ),
    "metrics_targets_file": ("metrics_targets", "The [file for Prometheus](metrics.md)."),
    "fleet_run": ("drill", "The run, and `fleet_drill_…`: [drill.md](drill.md) has all of them."),
    "fleet_github_token": (
        "git_keys",
        "The token, and `fleet_github_…`: [git-access.md](git-access.md) has all of them.",
    ),
}
TYPES = {
    "str": "text",
    "int": "whole number",
    "number": "number",
    "bool": "true or false",
    "dict": "mapping",
    "any": "as described",
    "list": "list",
}


def page() -> str:
    """Return the page of the fleet file: a section for each variable."""
    examples = example_sections()
    parts = [HEAD.rstrip()]
    parts.append("## Single variables")
    parts.append(wrapped(SCALARS_ABOUT))
    parts.append(keys_table(SCALARS, {}))
    parts.append(examples["fleet"])
    for variable, keys in {**LISTS, **{n: key.options for n, key in NOTIFIED.items()}}.items():
        parts.append(f"## {variable}")
        parts.append(wrapped(ABOUT[variable]))
        parts.append(f"A list{or_word(variable)} of entries with these keys:")
        parts += tables(keys, node_options())
        parts.append(examples[variable])
    for variable, key in SELF_SETUP.items():
        parts.append(f"## {variable}")
        parts.append(wrapped(ABOUT[variable]))
        parts.append("A mapping with these keys:")
        parts += tables(key.options, {})
        parts.append(examples[variable])
    for variable, key in AROUND.items():
        parts.append(f"## {variable}")
        parts.append(wrapped(f"{ABOUT[variable]} {SEE_AROUND}"))
        if key.options:
            is_list = key.type == "list"
            parts.append(f"A {'list of entries' if is_list else 'mapping'} with these keys:")
            parts += tables(key.options, {})
        parts.append(examples[variable])
    for role in roles_in_order():
        parts += role_section(role, examples)
    parts.append("## Variables of the playbooks")
    parts.append("Set them in the fleet file, or for one run with `-e` on the command line.")
    rows = [
        f"| `{name}` | {code(key.default)} | {key.description} |"
        for name, key in PLAYBOOK_VARIABLES.items()
    ]
    parts.append("\n".join(["| variable | default | meaning |", "| --- | --- | --- |", *rows]))
    parts.append("Further variables belong to one playbook each:")
    rows = [
        f"| `{name}` | `tpu.fleet.{playbook}` | {meaning} |"
        for name, (playbook, meaning) in OF_ONE_PLAYBOOK.items()
    ]
    parts.append("\n".join(["| variable | playbook | meaning |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def role_section(role: str, examples: Mapping[str, str]) -> list[str]:
    """Return the section of one role: all its variables, and the keys of those that have keys."""
    path = ROLES / role / "meta" / "argument_specs.yml"
    spec = yaml.safe_load(path.read_text())["argument_specs"]["main"]
    options = spec["options"]
    keys = role_keys(options)
    parts = [f"## The role {role}", f"{spec['short_description']}."]
    parts.append(keys_table(keys, options))
    for variable, key in keys.items():
        if not key.options:
            continue
        kind = "A list of entries" if key.type == "list" else "A mapping"
        parts.append(f"### {variable}")
        parts.append(f"{kind} with these keys:")
        parts += tables(key.options, options[variable]["options"])
        parts += [examples[variable]] if variable in examples else []
    return parts


def tables(keys: Mapping[str, Key], fallback: Mapping[str, Any], above: str = "") -> list[str]:
    """Return the table of some keys, and the tables of their own keys."""
    parts = [keys_table(keys, fallback)]
    for name, key in keys.items():
        if key.options:
            of = f"{above}.{name}".lstrip(".")
            parts.append(f"Each of `{of}` has:" if key.type == "list" else f"`{of}` has:")
            known = fallback.get(name, {})
            inner = known.get("suboptions") or known.get("options", {})
            parts += tables(key.options, inner, of)
    return parts


def or_word(variable: str) -> str:
    """Return the word that is allowed instead of the list."""
    word = WORDS.get(variable)
    return f" (or the word `{word}`)" if word else ""


def keys_table(keys: Mapping[str, Key], fallback: Mapping[str, Any]) -> str:
    """Return the table of some keys; the fallback has what the schema lacks."""
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, key in keys.items():
        option = fallback.get(name, {})
        if not key.description and "description" not in option:
            sys.exit(
                f"The key {name} of the fleet file has no description. Give its Key one in "
                "_schema/keys.py, or describe the option in _ansible/fragments.py."
            )
        meaning = key.description or text_of(option["description"])
        default = key.default or default_of(option)
        star = " *" if key.required else ""
        rows.append(f"| `{name}`{star} | {type_of(key)} | {code(default)} | {meaning} |")
    return "\n".join(rows)


def type_of(key: Key) -> str:
    """Return the allowed values, in words."""
    if key.choices:
        return " · ".join(f"`{choice}`" for choice in key.choices)
    if key.type == "list":
        elements = {"str": "texts", "dict": "mappings", "int": "numbers", "any": "values"}[
            key.elements or "str"
        ]
        return f"list of {elements}"
    return TYPES[key.type]


def default_of(option: Mapping[str, Any]) -> str:
    """Return the default that a role or module declares."""
    value = option.get("default")
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    if isinstance(value, dict):
        return ", ".join(f"`{name}: {item}`" for name, item in value.items())
    if "{{" in str(value):
        others = re.findall(r"\b(?!tpu_vm_)\w+_\w+(?= \| default)", value)
        return f"`{others[0]}`" if others else "from the inventory"
    return str(value).lower() if isinstance(value, bool) else str(value)


def code(default: str) -> str:
    """Mark a default that is a value; a default in words stays unmarked."""
    return default if " " in default or not default or "`" in default else f"`{default}`"


def text_of(description: str | list[str]) -> str:
    """Return the description of an option, with Ansible's markup turned into Markdown."""
    text = description if isinstance(description, str) else " ".join(description)
    text = re.sub(r"O\([\w.]+\[\]\.(\w+)\)", r"`\1`", text)
    return re.sub(r"\b[CVOEMP]\(([^)#]+)[^)]*\)", r"`\1`", text)


def node_options() -> dict[str, Any]:
    """Return the options that describe a node, as the module tpu_vm documents them."""
    options: dict[str, Any] = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
    return options


def example_sections() -> dict[str, str]:
    """Return the parts of the example by their marks: comment lines of one word."""
    sections: dict[str, str] = {}
    for part in re.split(r"(?m)^# (?=\w+$)", EXAMPLE.read_text())[1:]:
        name, _newline, text = part.partition("\n")
        # Another comment at the margin begins what belongs to no section.
        text = re.split(r"\n\n(?=# )", text)[0]
        sections[name] = f"```yaml\n{text.strip()}\n```"
    return sections
