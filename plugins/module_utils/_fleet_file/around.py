# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fleet file says around the slices: APIs, keys, mosh, disks, buckets, account. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .._compute.disk_plan import DiskSpec
from .._compute.firewall_plan import ALL_PORTS, DEFAULT_NAME, FirewallSpec, sequence_of
from .._core.errors import TpuError
from .._core.in_zone import region_of
from .._google.bucket_plan import DEFAULT_ACCOUNT, BucketSpec
from .._google.service_account_plan import BUCKET_ROLES, DEFAULT_ID, LEAST_ROLES, AccountSpec
from .._schema import values as rules
from .._schema.disks import OF_ROLE, is_attached
from .._schema.durations import seconds_in
from .._schema.keys import UNREADABLE, Key, Problem, check_keys, entries, text_of
from .._schema.refs import known, user_remedy
from .._tpu.model import COMPUTE
from .._tpu.node_spec import disk_mode, gib_of
from .declared import Slice
from .queue import FleetQueue, check_queue

STATES = Key(choices=("present", "absent"), default="present", description="`absent` removes it.")

PROJECT_KEY = {
    "user": Key(
        required=True, description="Login that the key opens. The machines create it, with sudo."
    ),
    "key": Key(required=True, description="The one line of the `.pub` file."),
    "state": STATES,
}
MOSH = {
    "source_ranges": Key(
        "list",
        elements="str",
        description="Addresses from which people log in.",
        default="this computer's address, as the first slice that answers sees it",
    ),
    "target_tags": Key(
        "list",
        elements="str",
        description="Network tags (`tags`) of the slices that accept mosh. Required, unless the "
        "state is `absent`.",
    ),
    "ports": Key(description="UDP ports, within 60000-61000.", default=ALL_PORTS),
    "network": Key(description="The VPC network.", default="default"),
    "name": Key(description="Name of the firewall rule.", default=DEFAULT_NAME),
    "adopt": Key(
        "bool",
        description="Whether to take over a rule of this name that another tool created.",
        default="false",
    ),
    "state": STATES,
}
# Descriptions that are missing here are in the role data_disk.
FLEET_DISK = {
    "name": Key(required=True, description="Name of the disk, unique in its zone."),
    "zone": Key(
        description="Zone of the disk. It can only be attached to slices of this zone.",
        default="the one zone of its `slices`, else `fleet_zone`",
    ),
    "size": Key(
        "size",
        description="Size in whole GiB of a disk that the fleet creates; it can grow. Without it "
        "the disk exists already.",
        unit="GiB",
    ),
    "type": Key(
        description="Disk type. TPU v6e accepts `hyperdisk-…` only.", default="pd-balanced"
    ),
    "description": Key(description="Text on the resource, for people."),
    "labels": Key("dict", description="Labels on the resource."),
    "slices": Key(
        "list",
        elements="str",
        description="Slices that the disk is attached to, from their creation on. Without this key "
        "nothing is attached or detached.",
    ),
    "workers": Key(
        "list",
        elements="int",
        description="Numbers of the workers of a slice that have it.",
        default="all",
    ),
    "read_only": Key(
        "bool",
        description="Whether it is read-only, on any number of slices and workers. Otherwise one "
        "worker has it.",
        default="false",
    ),
    "path": Key(description="Folder in which its machines mount it. Without it, they do not."),
    "filesystem": Key(choices=("ext4", "xfs")),
    **{key: Key() for key in ("user", "group", "permissions", "device")},
    "options": Key("list", elements="str"),
    "attach": Key(
        "bool",
        description="Whether the fleet attaches it. With `false` the machines have it without the "
        "fleet, as a local SSD, and only mount it.",
        default="true",
    ),
    "exclusive": Key(
        "bool",
        description="Whether to detach it from slices that `slices` does not name.",
        default="false",
    ),
    "adopt": Key(
        "bool",
        description="Whether to take over a disk, and a file system on it, that another tool "
        "created. It is never formatted.",
        default="false",
    ),
    "state": STATES,
    "delete_data": Key(
        "bool",
        description="Whether `state: absent` may delete a disk that may hold data.",
        default="false",
    ),
}
# What the module disk does not take of an entry.
_OF_MACHINES = {*OF_ROLE, "attach"} - {"name", "read_only", "workers", "adopt"}
CHECKPOINT_BUCKET = {
    "name": Key(
        required=True,
        description="As `PROJECT-checkpoints`.",
    ),
    "region": Key(
        description="Region.",
        default="its slices' one",
    ),
    "slices": Key(
        "list",
        elements="str",
        description="Slices whose accounts get access.",
        default="all",
    ),
    "soft_delete_duration": Key(
        "duration",
        description="How long deleted objects are kept: `0s`, `7d` to `90d`.",
        default="0s",
    ),
    "adopt": Key(
        "bool",
        description="Whether to correct the settings of a bucket that another tool created.",
        default="false",
    ),
    "state": STATES,
}
BUCKET = {
    "name": Key(required=True, description="Name of an existing bucket."),
    "access": Key(
        choices=tuple(BUCKET_ROLES), description="What the account may do in it.", default="read"
    ),
}
SERVICE_ACCOUNT = {
    "account_id": Key(description="The part before the `@`.", default=DEFAULT_ID),
    "display_name": Key(description="Title of the account, for people."),
    "description": Key(description="Text on the account, for people."),
    "roles": Key(
        "list",
        elements="str",
        description="Roles in the project.",
        default=", ".join(f"`{role}`" for role in LEAST_ROLES),
    ),
    "buckets": Key("list", elements="dict", options=BUCKET, description="Buckets that it may use."),
    "purge": Key(
        "bool",
        description="Whether to remove other roles that the account has. Without it a warning "
        "names them.",
        default="false",
    ),
    "adopt": Key(
        "bool",
        description="Whether to take over an account that another tool created.",
        default="false",
    ),
    "state": STATES,
}
AROUND = {
    "fleet_services": Key(
        "list",
        elements="str",
        description="APIs to enable beside those that the fleet file needs.",
    ),
    "fleet_project_keys": Key("list", elements="dict", options=PROJECT_KEY),
    "fleet_mosh": Key("dict", options=MOSH),
    "fleet_disks": Key("list", elements="dict", options=FLEET_DISK),
    "fleet_checkpoint_buckets": Key("list", elements="dict", options=CHECKPOINT_BUCKET),
    "fleet_service_account": Key("dict", options=SERVICE_ACCOUNT),
}


