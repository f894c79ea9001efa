"""src/tpu_fleet/fleet.schema.json: the fleet file as a JSON Schema, for editors.

It is made from the tables by which the checks go. What only a rule can say (that a slice is within
the grant, that a name is declared) it leaves to the checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import AROUND
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.budget import BUDGET
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import role_keys
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import NOTIFIED
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import QUEUE
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.durations import DURATION
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import (
    LISTS,
    PLAYBOOK_VARIABLES,
    SCALARS,
    WORDS,
    Key,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import renamed
from ansible_collections.tpu.fleet.plugins.module_utils._schema.sizes import MEMORY, SIZE
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    fleet_options,
    role_names,
)

from .fleet_file import ABOUT, NAMES, default_of, described_elsewhere, text_of

Schema = dict[str, Any]
TEMPLATE: Schema = {"type": "string", "pattern": r"\{[{%]"}
TYPES = {
    "str": "string",
    "int": "integer",
    "number": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "duration": "string",
    "size": "string",
    "memory": "string",
}
AMOUNTS = {"duration": DURATION, "size": SIZE, "memory": MEMORY}
# What playbooks take on the command line, and nothing checks.
OTHERS = "fleet_(drill|github|login)_"
# What Ansible makes a number or a flag of, where a role takes one.
TEXTS = {
    "int": {"type": "string", "pattern": r"^-?\d+$"},
    "bool": {
        "type": "string",
        "pattern": "^([Yy]es|[Nn]o|[Tt]rue|[Ff]alse|[Oo]n|[Oo]ff|[01TtFfYyNn])$",
    },
    "number": {"type": "string", "pattern": r"^-?\d+(\.\d+)?$"},
}


def page() -> str:
    """Return the schema as a file, a line for each variable."""
    whole = schema()
    lines = [f"{json.dumps(name)}: {as_json(one)}" for name, one in whole["properties"].items()]
    rest = [f"{json.dumps(k)}: {as_json(v)}" for k, v in whole.items() if k != "properties"]
    properties = '"properties": {\n' + ",\n".join(lines) + "\n}"
    return "{\n" + ",\n".join([*rest, properties]) + "\n}\n"


def as_json(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def schema() -> Schema:
    """Return the schema of all variables of the fleet file."""
    options = {name: one for name, one in fleet_options().items() if name.startswith("fleet_")}
    variables = {
        **{name: of(key, {}) for name, key in PLAYBOOK_VARIABLES.items()},
        **{
            name: of(key, {"options": described_elsewhere(name)})
            for name, key in {**SCALARS, **AROUND, **SELF_SETUP}.items()
        },
        **{name: of(key, {}) for name, key in {**NOTIFIED, **BUDGET, **QUEUE}.items()},
        **{
            name: of(
                Key("list", elements="dict", options=keys), {"options": described_elsewhere(name)}
            )
            for name, keys in LISTS.items()
        },
        **{name: of_role(key, options[name]) for name, key in role_keys(options).items()},
    }
    for name, word in WORDS.items():
        variables[name]["if"] = {"anyOf": [TEMPLATE, {"const": word}]}
    for name, text in ABOUT.items():
        variables[name]["description"] = in_words(text)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "The fleet file of tpu.fleet",
        "type": ["object", "null"],
        "properties": dict(sorted(variables.items())),
        "propertyNames": names(variables),
    }


def names(variables: Mapping[str, Any]) -> Schema:
    """Return which names may be used: any that is not like ours, ours, and ours with more words."""
    beginnings = "|".join(["fleet", *role_names()])
    more = "|".join(sorted(variables))
    return {
        "if": {"pattern": f"^({beginnings}|training)s?_"},
        "then": {"anyOf": [{"enum": sorted(variables)}, {"pattern": f"^({OTHERS}|({more})_)"}]},
    }


def of_role(key: Key, option: Mapping[str, Any]) -> Schema:
    """Return the schema of a role's variable, whose text Ansible may take for a number."""
    if key.type == "str" and not key.choices:
        return described({"type": ["string", "number", "null"]}, key, option)
    if key.type in TEXTS:
        # Ansible refuses null where there is a default of another type.
        kind = TYPES[key.type] if option.get("default") is not None else [TYPES[key.type], "null"]
        either = {"type": kind}, TEXTS[key.type]
        return described({"if": TEMPLATE, "else": {"anyOf": list(either)}}, key, option)
    return of(key, option)


def of(key: Key, option: Mapping[str, Any]) -> Schema:
    """Return the schema of a key; the option has the description that the key lacks."""
    if key.type == "any":
        return described({}, key, option)
    if key.choices and key.type != "list":
        # Editors complete what is in anyOf, and not what is behind an if.
        return described({"anyOf": [{"enum": list(key.choices)}, TEMPLATE]}, key, option)
    kind: Schema = {"type": TYPES[key.type]}
    if not key.required:
        # Nothing behind the colon is as good as no key.
        kind["type"] = [kind["type"], "null"]
    if key.type == "list" and key.elements:
        element = Key(key.elements, True, key.choices, options=key.options)
        kind["items"] = of(element, option)
        kind["items"].pop("description", None)
    elif key.options:
        kind |= mapping(key.options, option)
    if key.type == "str":
        return described(kind, key, option)
    if key.type in AMOUNTS:
        kind["pattern"] = f"^({AMOUNTS[key.type]})$"
    # Validators name the fault within `else`; within anyOf they would blame the whole value.
    return described({"if": TEMPLATE, "else": kind}, key, option)


def mapping(keys: Mapping[str, Key], option: Mapping[str, Any]) -> Schema:
    """Return the schema of a mapping with these keys and no others."""
    inner = option.get("suboptions") or option.get("options") or {}
    required = [name for name, key in keys.items() if key.required]
    return {
        "properties": {name: of(key, inner.get(name, {})) for name, key in keys.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def described(kind: Schema, key: Key, option: Mapping[str, Any]) -> Schema:
    """Add what editors show: the meaning and the default."""
    told = key.description or text_of(option.get("description", ""))
    default = key.default or default_of(option)
    if default:
        told = f"{told} Default: {default}.".lstrip()
    return {"description": in_words(told), **kind} if told else kind


def in_words(text: str) -> str:
    """Return a description without links, which lead nowhere from an editor."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(renamed(text, NAMES).split()))
