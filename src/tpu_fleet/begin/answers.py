"""What a person answered, and the fleet file that it makes. The fleet file's own rules check it."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import bucket_and_folder
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import DEFAULT_OWNER
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import Key, Problem
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet import local_folders
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

FIRST_UID = 2001
FLEET_KEY = "{{ fleet_ssh_public_key }}"
"""The key that Ansible itself logs in with, which Ansible fills in."""
SOME_KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43}"
UNLIMITED = "fleet_allocations: unrestricted\n"
COLUMNS = 80
"""The width of what is written; only what a person gave may be wider, such as a key."""
LINE_FOR_EDITORS = "# yaml-language-server: $schema=../../../fleet.schema.json"


@dataclass(frozen=True)
class Person:
    """A person with an account on all machines."""

    login: str
    keys: tuple[str, ...]
    sudo: bool = False


@dataclass(frozen=True)
class Code:
    """Where the program comes from: a git repository, or a folder of this computer."""

    name: str
    repo: str = ""
    folder: str = ""
    requirements: bool = False
    example: str = ""
    """The folder of the collection that is copied into the fleet's folder."""


@dataclass(frozen=True)
class Answers:
    """All answers; what is not answered yet is empty and not in the file."""

    project: str = ""
    endpoint: str = ""
    owner: str = DEFAULT_OWNER
    grant: str = UNLIMITED
    """The section of the grant, as YAML."""
    ends: date | None = None
    """Its last day, if it has one."""
    slice: str = "first"
    zone: str = ""
    accelerator_type: str = ""
    tier: str = "on_demand"
    api: str = ""
    people: tuple[Person, ...] = field(default_factory=tuple)
    framework: str = "none"
    code: Code | None = None
    command: str = ""
    checkpoints: str = ""
    """The bucket and folder of the run's checkpoints, or a folder of the machine."""

    @property
    def user(self) -> str:
        """Return the login that owns the run and the code: the first person's."""
        return self.people[0].login if self.people else "root"

    @property
    def run(self) -> str:
        """Return the name of the run."""
        return self.code.name if self.code else "train"

    @property
    def proposed_bucket(self) -> str:
        """Return a name for a bucket, which begins with the project's id so that it is free."""
        words = re.sub(r"[^a-z0-9]+", "-", self.project.lower()).strip("-")
        return f"{words[:50]}-checkpoints".lstrip("-")

    @property
    def new_bucket(self) -> str:
        """Return the bucket that the fleet makes: the proposed one; others are there already."""
        found = bucket_and_folder(self.checkpoints)
        return found[0] if found and found[0] == self.proposed_bucket else ""


def _read(text: str) -> Any:
    """Read YAML by libyaml, if it is there: ten times faster, and each answer has this done."""
    try:
        # Both loaders are safe: they make plain values alone.
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError:
        # It refuses the escape of half a character, which is a mistake of an answer.
        return yaml.safe_load(text)


def data_of(answers: Answers) -> dict[str, Any]:
    """Return the variables of the fleet file, as Ansible fills them in."""
    data: dict[str, Any] = _read(fleet_file(answers).replace(FLEET_KEY, SOME_KEY)) or {}
    return {**data, **({"fleet_project": answers.project} if answers.project else {})}


def problems_of(answers: Answers, inventory: Path) -> list[Problem]:
    """Return what the checks of the fleet file say; the inventory is the folder of the file."""
    data = data_of(answers)
    problems = check_fleet_file(data, _roles())
    if answers.code and answers.code.example:
        return problems  # its folder is not written yet
    return problems + local_folders.problems_of(data, str(inventory))


@functools.cache
def _roles() -> Mapping[str, Key]:
    return role_keys(fleet_options())


def frameworks() -> tuple[str, ...]:
    """Return the environments that there are."""
    venvs = _roles()["fleet_venvs"]
    return tuple("none" if word == "null" else word for word in venvs.options["framework"].words)


def fleet_file(answers: Answers) -> str:
    """Write the fleet file."""
    parts = [
        LINE_FOR_EDITORS,
        "---",
        _comment(
            "The declared state: slices, people, environments, code and runs. Pages that are named "
            "here are in docs/ of tpu.fleet; fleet-file.md has every key."
        ),
        "\n" + _comment("What the grant allows. Nothing is ever created outside of it (grant.md)."),
        answers.grant.rstrip(),
        *(section(answers) for section in (_slices, _people, _environment, _code, _bucket, _run)),
    ]
    return "\n".join(filter(None, parts)) + "\n"


def connection_file(answers: Answers) -> str:
    """Write fleet.tpu.yml, which says where the fleet is."""
    about = "The local cloud. For Google take this line out, and write your project's id above."
    endpoint = _comment(about) + "\n" + _yaml({"api_endpoint": answers.endpoint})
    lines = [
        "---",
        _comment("Where the fleet is. Everything else is in group_vars/all/fleet.yml."),
        "plugin: tpu.fleet.tpu",
        _yaml({"projects": [answers.project]}),
        *([endpoint] if answers.endpoint else []),
        _comment(
            "The label of this fleet's resources. Nothing without it is changed or deleted. A "
            "second fleet in the same project needs another owner."
        ),
        _yaml({"owner": answers.owner}),
    ]
    return "\n".join(lines) + "\n"


