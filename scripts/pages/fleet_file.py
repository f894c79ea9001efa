"""docs/fleet-file.md, from the schema of the fleet file, the roles, and an example.

The schema has the types. Descriptions and defaults come from where the key is defined: the schema,
the argument_specs of the roles, or the documentation of the module tpu_vm. The example must be a
valid fleet file that uses every key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from ansible_collections.tpu.fleet.plugins.doc_fragments.node import ModuleDocFragment
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import AROUND
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.budget import BUDGET
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import role_keys
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import NOTIFIED
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import QUEUE
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import (
    LISTS,
    SCALARS,
    Key,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import (
    FLEET_NAMES,
    PARTS,
    fleet_name,
    in_fleet_file,
    own_name,
    renamed,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    ROLES,
    options_of,
    role_options,
    roles_in_order,
)

from . import DOCS, wrapped

EXAMPLE = DOCS / "fleet-file.example.yml"
EXAMPLES = yaml.safe_load(EXAMPLE.read_text())

HEAD = """\
# The fleet file, key by key

The fleet file consists of the variables below, in `inventory/group_vars/all/*.yml` of your
inventory, in one file or several. All begin with `fleet_`. The roles' own variables are
refused there. [`fleet-file.example.yml`](fleet-file.example.yml) uses every key.
[getting-tpus.md](getting-tpus.md) explains how the keys of a slice work together.

A relative path starts at the folder of the inventory, where `fleet.tpu.yml` is: `../code` is beside
this folder. In a template write `inventory_dir`, as in
`"{{ lookup('ansible.builtin.file', inventory_dir ~ '/../keys/bob.pub') }}"`. A section with nothing
below it is empty. A variable with almost such a name is an error; all others are your own.

`tpu-fleet plan` checks the whole file before it sends a request to Google, and reports all mistakes
at once, with field, value and remedy.

