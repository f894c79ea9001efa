# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of the fleet file, with their types. No I/O."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import durations, sizes
from .accelerators import GENERATIONS
from .old_keys import (
    MOVED_KEYS,
    OLD_WORDS,
    in_new_form,
    is_now_null,
    place_of,
    renamed_to,
    successor,
)


@dataclass(frozen=True)
class Problem:
    """One mistake in the fleet file."""

    field: str
    value: Any
    message: str
    remedy: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {shorten(self.value)}"
        end = "?" if self.remedy.startswith("Did you mean") else "."
        return f"{self.field}{shown}: {self.message}. {self.remedy}{end}"


@dataclass(frozen=True)
class Key:
    """The schema of one key. The type `any` leaves the check to the rules of the field.

    The value of a secret one is never shown.

    Description and default are for docs/fleet-file.md. What a role or the module tpu_vm takes as it
    is has them there.
    """

    type: str = "str"
    required: bool = False
    # None among them is null.
    choices: tuple[str | None, ...] = ()
    elements: str | None = None
    options: Mapping[str, Key] = dataclasses.field(default_factory=dict)
    secret: bool = False
    description: str = ""
    default: str = ""
    # That of which a size is a whole number.
    unit: str = "B"

    @property
    def words(self) -> list[str]:
        """Return the choices as they are written."""
        return ["null" if choice is None else choice for choice in self.choices]


TIERS = (
    "on_demand",
    "spot",
    "reserved",
    "calendar",
    "guaranteed",
    "best_effort",
    "flex_start",
)
APIS = ("tpu", "compute")

SCALARS = {
    "fleet_project": Key(
        description="Id of the Google Cloud project.",
        default="the one project of `fleet.tpu.yml`",
    ),
    "fleet_zone": Key(description="Zone of the slices that name none."),
    # Given with -e on the command line these are texts.
    "fleet_allocation_warn_before": Key(
        "duration",
        description="How long before the end of an allocation every apply begins to warn.",
        default="7d",
    ),
    "fleet_prune": Key(
        "any",
        description="Whether to delete resources with this fleet's label that are no longer "
        "declared. They are always listed.",
        default="false",
    ),
    "fleet_apply": Key(
        choices=("auto", "host", "push"),
        description="What applies the roles: with `host` every machine itself, see "
        "[apply.md](apply.md); with `push` Ansible, over SSH, task by task. `auto` is `host`, and "
        "`push` for machines that cannot have ansible-core.",
        default="auto",
    ),
    "fleet_apply_every": Key(
        "duration",
        description="How often machines that apply the roles to themselves check whether they "
        "are still as declared, and correct differences.",
        default="never",
    ),
    "fleet_ssh_user": Key(
        description="Login that Ansible uses; every slice creates it. Without it, `user` of the "
        "inventory's `fleet.tpu.yml`.",
        default="ubuntu",
    ),
    "fleet_ssh_private_key_file": Key(
        description="Private key of that login, generated if it is missing. Without it, that in "
        "`TPU_FLEET_SSH_KEY`.",
        default="~/.ssh/tpu_fleet",
    ),
}

ALLOCATION = {
    "zone": Key(required=True, description="Zone of the chips."),
    "generation": Key(
        choices=tuple(GENERATIONS),
        description="Generation, of which any size may be used. This, or `accelerator_type`.",
    ),
    "accelerator_type": Key(description="The one type that may be used."),
    "tier": Key(
        required=True,
        choices=TIERS,
        description="How it is granted. `best_effort` and `flex_start` count as `spot`, "
        "`guaranteed` counts as `on_demand`, `calendar` as `reserved`.",
    ),
    "api": Key(
        choices=APIS,
        description="Which API it is for, because their quotas are apart: `tpu`, as the TPU "
        "Research Cloud grants them, or `compute`.",
        default="`compute` for tpu7x, else `tpu`",
    ),
    "chips": Key(
        "int",
        description="How many chips may be used at a time: a v4-8 has four, a v5litepod-8 eight. "
        "This, or `count`.",
    ),
    "count": Key("int", description="How many of the `accelerator_type` may be used at a time."),
    # YAML turns it into a date.
    "ends": Key(
        "any",
        description="The last day, to its end in UTC, or an instant in RFC 3339.",
        default="no end",
    ),
}