def check_around(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong around the slices."""
    problems = []
    for variable, key in AROUND.items():
        found = check_keys("", data, {variable: key}, among=())
        problems += found
        # What has the wrong shape would only be misunderstood.
        if not found and data.get(variable) and variable in _RULES:
            problems += _RULES[variable](data)
    return problems


def _project_keys(data: Mapping[str, Any]) -> Iterator[Problem]:
    for index, entry in enumerate(data["fleet_project_keys"]):
        field = f"fleet_project_keys[{index}]"
        message = rules.user_name(entry["user"])
        if message and entry["user"] != "root":
            yield Problem(f"{field}.user", entry["user"], message, user_remedy(entry["user"]))
        message = rules.public_key(entry["key"])
        if message:
            hint = "Give the one line of the .pub file: ssh-ed25519 AAAA… comment"
            shown = None if "PRIVATE" in entry["key"] else entry["key"]
            yield Problem(f"{field}.key", shown, message, hint)


def _mosh(data: Mapping[str, Any]) -> Iterator[Problem]:
    entry = data["fleet_mosh"]
    if entry.get("state") == "absent":
        return
    # Without ranges they are found out when the playbook runs.
    ranges = entry.get("source_ranges")
    tags = sequence_of(entry.get("target_tags"))
    spec = FirewallSpec(
        name=entry.get("name") or DEFAULT_NAME,
        project="",
        source_ranges=("192.0.2.1/32",) if ranges is None else sequence_of(ranges),
        target_tags=tags,
        ports=entry.get("ports") or ALL_PORTS,
    )
    yield from _by_spec("fleet_mosh", spec.check)
    slices = _slices(data)
    carried = [one.get("tags") for one in slices]
    # What cannot be read may be the tag.
    hidden = UNREADABLE in _flat([data.get("fleet_slices"), *carried])
    if tags and slices and not hidden and not set(tags) & set(_flat(carried)):
        message = "are tags that no slice carries, so that mosh would reach none"
        remedy = f"Add tags: [{tags[0]}] to the slices that people log in to"
        yield Problem("fleet_mosh.target_tags", list(tags), message, remedy)


def _disks(data: Mapping[str, Any]) -> Iterator[Problem]:
    places: dict[tuple[str, str], str] = {}
    for field, entry in entries(data, "fleet_disks"):
        zone = zone_of(data, entry)
        if _is_at_google(entry):
            yield from _zone_of_disk(field, zone)
        first = places.setdefault((zone, entry["name"]), field)
        if first != field:
            message = f"is used twice in {zone}, first by {first}"
            yield Problem(f"{field}.name", entry["name"], message, "Give each disk its own name")
        yield from _machines_of_disk(field, entry)
        for place, name in enumerate(entry.get("slices") or []):
            yield from known(data, f"{field}.slices[{place}]", name, "slice", "fleet_slices")
            one = _slice(data, name)
            if one and is_attached(entry):
                yield from _attachment(f"{field}.", place, entry, one, zone)
        spec = DiskSpec(
            name=entry["name"],
            zone=zone,
            project="",
            size_gb=gib_of("size", entry.get("size")),
            labels={key: str(value) for key, value in (entry.get("labels") or {}).items()},
            nodes=tuple(entry["slices"]) if is_attached(entry) else None,
            mode=disk_mode(entry.get("read_only")),
        )
        yield from _by_spec(field, spec.check)


def _zone_of_disk(field: str, zone: str) -> Iterator[Problem]:
    if not zone:
        remedy = "Set it here, or fleet_zone, or name slices that are in one zone"
        yield Problem(f"{field}.zone", None, "is missing", remedy)
    elif zone != str(UNREADABLE) and rules.zone(zone):
        yield Problem(f"{field}.zone", zone, "is not a zone", "Zones look like us-central2-b")


def _machines_of_disk(field: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    """Check that a disk with a path is said to be on machines, and one that goes is not."""
    absent, slices = entry.get("state") == "absent", entry.get("slices")
    if absent and slices:
        message = "is given, but the disk has state: absent"
        yield Problem(f"{field}.slices", slices, message, "Remove it, or state: absent")
    if entry.get("path") and slices is None and not absent:
        message = "is missing, and path says only where on a machine the disk is mounted"
        yield Problem(f"{field}.slices", None, message, "Name the slices that have the disk")


def _attachment(
    prefix: str, place: int, entry: Mapping[str, Any], one: Slice, zone: str
) -> Iterator[Problem]:
    """Check that a disk can be attached to a slice, on these workers."""
    away = sorted({*one.zones} - {zone})
    if zone and away and zone != str(UNREADABLE):
        message = f"may be in {', '.join(away)}, and the disk is in {zone}"
        remedy = "A disk serves its own zone only: let both be in one zone"
        yield Problem(f"{prefix}slices[{place}]", one.name, message, remedy)
    count, workers = one.workers or 1, entry.get("workers") or []
    for number, worker in enumerate(workers):
        if one.workers and not 0 <= worker < count:
            message = f"is not one of the {count} workers of {one.name}"
            yield Problem(f"{prefix}workers[{number}]", worker, message, "Count them from 0")
    if count > 1 and len(workers) != 1 and not entry.get("read_only"):
        message = f"is not true, and {one.name} has {count} workers, of which one may write"
        remedy = "Set it to true, or workers to the one that writes: workers: [0]"
        yield Problem(f"{prefix}read_only", entry.get("read_only"), message, remedy)


def _is_at_google(disk: Mapping[str, Any]) -> bool:
    """Return whether a disk is more than a mount of what the machines have by themselves."""
    return disk.get("attach") is not False or bool(disk.get("size"))


def _slice(data: Mapping[str, Any], name: str) -> Slice | None:
    """Return the slice of a name; None without one, or one of which not all can be read."""
    found = next((one for one in _slices(data) if one.get("name") == name), None)
    usual = data.get("fleet_zone")
    if found is None or UNREADABLE in _flat([usual, *found.values()]):
        return None
    return Slice.read(found, text_of(data, "fleet_zone"))


def zone_of(data: Mapping[str, Any], disk: Mapping[str, Any]) -> str:
    """Return the zone of a disk: its own, that of its slices, or fleet_zone; empty if unknown."""
    if disk.get("zone"):
        return str(disk["zone"])
    zones = _zones(data, disk.get("slices") or [])
    if not zones:
        return str(data.get("fleet_zone") or "")
    return zones.pop() if len(zones) == 1 else ""


def _zones(data: Mapping[str, Any], named: list[Any]) -> set[str]:
    """Return all zones in which these slices may be."""
    usual = str(data.get("fleet_zone") or "")
    return {
        str(zone)
        for one in _slices(data)
        if one.get("name") in named
        for zone in one.get("zones") or [one.get("zone") or usual]
    }


def _checkpoint_buckets(data: Mapping[str, Any]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    queue = _queue(data)
    for index, entry in enumerate(data["fleet_checkpoint_buckets"]):
        field = f"fleet_checkpoint_buckets[{index}]"
        known_as = first.setdefault(entry["name"], field)
        if known_as != field:
            message = f"is declared twice, first by {known_as}"
            yield Problem(f"{field}.name", entry["name"], message, "Keep one of the two")
        for place, name in enumerate(entry.get("slices") or []):
            yield from known(data, f"{field}.slices[{place}]", name, "slice", "fleet_slices")
        if entry.get("state") != "absent":
            yield from _region(data, field, entry)
        elif queue is not None and entry["name"] == queue.bucket:
            remedy = "Remove state: absent, or fleet_queue"
            yield Problem(f"{field}.state", "absent", "is the bucket of fleet_queue", remedy)
        spec = BucketSpec(
            name=entry["name"],
            location=str(entry.get("region") or ""),
            soft_delete=seconds_in(str(entry.get("soft_delete_duration") or "0s")) or 0,
        )
        yield from _by_spec(field, spec.check)


def _region(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    """Say why the region of a bucket is not clear."""
    found = regions_of(data, entry)
    if str(UNREADABLE) in found or data.get("fleet_slices") is UNREADABLE:
        return
    if len(found) > 1:
        message = f"is missing, and the slices are in {' and '.join(found)}"
        remedy = "Declare a bucket for each region with its slices, or set the region here"
        yield Problem(f"{field}.region", None, message, remedy)
    elif not found and _slices(data):
        remedy = "Set it here, or fleet_zone, or name slices that have a zone"
        yield Problem(f"{field}.region", None, "is missing", remedy)


def regions_of(data: Mapping[str, Any], bucket: Mapping[str, Any]) -> list[str]:
    """Return the regions of a bucket: its own, those of its slices, or that of fleet_zone."""
    if bucket.get("region"):
        return [str(bucket["region"])]
    zones = _zones(data, _slices_of(data, bucket)) or {str(data.get("fleet_zone") or "")}
    return sorted({region_of(zone) or zone for zone in zones if zone})


def _slices_of(data: Mapping[str, Any], bucket: Mapping[str, Any]) -> list[Any]:
    return bucket.get("slices") or [one.get("name") for one in _slices(data)]


def _service_account(data: Mapping[str, Any]) -> Iterator[Problem]:
    entry = data["fleet_service_account"]
    roles = entry.get("roles")
    spec = AccountSpec(
        account_id=entry.get("account_id") or DEFAULT_ID,
        project="",
        roles=LEAST_ROLES if roles is None else tuple(roles),
        buckets=tuple((bucket["name"], ()) for bucket in entry.get("buckets") or []),
    )
    yield from _by_spec("fleet_service_account", spec.check)
    made = {one.get("name"): name for name, one in _with_access(data)}
    for index, bucket in enumerate(entry.get("buckets") or []):
        if bucket["name"] in made:
            message = f"is in {made[bucket['name']]}, which gives its slices' accounts access"
            place = f"fleet_service_account.buckets[{index}].name"
            yield Problem(place, bucket["name"], message, "Remove it here")


def _with_access(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the buckets whose slices' accounts get access, each with the variable that says so."""
    queue = _queue(data)
    if queue is not None:
        yield "fleet_queue", {"name": queue.bucket}
    for _field, one in entries(data, "fleet_checkpoint_buckets"):
        yield "fleet_checkpoint_buckets", one


def _queue(data: Mapping[str, Any]) -> FleetQueue | None:
    """Return the queue; None without one, and for one whose rules do not hold."""
    declared = data.get("fleet_queue")
    is_good = isinstance(declared, Mapping) and isinstance(declared.get("bucket"), str)
    return FleetQueue.read(declared) if is_good and not check_queue(data) else None


def _by_spec(field: str, check: Callable[[], None]) -> Iterator[Problem]:
    """Say what a module would say, before any module runs."""
    try:
        check()
    except TpuError as error:
        message = error.message.rstrip(".")
        yield Problem(field, None, message, (error.remedy or "Correct it").rstrip("."))


def _flat(values: Iterable[Any]) -> list[Any]:
    """Return the items of lists, and what is no list."""
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _slices(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    declared = data.get("fleet_slices")
    found = declared if isinstance(declared, list) else []
    return [one for one in found if isinstance(one, Mapping)]


_RULES: dict[str, Callable[[Mapping[str, Any]], Iterator[Problem]]] = {
    "fleet_project_keys": _project_keys,
    "fleet_mosh": _mosh,
    "fleet_disks": _disks,
    "fleet_checkpoint_buckets": _checkpoint_buckets,
    "fleet_service_account": _service_account,
}


Call = tuple[str, dict[str, Any]]
NOWHERE = "no slice could be asked for this computer's public address"


class MoshError(ValueError):
    """There is no address from which mosh may be used."""


def services(data: Mapping[str, Any]) -> list[Call]:
    """Return the module that enables the APIs that the fleet file needs, with its options."""
    account = data.get("fleet_service_account") or {}
    needed = {
        "tpu": True,
        "compute": any(data.get(f"fleet_{name}") for name in ("project_keys", "mosh", "disks")),
        "iam": bool(account),
        "cloudresourcemanager": bool(account),
        "storage": bool(
            account.get("buckets")
            or data.get("fleet_checkpoint_buckets")
            or data.get("fleet_queue")
        ),
    }
    names = [f"{name}.googleapis.com" for name, is_needed in needed.items() if is_needed]
    more = data.get("fleet_services") or []
    return [("project_service", {"names": list(dict.fromkeys([*names, *more]))})]


def service_account(data: Mapping[str, Any]) -> list[Call]:
    """Return the module that keeps the service account; none if none is declared."""
    account = data.get("fleet_service_account")
    return [] if account is None else [("service_account", {**account, **_ours(data)})]


def project_keys(data: Mapping[str, Any]) -> list[Call]:
    """Return the module with each key."""
    return [("project_ssh_key", dict(entry)) for entry in data.get("fleet_project_keys") or []]


def firewall(data: Mapping[str, Any], seen: list[str], must_know: bool) -> list[Call]:
    """Return the module that lets mosh in; raise if it is to know from where, and does not.

    Several addresses are refused: a slice may be in other hands, and its holder would get in.
    """
    mosh = data.get("fleet_mosh") or {}
    if not mosh:
        return []
    asks = "source_ranges" not in mosh and mosh.get("state", "present") == "present"
    if asks and must_know and len(seen) != 1:
        different = f"the slices see us come from different addresses: {', '.join(seen)}"
        raise MoshError(
            f"fleet_mosh has no source_ranges, and {different if seen else NOWHERE}. Write the "
            "addresses from which people log in, as source_ranges: [203.0.113.7/32]."
        )
    if asks and not seen:
        return []
    return [("firewall_rule", {"source_ranges": seen, **mosh, **_ours(data)})]


def disks(data: Mapping[str, Any], there: set[tuple[str, str]]) -> list[Call]:
    """Return the module with each disk, attached to those of its slices that are there.

    What is there is given as zone and name.
    """
    calls = []
    for entry in data.get("fleet_disks") or []:
        if not _is_at_google(entry):
            continue
        options = {key: value for key, value in entry.items() if key not in _OF_MACHINES}
        options |= {"zone": zone_of(data, entry) or None, **_ours(data)}
        if entry.get("size") is None and entry.get("state") != "absent":
            options.pop("adopt", None)  # means the file system alone
        if is_attached(entry):
            zone = str(options["zone"])
            options["nodes"] = [name for name in entry["slices"] if (zone, name) in there]
        calls.append(("disk", options))
    return calls


def buckets(data: Mapping[str, Any]) -> list[Call]:
    """Return the module with each bucket, and with the accounts of its slices.

    The queue's bucket is one of them, also if it is not among `fleet_checkpoint_buckets`. Where
    there are no slices, a bucket without a region of its own is left as it is.
    """
    declared = data.get("fleet_checkpoint_buckets") or []
    calls = [
        _bucket(data, entry)
        for entry in declared
        if entry.get("state") == "absent" or regions_of(data, entry)
    ]
    queue = FleetQueue.read(data.get("fleet_queue"))
    return calls if queue is None else _with_queue(data, queue, calls)


def _with_queue(data: Mapping[str, Any], queue: FleetQueue, calls: list[Call]) -> list[Call]:
    """Return the calls, with access for the slices and people of the queue."""
    own = _queue_bucket(data, queue)
    for _module, options in calls:
        if options["name"] == queue.bucket:
            accounts = [*options.get("accounts", []), *own["accounts"]]
            people = {key: own[key] for key in ("writers", "readers") if key in own}
            options.update(accounts=list(dict.fromkeys(accounts)), **people)
            return calls
    return [*calls, ("bucket", own)] if regions_of(data, {"slices": list(queue.slices)}) else calls


def _queue_bucket(data: Mapping[str, Any], queue: FleetQueue) -> dict[str, Any]:
    entry = {"name": queue.bucket, "slices": list(queue.slices)}
    regions = regions_of(data, entry)
    people = {key: list(names) for key, names in queue.access.items() if names}
    return {
        **{"name": queue.bucket, "state": "used", "accounts": accounts_of(data, entry)},
        **({"location": regions[0]} if len(regions) == 1 else {}),
        **{**people, **_ours(data)},
    }


def queue_access(data: Mapping[str, Any]) -> tuple[str, dict[str, list[str]]] | None:
    """Return the queue's bucket, and who needs access: `accounts`, `writers` and `readers`."""
    queue = _queue(data)
    if queue is None:
        return None
    own = _queue_bucket(data, queue)
    return queue.bucket, {key: own.get(key, []) for key in ("accounts", "writers", "readers")}


def _bucket(data: Mapping[str, Any], entry: Mapping[str, Any]) -> Call:
    options = {
        key: entry[key]
        for key in ("name", "state", "soft_delete_duration", "adopt")
        if key in entry
    }
    if entry.get("state") != "absent":
        options["location"] = "".join(regions_of(data, entry)[:1])
        options["accounts"] = accounts_of(data, entry)
    return "bucket", {**options, **_ours(data)}


def accounts_of(data: Mapping[str, Any], bucket: Mapping[str, Any]) -> list[str]:
    """Return the service accounts of a bucket's slices; on Compute Engine a slice may have none."""
    named = _slices_of(data, bucket)
    accounts = [_account_of(one) for one in _slices(data) if one.get("name") in named]
    return [account for account in dict.fromkeys(accounts) if account]


def _account_of(entry: Mapping[str, Any]) -> str:
    if entry.get("service_account"):
        return str(entry["service_account"])
    return "" if Slice.read(entry, None).api == COMPUTE else DEFAULT_ACCOUNT


def slices_to_come(data: Mapping[str, Any], there: set[tuple[str, str]]) -> list[str]:
    """Name the slices that have disks and are not there."""
    disks = filter(is_attached, data.get("fleet_disks") or [])
    named = [name for disk in disks for name in disk["slices"]]
    names = {name for _zone, name in there}
    return [name for name in dict.fromkeys(named) if name not in names]


def _ours(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"owner": data.get("fleet_owner")}
