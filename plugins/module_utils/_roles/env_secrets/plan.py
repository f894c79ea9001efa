# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables and files of a set of secrets, and what to do with each file. No I/O.

No message contains a value.
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import io
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._schema.values import ENTRY_NAME, VARIABLE_NAME

GOOGLE = re.compile(
    r"(projects/[a-z0-9][a-z0-9.:-]*/secrets/)?[A-Za-z0-9_-]{1,255}(/versions/[A-Za-z0-9_-]+)?"
)
# systemd silently drops a variable with another control character.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Preset:
    """Where a tool reads its secrets: variables by value, and the file of its own login."""

    variables: Mapping[str, str]
    required: tuple[str, ...]
    path: str
    content: Callable[[Mapping[str, str]], str]


def _netrc(values: Mapping[str, str]) -> str:
    address = values.get("base_url") or "https://api.wandb.ai"
    host = address.partition("://")[2].partition("/")[0].partition(":")[0]
    return f"machine {host}\n  login user\n  password {values['api_key']}\n"


def _aws(values: Mapping[str, str]) -> str:
    writer = configparser.RawConfigParser()
    names = ("access_key_id", "secret_access_key", "session_token")
    writer["default"] = {f"aws_{name}": values[name] for name in names if values.get(name)}
    text = io.StringIO()
    writer.write(text)
    return text.getvalue().rstrip("\n") + "\n"


# From the documentation of the tools, and from what their login commands write.
PRESETS = {
    "wandb": Preset(
        {"api_key": "WANDB_API_KEY", "base_url": "WANDB_BASE_URL"}, ("api_key",), "~/.netrc", _netrc
    ),
    "hugging_face": Preset(
        {"token": "HF_TOKEN"},
        ("token",),
        "~/.cache/huggingface/token",
        lambda values: values["token"],
    ),
    "aws": Preset(
        {
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "session_token": "AWS_SESSION_TOKEN",
            "region": "AWS_DEFAULT_REGION",
        },
        ("access_key_id", "secret_access_key"),
        "~/.aws/credentials",
        _aws,
    ),
}


@dataclass(frozen=True)
class SecretSet:
    """One set, with the variables and files of its preset."""

    name: str
    owner: str
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    google: Mapping[str, str] = field(default_factory=dict)
    login: bool = False