PRICE = {
    "generation": Key(
        choices=tuple(GENERATIONS),
        description="This, or `accelerator_type`.",
    ),
    "accelerator_type": Key(description="One type."),
    "region": Key(required=True, description="Region, as `us-central2`."),
    "tier": Key(
        required=True,
        choices=TIERS,
        description="Tier that has this price; `flex_start` is that of Compute Engine.",
    ),
    "api": Key(choices=APIS, description="The API that it is for.", default="both"),
    "usd_per_chip_hour": Key(
        "number", required=True, description="US dollars for one chip and one hour."
    ),
}

SLICE = {
    "name": Key(
        required=True,
        description="Name of the slice and of its node: a-z, 0-9 and -, a letter first, 63 at "
        "most.",
    ),
    "accelerator_type": Key(
        description="Type of the hardware. This, `accelerator_types`, or `machine_type`."
    ),
    "accelerator_types": Key(
        "list",
        elements="str",
        description="Types in order of preference. A better type anywhere comes before a lesser "
        "type in a better zone.",
    ),
    "machine_type": Key(
        description="Compute Engine's machine type, as `ct6e-standard-4t`, with `topology`."
    ),
    "topology": Key(
        description="How the chips are connected, as `4x4` or `2x2x2`; with `machine_type`, how "
        "many machines the slice has.",
        default="that of the type; with `machine_type`, that of one machine",
    ),
    "api": Key(
        choices=APIS,
        description="The API of the slice: Cloud TPU's or [Compute Engine's](compute-engine.md).",
        default="the one that has the type and tier; where both have, the one of the grant",
    ),
    "zone": Key(description="Zone. This, or `zones`.", default="`fleet_zone`"),
    "zones": Key("list", elements="str", description="Zones in order of preference."),
    "runtime_version": Key(
        description="Image of the machines; one that does not fit the hardware is refused.",
        default="the one of the generation",
    ),
    "tier": Key(
        choices=TIERS,
        description="How the capacity is provided, and how safe it is.",
        default="on_demand",
    ),
    "queued": Key(
        "bool",
        description="Whether to request through a queued resource, which waits at Google for "
        "capacity. `strategy: race`, `reservation`, `max_run_duration` and the tiers `guaranteed`, "
        "`best_effort` and `flex_start` always do.",
        default="false",
    ),
    "strategy": Key(
        choices=("in_turn", "race"),
        description="`in_turn` requests one place after the other. `race` queues in all zones "
        "together; the first node wins, the other requests are cancelled.",
        default="in_turn",
    ),
    "valid_for": Key(
        "duration",
        description="How long a request waits for capacity: a queued resource, or a flex-start "
        "slice of Compute Engine. It never outlives the grant.",
        default="until the grant ends, or without limit",
    ),
    "max_run_duration": Key(
        "duration",
        description="How long the slice may live; then Google deletes it. Flex-start on "
        "Compute Engine needs it, up to `7d`.",
    ),
    "reservation": Key(
        description="The reservation of a slice of tier `reserved` or `calendar`.",
        default="any that fits, for a queued slice of tier `reserved`",
    ),
    "on_preempt": Key(
        choices=("recreate", "keep"),
        description="What to do when the slice is lost: recreate it, or leave and report it.",
        default="recreate",
    ),
    "on_bad_chips": Key(
        choices=("report", "recreate"),
        description="What `tpu-fleet watch` does when [chips fail two "
        "starts](gang.md#chips-that-do-not-initialise).",
        default="report",
    ),
    "on_grant_end": Key(
        choices=("keep", "delete"),
        description="What to do when its grant has ended: warn, or delete it, never data disks.",
        default="keep",
    ),
    "on_finish": Key(
        choices=("keep", "stop", "delete"),
        description="What `tpu-fleet watch` does when its runs [have "
        "succeeded](after-the-end.md) and what they left is fetched.",
        default="keep",
    ),
    "idle_after": Key(
        "duration",
        description="After which time it does so where nothing runs and no user is logged in or "
        "holds a chip.",
        default="never",
    ),
    "on_queue": Key(
        "bool",
        description="Whether it comes only for [submitted "
        "runs](queue.md#slices-that-come-for-submitted-runs), and rests otherwise.",
        default="false",
    ),
    "recreate": Key(
        "bool",
        description="Whether it may be recreated for what cannot be changed in place (hardware, "
        "runtime version, tier, network, service account).",
        default="false",
    ),
    "adopt": Key(
        "bool",
        description="Whether to take over a node of this name that another tool or fleet created.",
        default="false",
    ),
    "boot_disk_size": Key(
        "size",
        description="Size of each machine's boot disk in whole GiB. It is compared only where the "
        "API returns it.",
        default="the image's own",
        unit="GiB",
    ),
    "labels": Key("dict"),
    "metadata": Key("dict"),
    "tags": Key("list", elements="str"),
    "network": Key(description="Network of the machines.", default="default"),
    "subnetwork": Key(default="the zone's"),
    "external_ips": Key(
        "bool", description="Whether the machines have external addresses.", default="true"
    ),
    "service_account": Key(
        description="E-mail address of the service account that the machines act as, and whose "
        "token each user of them can get.",
        default="the project's default one; on Compute Engine none",
    ),
    "startup_script": Key(),
    "self_setup": Key(
        "bool",
        description="Whether its machines [set themselves up](self-setup.md) at boot when no "
        "controller does. Needs `fleet_self_setup`.",
        default="false",
    ),
    "description": Key(),
}