def _slices(answers: Answers) -> str:
    if not answers.accelerator_type:
        return _yaml({"fleet_zone": answers.zone}) if answers.zone else ""
    entry = {
        "name": answers.slice,
        "accelerator_type": answers.accelerator_type,
        "zone": answers.zone,
        "tier": answers.tier,
        "api": answers.api,
        "on_grant_end": "delete" if answers.ends else "",
    }
    about = (
        "The slices. They cost money while they exist, except for what a free grant covers. "
        "A further entry is a further slice; for several zones and queues see getting-tpus.md."
    )
    if answers.ends:
        about += (
            " What exists when the grant has ended costs money. `on_grant_end: delete` deletes it "
            "then, if `tpu-fleet watch` or a daily `grant expire` runs; data disks stay."
        )
    return _section(about, "fleet_slices", entry)


def _people(answers: Answers) -> str:
    entries = [
        {
            "name": person.login,
            "uid": uid,
            "sudo": "all" if person.sudo else "",
            "keys": list(person.keys),
        }
        for uid, person in enumerate(answers.people, FIRST_UID)
    ]
    about = (
        "Users and accounts on all machines. `sudo: all` gives administrator rights; "
        "`slices: [NAME]` limits an account to these. What people need to log in: onboarding.md."
    )
    return _section(about, "fleet_users", *entries)


def _environment(answers: Answers) -> str:
    if answers.framework == "none":
        return ""
    code = answers.code
    entry = {
        "name": answers.framework,
        "path": f"/opt/venvs/{answers.framework}",
        "framework": answers.framework,
        "requirements": f"{code.name}/requirements.txt" if code and code.requirements else "",
        "packages": _for_buckets(answers),
    }
    about = "The Python environments, the same on all machines; `packages` adds to them."
    return _section(about, "fleet_venvs", entry)


def _for_buckets(answers: Answers) -> list[str]:
    """Return what programs need to save in a bucket, unless requirements of their own say it."""
    says_it = answers.code is not None and answers.code.requirements
    in_bucket = answers.checkpoints.startswith("gs://")
    return ["gcsfs", "google-cloud-storage"] if in_bucket and not says_it else []


def _code(answers: Answers) -> str:
    code = answers.code
    if code is None:
        return ""
    about = "The code, the same version on all machines. " + (
        "`version` chooses a branch, tag or commit. For private repositories: git-access.md."
        if code.repo
        else "A relative folder begins at the folder `inventory`."
    )
    # git reads a private repository with the keys of the owner.
    owner = answers.user if code.repo else "root"
    entry = {"name": code.name, "user": owner, "repo": code.repo, "local_path": code.folder}
    return _section(about, "fleet_code", entry)


def _bucket(answers: Answers) -> str:
    if not answers.new_bucket:
        return ""
    about = (
        "The bucket for the checkpoints, which `apply` makes in the region of the slice and which "
        "stays when the slice is gone (data-and-checkpoints.md)."
    )
    return _section(about, "fleet_checkpoint_buckets", {"name": answers.new_bucket})


def _run(answers: Answers) -> str:
    if not answers.command:
        return ""
    code = answers.code.name if answers.code else ""
    entry = {
        "name": answers.run,
        "slices": [answers.slice],
        "user": answers.user,
        "venv": answers.framework if answers.framework != "none" else "",
        "code": code,
        "command": _command(answers.command),
        "checkpoint_dir": answers.checkpoints,
    }
    where = (
        "What is in the bucket of checkpoint_dir outlives the slice."
        if answers.checkpoints.startswith("gs://")
        else "checkpoint_dir outlives the slice if it is on a data disk or a share."
        if answers.checkpoints
        else "Checkpoints are on the machine's own disk, which a preemption deletes with the "
        "slice. To keep them: `checkpoint_dir: gs://BUCKET/FOLDER`."
    )
    about = f"The runs. Each goes on after reboots until it has succeeded. {where}"
    return _section(about, "fleet_runs", entry)


def _command(command: str) -> str:
    """Return a command that is written on a line of its own where it is too long."""
    return _Long(command) if len(f"    command: {command}") > COLUMNS else command


def _comment(text: str) -> str:
    how: Any = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, COLUMNS, initial_indent="# ", subsequent_indent="# ", **how)


def _section(about: str, variable: str, *entries: Mapping[str, Any]) -> str:
    return f"\n{_comment(about)}\n{list_variable(variable, entries)}" if entries else ""


def list_variable(variable: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """Write a list variable, without keys that have no value."""
    kept = [
        {key: value for key, value in one.items() if value not in ("", [], None)} for one in entries
    ]
    return f"{variable}:\n{_yaml(kept)}".replace("\n", "\n  ")


class _Dumper(yaml.SafeDumper):
    """Indents lists within mappings, as the other fleet files do; writes equal values twice."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Long(str):
    """A text that is written below its key, after `>-`."""

    __slots__ = ()


_Dumper.add_representer(
    _Long, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">")
)


def _yaml(value: Any) -> str:
    """Write a value; what would hide in the file is written as an escape."""

    def dumped(allow_unicode: bool) -> str:
        how: Any = {"sort_keys": False, "allow_unicode": allow_unicode, "width": 1000}
        return str(yaml.dump(value, Dumper=_Dumper, **how)).rstrip("\n")

    text = dumped(True)
    return text if visible(text) == text else dumped(False)