Keys with * are required; a default is in parentheses behind the type. `texts` is a list of texts,
`entries` a list of mappings; `any` is explained beside it. A `duration` has its unit: `90s`, `30m`,
`12h`, `2d`, or `1h30m`. So has a
`size`: `512MiB`, `20GiB` or `1TiB`; these are binary, as disks are at Google, whose GB are GiB.
`null` is the one word for off.
"""
SHORT_HEAD = "key | type | meaning"
"""Of a page that says at its top where defaults stand."""
HEAD_WITH_DEFAULT = "key | type (default) | meaning"
COMMON_ABOUT = "These mean the same in every table that has them:"

SCALARS_ABOUT = "Where the fleet is, and what applies to all of it."
ABOUT = {
    "fleet_allocations": "What the grant allows. Nothing is created outside it. Without it nothing "
    "is created at all; with `fleet_allocations: unrestricted` only the project's quota limits "
    "what is created. See [grant.md](grant.md).",
    "fleet_slices": "The slices that you want.",
    "fleet_prices": "Prices that override those of the collection when `tpu-fleet status` shows "
    "costs.",
    "fleet_self_setup": "Where machines find what they set themselves up with when no controller "
    "does. See [self-setup.md](self-setup.md).",
    "fleet_budget": "What the slices may cost by list prices, which `tpu-fleet watch` counts, and "
    "what happens when that is spent. See [costs.md](costs.md).",
    "fleet_queue": "Where [submitted runs](queue.md) wait.",
    "fleet_notify": "Whom `tpu-fleet watch` notifies. See [watch.md](watch.md).",
    "fleet_services": "APIs of the project that `tpu.fleet.enable_api` enables, beside those that "
    "the fleet file needs.",
    "fleet_project_keys": "SSH keys in the project's metadata, which open **every** machine of the "
    "project.",
    "fleet_mosh": "The firewall rule for mosh.",
    "fleet_disks": "Data disks, which outlive the slices.",
    "fleet_checkpoint_buckets": "Buckets for checkpoints.",
    "fleet_service_account": "The account as which slices act, with the least rights.",
}
SEE_AROUND = "See [around-the-slice.md](around-the-slice.md)."
TYPES = {
    "str": "text",
    "int": "integer",
    "number": "number",
    "bool": "boolean",
    "dict": "mapping",
    "any": "any",
    "list": "list",
    "duration": "duration",
    "size": "size",
    "memory": "size or share",
}
LISTS_OF = {"str": "texts", "dict": "entries", "int": "integers", "any": "values"}
# What the descriptions of roles name, and what the fleet file has in its place.
OF_OTHERS = {"datasets": "fleet_datasets", "venvs": "fleet_venvs", "users": "fleet_users"}
NAMES = {
    **{f"{role}_{own}": name for role in roles_in_order() for own, name in OF_OTHERS.items()},
    **FLEET_NAMES,
}
# Keys that mean the same in several places: type with default, meaning, where they stand.
COMMON = {
    "adopt": (
        "boolean (`false`)",
        "Whether to take over what another tool or fleet created.",
        ("fleet_checkpoint_buckets", "fleet_mosh", "fleet_service_account", "fleet_slices"),
    ),
    "cross_region": (
        "`refuse`, `allow` (`refuse`)",
        "Whether a bucket in another region than a zone of its slices is an error, or accepted.",
        (
            *("fleet_boards", "fleet_buckets", "fleet_datasets", "fleet_queue", "fleet_runs"),
            "fleet_self_setup",
        ),
    ),
    "description": (
        "text",
        "Text on the resource, for people; at most 512 characters.",
        ("fleet_disks", "fleet_service_account", "fleet_slices"),
    ),
    "enabled": (
        "boolean (`true`)",
        "Whether it runs, now and after every boot.",
        ("fleet_notebooks", "fleet_boards", "fleet_runs"),
    ),
    "env": (
        "mapping",
        "Environment variables. No secrets, because all users of the host can read them.",
        ("fleet_notebooks", "fleet_boards"),
    ),
    "hardening": (
        "boolean (`true`)",
        "Whether it can never gain rights that its user does not have. With `false`, `sudo` works.",
        ("fleet_notebooks", "fleet_boards"),
    ),
    "labels": ("mapping", "Labels of the resource.", ("fleet_disks", "fleet_slices")),
    "memory_max": (
        "size or share",
        "Maximum memory, `8GiB`, or a share of the machine's, `25%`.",
        ("fleet_notebooks", "fleet_boards"),
    ),
    "secrets": (
        "texts",
        "Sets of `fleet_secrets` whose variables go into its environment.",
        ("fleet_notebooks", "fleet_boards"),
    ),
    "slices": (
        "texts",
        "Names of the slices that the entry is for. By default all.",
        (
            *("fleet_buckets", "fleet_checkpoint_buckets", "fleet_code"),
            *("fleet_secrets", "fleet_git_identities", "fleet_git_keys"),
            *("fleet_notebooks", "fleet_venvs", "fleet_boards"),
            *("fleet_users", "fleet_shells", "fleet_queue", "fleet_datasets"),
        ),
    ),
    "state": (
        "`present`, `absent` (`present`)",
        "`absent` removes it.",
        (
            *("fleet_checkpoint_buckets", "fleet_disks", "fleet_mosh", "fleet_project_keys"),
            "fleet_service_account",
        ),
    ),
    "worker": (
        "integer (`0`)",
        "Index of the worker that has it.",
        ("fleet_shares", "fleet_notebooks", "fleet_boards"),
    ),
}


def page() -> str:
    """Return the page of the fleet file: a section for each variable."""
    examples = example_sections()
    parts = [HEAD.rstrip(), "## Common keys", COMMON_ABOUT]
    parts.append(table([f"`{key}` | {kind} | {told}" for key, (kind, told, _) in COMMON.items()]))
    parts += ["## Single variables", SCALARS_ABOUT, keys_table(SCALARS, {}), examples["fleet"]]
    variables = {
        **{name: Key("list", elements="dict", options=keys) for name, keys in LISTS.items()},
        **{**NOTIFIED, **SELF_SETUP, **AROUND, **BUDGET, **QUEUE},
    }
    for name, key in variables.items():
        see = f" {SEE_AROUND}" if name in AROUND else ""
        parts += [f"## {name}", wrapped(ABOUT[name] + see)]
        if key.options:
            parts += tables(key.options, described_elsewhere(name), name)
        parts.append(examples[name])
    for role in roles_in_order():
        parts += role_section(role, examples)
    parts.append("## Variables of the playbooks")
    parts.append("[playbooks.md](playbooks.md#variables) has them.")
    return renamed("\n\n".join(parts) + "\n", NAMES)


def role_section(role: str, examples: Mapping[str, str]) -> list[str]:
    """Return the section of one role: its lists with their keys, and the names of its settings."""
    path = ROLES / role / "meta" / "argument_specs.yml"
    spec = yaml.safe_load(path.read_text())["argument_specs"]["main"]
    options = in_fleet_file(spec["options"])
    given = {fleet_name(variable) for variable in given_by_playbooks(role)}
    parts = [f"## The role {role}", f"{spec['short_description']}."]
    settings = []
    for variable, key in role_keys(options).items():
        if variable in AROUND:
            continue
        if key.options and variable in examples:
            parts.append(f"### {variable}")
            parts += tables(key.options, options[variable]["options"], variable)
            parts.append(examples[variable])
        elif variable.startswith("fleet_") and variable not in given:
            settings.append(f"`{variable}`")
    if settings:
        readme = f"[Settings](../roles/{role}/README.md#variables)"
        parts.append(wrapped(f"{readme}: {', '.join(settings)}."))
    return parts


def given_by_playbooks(role: str) -> set[str]:
    """Name the variables of a role that a fleet file has no need to set.

    Their values come from the inventory, from the variables of another role, or from a playbook.
    """
    told = yaml.safe_load((ROLES.parent / "playbooks/vars/apply.yml").read_text())
    options = options_of(role)
    found = {name for name in options if name in told}
    for name, option in options.items():
        text, default = text_of(option["description"]), str(option.get("default", ""))
        if (
            re.search(r"inventory_hostname|tpu_vm_|fleet_ray_", default)
            and fleet_name(name) not in EXAMPLES
        ):
            found.add(name)
        if re.search(
            r"The default is `(tpu_vm_\w+|\w+_(datasets|venvs|users))`|[Pp]laybooks? ", text
        ):
            found.add(name)
    return found


def tables(keys: Mapping[str, Key], fallback: Mapping[str, Any], place: str) -> list[str]:
    """Return the table of some keys, and the tables of their own keys."""
    common = [name for name in keys if place in COMMON.get(name, ((), (), ()))[2]]
    parts = [keys_table({n: k for n, k in keys.items() if n not in common}, fallback)]
    if common:
        names = ", ".join(f"`{name}`" for name in common)
        parts.append(f"Also [common](#common-keys): {names}.")
    for name, key in keys.items():
        if key.options:
            parts.append(f"{kind_of(key)} of `{name}`:")
            known = fallback.get(name, {})
            inner = known.get("suboptions") or known.get("options", {})
            parts += tables(key.options, inner, f"{place}.{name}")
    return parts


def kind_of(key: Key) -> str:
    """Return what has a table of keys: each entry of a list, or a mapping."""
    return "Keys of an entry" if key.type == "list" else "Keys"


def table(rows: Iterable[str], head: str = SHORT_HEAD) -> str:
    """Return a table in Markdown, with no more signs than it needs."""
    return "\n".join([head, "|".join("---" for _ in head.split("|")), *rows])


def keys_table(keys: Mapping[str, Key], fallback: Mapping[str, Any], head: str = SHORT_HEAD) -> str:
    """Return the table of some keys; the fallback has what the schema lacks."""
    rows = []
    for name, key in keys.items():
        option = fallback.get(name, {})
        if not key.description and "description" not in option:
            sys.exit(
                f"The key {name} of the fleet file has no description. Give its Key one in "
                "_schema/keys.py, or describe the option in _ansible/fragments.py."
            )
        meaning = key.description or text_of(option["description"])
        default = code(key.default or default_of(option))
        star = " *" if key.required else ""
        kind = f"{type_of(key)} ({default})" if default else type_of(key)
        rows.append(f"`{name}`{star} | {kind} | {meaning}")
    return table(rows, head)


def type_of(key: Key) -> str:
    """Return the allowed values, in words."""
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.words)
    return LISTS_OF[key.elements or "str"] if key.type == "list" else TYPES[key.type]


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


def described_elsewhere(variable: str) -> dict[str, Any]:
    """Return the options that describe keys of a variable whose Key has no description."""
    if variable in LISTS:
        return node_options()
    own = own_name(variable)
    options: dict[str, Any] = role_options().get(own, {}).get("options", {})
    return options if own in PARTS else {}


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