LISTS = {
    "fleet_allocations": ALLOCATION,
    "fleet_slices": SLICE,
    "fleet_prices": PRICE,
}

# Variables of the playbooks: in the fleet file, or with -e on the command line.
PLAYBOOK_VARIABLES = {
    "fleet_api_endpoint": Key(
        default="Google's",
        description="Another endpoint of the API, such as the local cloud's. `api_endpoint` in the "
        "inventory's `fleet.tpu.yml` sets it too.",
    ),
    "fleet_owner": Key(
        default="managed",
        description="Value of the label `tpu-fleet`, which names the owner of a resource. Two "
        "fleets in one project need two owners. It is set as `owner` in the inventory's "
        "`fleet.tpu.yml`, and nowhere else.",
    ),
    "fleet_wake": Key(
        default="none",
        description="Resting slices to create again [after the end](after-the-end.md) of their "
        "runs, or `all`.",
    ),
    "fleet_slice_timeout": Key(
        "duration",
        default="30m",
        description="How long to wait for the slices.",
    ),
    "fleet_wait": Key(
        default="all",
        description="Which slices to wait for. `all` fails when one is missing at the end, and "
        "changes nothing when it is clear from the start that one cannot be created. `any` goes on "
        "with those that exist at the end, `next` as soon as one more exists than before. `none` "
        "only requests those that can be created. Names (`sweep,solo`) wait for these slices "
        "alone.",
    ),
    "fleet_apply_everything": Key(
        default="false",
        description="Whether to apply all roles on all machines, even without a difference: see "
        "[apply.md](apply.md).",
    ),
    "fleet_connection_timeout": Key(
        "duration",
        default="5m",
        description="How long to wait for the login on each worker.",
    ),
    "fleet_find_attempts": Key(
        default="40",
        description="How many times to look for the workers of new slices.",
    ),
    "fleet_find_interval": Key(
        "duration",
        default="3s",
        description="Time between two such looks.",
    ),
    "fleet_runs_timeout": Key(
        "duration",
        default="3m",
        description="How long the runs have to be back in `reprovision`.",
    ),
    "fleet_results_dir": Key(
        default="`collected` in the folder in which Ansible was started",
        description="Folder on this computer to which is brought [what runs "
        "left](runs.md#what-it-left).",
    ),
    "fleet_state_dir": Key(
        default="a folder for each fleet",
        description="Folder on this computer for host keys, snapshots of code and the ssh "
        "configuration. Of the first fleet it is `~/.local/state/tpu-fleet` "
        "(`TPU_FLEET_STATE_DIR`), of others one in `fleets` below it.",
    ),
}

# Words that are allowed instead of the list.
WORDS = {"fleet_allocations": "unrestricted"}

_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
    "dict": (dict, "a mapping"),
    "duration": (str, "a duration"),
    "size": (str, "a size"),
    "memory": (str, "a size or share of memory"),
}

_WRITE = {
    "str": "Write one text, in quotation marks where it has a colon or begins with a sign",
    "int": "Write a whole number, without quotation marks",
    "number": "Write a number, without quotation marks",
    "bool": "Write true or false, without quotation marks",
    "list": "Write it as a list: [a, b], or each entry on a line of its own, beginning with a dash",
    "dict": "Write KEY: VALUE below it, each on a line of its own",
    "duration": f"Write {durations.EXAMPLES}",
    "size": f"Write {sizes.EXAMPLES}",
    "memory": f"Write {sizes.MEMORY_EXAMPLES}",
}

# Texts with a unit: their pattern, and what to write instead of what does not match.
_AMOUNTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "duration": (durations.DURATION, durations.remedy_for),
    "size": (sizes.SIZE, sizes.remedy_for),
    "memory": (sizes.MEMORY, sizes.remedy_for_memory),
}