def problems_of(entry: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (key, message, remedy) for each problem of a declared set."""
    found = []
    if not ENTRY_NAME.fullmatch(str(entry.get("name") or "")):
        found.append(("name", "is not a name", "Use letters, digits, dash and underscore"))
    found += _preset_problems(entry)
    sources = [entry.get("env"), entry.get("google_secrets")]
    for key, names in zip(("env", "google_secrets"), sources, strict=True):
        for name, value in _pairs(names):
            if not VARIABLE_NAME.fullmatch(name):
                message = "is not the name of an environment variable"
                remedy = "Use letters, digits and _, without a digit first"
                found.append((f"{key}.{name}", message, remedy))
            if key == "env":
                found += [(f"{key}.{name}", *wrong) for wrong in _value_problems(value)]
            elif not GOOGLE.fullmatch(str(value)):
                message = "is not the name of a secret"
                remedy = "Write name, name/versions/3 or projects/PROJECT/secrets/name"
                found.append((f"{key}.{name}", message, remedy))
    twice = set(_names(sources[0])) & set(_names(sources[1]))
    found += [
        (f"google_secrets.{name}", "is also in env", "Declare it once") for name in sorted(twice)
    ]
    paths: set[str] = set()
    for index, item in enumerate(_dicts(entry.get("files"))):
        path = str(item.get("path") or "")
        clean = posixpath.normpath(path)
        if not path.startswith(("/", "~/")) or clean != path or ".." in path.split("/"):
            message = "is not a plain whole path"
            found.append((f"files[{index}].path", message, "Begin it with / or ~/, without .."))
        if path in paths:
            found.append((f"files[{index}].path", "is declared twice", "Declare it once"))
        paths.add(path)
        if item.get("content") in (None, ""):
            found.append((f"files[{index}].content", "is empty", _EMPTY))
    return found


_EMPTY = "Set the variable, or unlock the vault, where Ansible runs"


def _preset_problems(entry: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    preset, values = entry.get("preset"), dict(_pairs(entry.get("values")))
    if not preset:
        remedy = f"Set preset to one of {', '.join(sorted(PRESETS))}"
        return [("values", "needs a preset", remedy)] if values else []
    known = PRESETS.get(str(preset))
    if known is None:
        return [("preset", "is not a preset", f"Use one of {', '.join(sorted(PRESETS))}")]
    found = []
    for name, value in values.items():
        if name not in known.variables:
            remedy = f"Use {', '.join(known.variables)}"
            found.append((f"values.{name}", f"is not a value of preset {preset}", remedy))
        found += [(f"values.{name}", *wrong) for wrong in _value_problems(value)]
    google = set(_names(entry.get("google_secrets")))
    for name in known.required:
        if name not in values and known.variables[name] not in google:
            message = f"is missing, but preset {preset} needs it"
            found.append((f"values.{name}", message, "Set it from a vault or the environment"))
    return found


def _value_problems(value: Any) -> list[tuple[str, str]]:
    if value in (None, ""):
        return [("is empty", _EMPTY)]
    if isinstance(value, (bool, dict, list)):
        return [("is not a string", "Put it into quotes")]
    if _CONTROL.search(str(value)):
        return [("has a control character", "Use only tab and newline in an environment variable")]
    return []


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return [(str(k), v) for k, v in value.items()] if isinstance(value, Mapping) else []


def _names(value: Any) -> list[str]:
    return [name for name, _value in _pairs(value)]


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def resolve(entry: Mapping[str, Any], project: str) -> SecretSet:
    """Return the set with its preset; the entry must have no problems."""
    variables: dict[str, str] = {}
    files: dict[str, str] = {}
    preset = PRESETS.get(str(entry.get("preset") or ""))
    if preset is not None:
        values = {name: str(value) for name, value in _pairs(entry.get("values"))}
        ways = entry.get("write") or ["env"]
        if "env" in ways:
            variables.update({preset.variables[name]: value for name, value in values.items()})
        if "files" in ways and all(name in values for name in preset.required):
            files[preset.path] = preset.content(values)
    variables.update({name: str(value) for name, value in _pairs(entry.get("env"))})
    files.update({str(i["path"]): str(i["content"]) for i in _dicts(entry.get("files"))})
    google = {n: full_name(str(v), project) for n, v in _pairs(entry.get("google_secrets"))}
    return SecretSet(
        name=str(entry["name"]),
        owner=str(entry.get("user") or "root"),
        variables=variables,
        files=files,
        google=google,
        login=bool(entry.get("in_login_shell")),
    )


def full_name(name: str, project: str) -> str:
    """Return the full resource name of a version of a Google secret."""
    whole = name if name.startswith("projects/") else f"projects/{project}/secrets/{name}"
    return whole if "/versions/" in whole else f"{whole}/versions/latest"


def env_file(variables: Mapping[str, str]) -> str:
    r"""Return variables in a form that systemd, `sh` and `zsh` read alike.

    In double quotes, all of them take a backslash only before \ " $ and `, and newlines
    unchanged.
    """
    lines = ["# Managed by tpu.fleet (role env_secrets)."]
    for name in sorted(variables):
        value = re.sub(r'([\\"$`])', r"\\\1", variables[name])
        lines.append(f'{name}="{value}"')
    return "\n".join(lines) + "\n"


def description(one: SecretSet, endpoint: str, paths: list[str]) -> str:
    """Return the public description of a set: names without values."""
    shown = {
        "name": one.name,
        "owner": one.owner,
        "variables": sorted(one.variables),
        "google_secrets": dict(one.google),
        "google_endpoint": endpoint,
        "login": one.login,
        "files": sorted(paths),
    }
    return json.dumps(shown, indent=2, sort_keys=True) + "\n"


def profile(sets: list[SecretSet], folder: str) -> str:
    """Return the script for login shells. -O limits a set to its owner, even for root."""
    names = sorted(one.name for one in sets if one.login and one.variables)
    if not names:
        return ""
    return (
        "# Managed by tpu.fleet (role env_secrets): the secrets of the user that logs in.\n"
        f"for tpu_fleet_set in {' '.join(names)}; do\n"
        f'  tpu_fleet_file="{folder}/$tpu_fleet_set.env"\n'
        '  if [ -O "$tpu_fleet_file" ]; then set -a; . "$tpu_fleet_file"; set +a; fi\n'
        "done\n"
        "unset tpu_fleet_set tpu_fleet_file\n"
    )


def fingerprint(key: bytes, content: bytes) -> str:
    """Return a keyed hash of a content, which does not reveal it: only root has the key."""
    return hmac.new(key, content, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Seen:
    """What is at a path: absent | file | directory | link | other, and its owner."""

    kind: str
    fingerprint: str = ""
    mode: int = 0
    uid: int = -1


def verdict(seen: Seen, wanted: str | None, known: list[str], uid: int) -> str:
    """Return what to do with a file: same, write, remove, keep, or a text with the obstacle."""
    if wanted is None:
        if seen.kind == "file" and seen.fingerprint in known:
            return "remove"
        return "same" if seen.kind == "absent" else "keep"
    if seen.kind == "absent":
        return "write"
    if seen.kind != "file":
        return f"there is a {seen.kind} where the file should be; move it away"
    if seen.fingerprint == wanted:
        return "same" if (seen.mode, seen.uid) == (0o600, uid) else "write"
    if seen.fingerprint in known:
        return "write"
    if known:
        return "it was changed on the host; move it away, or remove it from the fleet file"
    return "there is a file that this role did not write; move it away"