class Unreadable:
    """Placeholder for a value whose template failed, which is reported separately."""

    def __repr__(self) -> str:
        return "(cannot be read)"

    def __contains__(self, _item: object) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())


UNREADABLE = Unreadable()


def shorten(value: Any, limit: int = 60) -> str:
    """Show a value in one short line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def did_you_mean(word: Any, known: Iterable[str], otherwise: str) -> str:
    """Suggest the known word nearest to a wrong one."""
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"Did you mean {near[0]}" if near else otherwise


def check_shape(data: Mapping[str, Any]) -> list[Problem]:
    """Check types, choices, required and unknown keys of the whole fleet file."""
    problems = check_keys("", data, SCALARS, among=())
    for variable, keys in LISTS.items():
        entries = data.get(variable)
        if entries is None or entries == WORDS.get(variable):
            continue
        if not isinstance(entries, list):
            remedy = "Write it as a list, each entry beginning with a dash"
            if variable in WORDS:
                remedy += f", or as {WORDS[variable]}"
            problems.append(Problem(variable, entries, "must be a list", remedy))
            continue
        for index, entry in enumerate(entries):
            field = f"{variable}[{index}]"
            if isinstance(entry, Mapping):
                problems += check_keys(f"{field}.", entry, keys, among=entry)
            else:
                remedy = f"Give it the keys {', '.join(keys)}"
                problems.append(Problem(field, entry, "must be a mapping", remedy))
    return problems


def entries(data: Mapping[str, Any], variable: str) -> list[tuple[str, Mapping[str, Any]]]:
    """List the well-formed entries of a list variable, each with its field name."""
    found = data.get(variable)
    return [
        (f"{variable}[{index}]", entry)
        for index, entry in enumerate(found if isinstance(found, list) else [])
        if isinstance(entry, Mapping)
    ]


def text_of(entry: Mapping[str, Any], key: str) -> str | None:
    """Return a value if it is a non-empty text, else None."""
    value = entry.get(key)
    return value if isinstance(value, str) and value else None


def texts_of(entry: Mapping[str, Any], key: str) -> list[tuple[int, str]]:
    """Return the texts of a list value with their places."""
    value = entry.get(key)
    items: Sequence[Any] = value if isinstance(value, list) else []
    return [(index, item) for index, item in enumerate(items) if isinstance(item, str)]


def duplicates(data: Mapping[str, Any], variable: str, key: str, remedy: str) -> list[Problem]:
    """Find values of a key that two entries of a list variable share."""
    problems: list[Problem] = []
    first: dict[Any, str] = {}
    for field, entry in entries(data, variable):
        value = entry.get(key)
        if value is None or isinstance(value, (list, dict)):
            continue
        if value in first:
            message = f"is used twice, first by {first[value]}"
            problems.append(Problem(f"{field}.{key}", value, message, remedy))
        first.setdefault(value, field)
    return problems


def by_rule(
    entry: Mapping[str, Any],
    prefix: str,
    key: str,
    rule: Callable[[str], str | None],
    remedy: str,
) -> list[Problem]:
    """Apply the rule of a single value to a text, if there is one."""
    value = text_of(entry, key)
    message = rule(value) if value else None
    return [Problem(f"{prefix}{key}", value, message, remedy)] if message else []


# What other tools call a key, or people who know them; the key that is there is suggested.
SYNONYMS = {
    "branch": ("version",),
    "cmd": ("command",),
    "commit": ("version",),
    "end": ("ends",),
    "expires": ("ends",),
    "git": ("repo",),
    "image": ("runtime_version",),
    "key": ("keys",),
    "login": ("name", "user"),
    "nodes": ("slices",),
    "pip": ("packages",),
    "preemptible": ("tier",),
    "public_key": ("keys",),
    "python_version": ("python",),
    "script": ("command",),
    "size": ("accelerator_type",),
    "software_version": ("runtime_version",),
    "spot": ("tier",),
    "ssh_key": ("keys",),
    "ssh_keys": ("keys",),
    "tag": ("version",),
    "tf_version": ("runtime_version",),
    "type": ("accelerator_type",),
    "until": ("ends",),
    "url": ("repo",),
    "username": ("name", "user"),
}
PASSWORDS = frozenset({"passwd", "password", "password_hash"})


def _unknown_key(prefix: str, name: str, value: Any, keys: Mapping[str, Key]) -> Problem:
    new = successor(prefix, name)
    if new is not None:
        shown = None if keys[new.split(":")[0]].secret else value
        remedy = f"Write {in_new_form(new, value)}"
        return Problem(f"{prefix}{name}", shown, "is the key's old name", remedy)
    moved = MOVED_KEYS.get(f"{place_of(prefix)}.{name}")
    if moved:
        return Problem(f"{prefix}{name}", value, "stands in another place now", moved)
    if name in PASSWORDS:
        message = "is not a known key, because there are no passwords: ssh keys open the machines"
        remedy = "Leave it out, and write public keys into keys"
        if "keys" not in keys:
            remedy = "Leave it out; docs/security.md says where secrets belong"
        return Problem(f"{prefix}{name}", None, message, remedy)
    known = f"Known keys: {', '.join(keys)}"
    synonym = next((other for other in SYNONYMS.get(name, ()) if other in keys), None)
    remedy = f"Did you mean {synonym}" if synonym else did_you_mean(name, keys, known)
    # It may be a misspelt secret.
    meant = [synonym] if synonym else difflib.get_close_matches(str(name), list(keys), n=1)
    hidden = any(key.secret for other, key in keys.items() if other in meant or not meant)
    return Problem(f"{prefix}{name}", None if hidden else value, "is not a known key", remedy)


def check_keys(
    prefix: str, entry: Mapping[str, Any], keys: Mapping[str, Key], among: Iterable[str]
) -> list[Problem]:
    """Check the known keys of a mapping, and that those of `among` are known."""
    problems = []
    for name in among:
        if name not in keys:
            problems.append(_unknown_key(prefix, str(name), entry[name], keys))
    for name, key in keys.items():
        value = entry.get(name)
        if is_now_null(f"{prefix}{name}", value):
            message = "is how an earlier version wrote null"
            problems.append(Problem(f"{prefix}{name}", value, message, "Write null"))
            continue
        if value is None or (value == "" and key.type not in _AMOUNTS):
            if key.required and not renamed_to(prefix, name, among):
                remedy = f"Set {prefix}{name} in the fleet file"
                problems.append(Problem(f"{prefix}{name}", None, "is missing", remedy))
            continue
        problems += _check_value(f"{prefix}{name}", value, key)
    return problems


def _check_value(field: str, value: Any, key: Key) -> list[Problem]:
    if not _is_a(value, key.type):
        return [_wrong_type(field, value, key.type, key.secret)]
    several = key.type == "list" and bool(key.elements)
    places = (
        [(f"{field}[{i}]", item) for i, item in enumerate(value)] if several else [(field, value)]
    )
    problems = []
    for place, item in places:
        if several and not _is_a(item, key.elements or ""):
            problems.append(_wrong_type(place, item, key.elements or "", key.secret))
        elif key.choices and item not in key.choices:
            remedy = did_you_mean(item, key.words, f"Choose one of {', '.join(key.words)}")
            new = OLD_WORDS.get(place_of(field), {}).get(item)
            remedy = f"Write {new}, its new name" if new else remedy
            problems.append(Problem(place, item, "is not one of the choices", remedy))
        elif key.type == "size" and sizes.units_in(item, key.unit) is None:
            message, remedy = f"is not a whole number of {key.unit}", f"Write it in {key.unit}"
            problems.append(Problem(place, item, message, remedy))
        elif key.options:
            problems += check_keys(f"{place}.", item, key.options, among=item)
    return problems


def _is_a(value: Any, kind: str) -> bool:
    if kind == "any":
        return True
    if kind in ("int", "number") and isinstance(value, bool):
        return False
    if kind in _AMOUNTS:
        return isinstance(value, str) and re.fullmatch(_AMOUNTS[kind][0], value) is not None
    return isinstance(value, Mapping if kind == "dict" else _TYPES[kind][0])


def _wrong_type(field: str, value: Any, kind: str, secret: bool) -> Problem:
    wanted = _TYPES[kind][1]
    shown = None if secret else value
    if kind in _AMOUNTS:
        return Problem(field, shown, f"is not {wanted}", _AMOUNTS[kind][1](value))
    if kind == "str" and isinstance(value, (int, float)) and not isinstance(value, bool):
        # YAML reads 3.10 as the number 3.1.
        return Problem(field, shown, f"must be {wanted}, not a number", "Put it in quotes")
    message = f"must be {wanted}, not {kind_of(value)}"
    return Problem(field, shown, message, _WRITE[kind])


def kind_of(value: Any) -> str:
    """Return the type of a value in the words of YAML."""
    if isinstance(value, bool):
        return "true or false"
    for kind in ("str", "int", "number", "list", "dict"):
        if _is_a(value, kind):
            return _TYPES[kind][1]
    return "a date" if isinstance(value, datetime.date) else "nothing"
