# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the slices of the fleet file: each alone, and all together against the grant. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._compute import machine_types
from .._roles.python_env.frameworks import version_key
from .._schema import values as rules
from .._schema.accelerators import PREFIXES, default_runtime, meant_types, runtime_fits
from .._schema.accelerators import parse as parse_accelerator
from .._schema.keys import (
    TIERS,
    Problem,
    by_rule,
    did_you_mean,
    duplicates,
    entries,
    text_of,
    texts_of,
)
from .._tpu.model import COMPUTE, TPU
from .._tpu.queued_spec import parse_duration
from .declared import CALENDAR, KEEP, TPU_KEYS, TPU_TIERS, Slice, apis_of
from .grant import (
    DECLARE,
    Grant,
    Holding,
    allocation_problems,
    parse_allocations,
)

Entry = Mapping[str, Any]
# Seconds for which flex-start on Compute Engine may be asked for (maxRunDuration of an instance).
MOST_BRIEF, LONGEST = 600.0, 7 * 86400.0
# The first JAX that takes workers' bare names, and the first whose libtpu knows TPU7x.
OLDEST_JAX, OLDEST_JAX_FOR_TPU7X = (0, 10), (0, 10, 2)


def check_slices(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the slices, and where they leave the grant."""
    problems = duplicates(data, "fleet_slices", "name", "Give each slice a name of its own")
    zone = text_of(data, "fleet_zone")
    raw = data.get("fleet_allocations")
    grant = None if raw is None or allocation_problems(raw) else parse_allocations(raw)
    declared = {
        field: Slice.read(entry, zone, grant=grant)
        for field, entry in entries(data, "fleet_slices")
    }
    for field, one in declared.items():
        if one.name and not rules.NODE_NAME.fullmatch(one.name):
            remedy = "Use a-z, 0-9 and -, beginning with a letter, at most 63 characters"
            problems.append(Problem(f"{field}.name", one.name, "is not a name for a TPU", remedy))
        entry = one.options
        problems += _check_zones(field, entry, data.get("fleet_zone"))
        of_types = _check_types(field, entry, one)
        problems += of_types
        problems += _check_calendar(field, one, grant)
        # The API follows from a machine type: without a right one it is not known.
        if not any(problem.field == f"{field}.machine_type" for problem in of_types):
            problems += _check_api(field, entry, one)
        problems += _check_queue(field, entry, one)
        problems += _check_end(field, entry, one)
        problems += _check_maps(field, entry)
    problems += _check_grant(raw, grant, declared)
    problems += _check_accounts(data, declared)
    return problems + _check_frameworks(data, list(declared.values()))


def _check_zones(field: str, entry: Entry, default: Any) -> list[Problem]:
    problems = by_rule(entry, f"{field}.", "zone", rules.zone, rules.ZONE_REMEDY)
    for index, zone in texts_of(entry, "zones"):
        message = rules.zone(zone)
        if message:
            problems.append(Problem(f"{field}.zones[{index}]", zone, message, rules.ZONE_REMEDY))
    problems += _one_or_list(field, entry, "zone", "zones")
    if not entry.get("zone") and entry.get("zones") is None and not default:
        remedy = "Set it here, or fleet_zone for all slices"
        problems.append(Problem(f"{field}.zone", None, "is missing", remedy))
    return problems


def _check_types(field: str, entry: Entry, one: Slice) -> list[Problem]:
    problems = _one_or_list(field, entry, "accelerator_type", "accelerator_types")
    if one.machine_type:
        return problems + _check_machine_type(field, entry, one)
    if not entry.get("accelerator_type") and entry.get("accelerator_types") is None:
        remedy = "Set it, accelerator_types to several in order of preference, or machine_type"
        problems.append(Problem(f"{field}.accelerator_type", None, "is missing", remedy))
    single = text_of(entry, "accelerator_type")
    named = [(f"{field}.accelerator_type", single)] if single else []
    named += [
        (f"{field}.accelerator_types[{index}]", kind)
        for index, kind in texts_of(entry, "accelerator_types")
    ]
    runtime = text_of(entry, "runtime_version")
    for place, kind in named:
        if parse_accelerator(kind) is None:
            remedy = did_you_mean(kind, meant_types(kind), rules.TYPE_REMEDY)
            problems.append(Problem(place, kind, "is not a known accelerator type", remedy))
        elif runtime and one.api != COMPUTE and not runtime_fits(kind, runtime):
            remedy = f"Use {default_runtime(kind)}, or leave it out"
            if len(named) > 1:
                remedy = "Leave it out: then each type gets the runtime of its generation"
            message = f"is not a runtime for {kind}"
            problems.append(Problem(f"{field}.runtime_version", runtime, message, remedy))
    return problems


def _check_machine_type(field: str, entry: Entry, one: Slice) -> list[Problem]:
    """Check a machine type of Compute Engine, and whether it can form the topology."""
    place, named = f"{field}.machine_type", one.machine_type
    has_type = text_of(entry, "accelerator_type") or entry.get("accelerator_types") is not None
    if machine_types.machine_type(named) is None:
        known = machine_types.MACHINE_TYPES
        remedy = f"Set accelerator_type in its place, or one of {', '.join(known)}"
        if has_type:
            remedy = "Leave it out: a TPU VM is the machine, and needs no other one beside it"
        elif named.startswith("ct"):
            remedy = did_you_mean(named, known, remedy)
        return [Problem(place, named, "is not a machine type with TPUs", remedy)]
    if has_type:
        remedy = "Keep one of the two: the accelerator type follows from machine_type and topology"
        return [Problem(place, named, "stands beside accelerator_type", remedy)]
    known_topologies = machine_types.topologies(named)
    if one.topology and one.topology not in known_topologies:
        remedy = f"Use {', '.join(known_topologies)}"
        message = f"cannot be formed of {named}"
        return [Problem(f"{field}.topology", one.topology, message, remedy)]
    return []


def _check_api(field: str, entry: Entry, one: Slice) -> list[Problem]:
    """Check whether the API has what is asked for, and that it is known which API is meant."""
    kinds = ", ".join(one.types) or "the slice"
    place = f"{field}.api"
    if not one.api:
        message = f"is missing: the Cloud TPU API and Compute Engine both have {kinds}"
        remedy = (
            "Set api: tpu or api: compute, or say it in fleet_allocations; their quotas and prices "
            "differ"
        )
        return [Problem(place, None, message, remedy)]
    lacking = [kind for kind in one.types if one.api not in apis_of(kind)]
    if lacking:
        said = text_of(entry, "api")
        message = f"does not have {', '.join(lacking)}"
        if not said:
            message = f"is {one.api} by the other keys, and that API {message}"
        return [Problem(place, said, message, "Leave api out, or take another type")]
    problems = []
    if one.api == TPU:
        if one.machine_type or one.topology:
            key = "machine_type" if one.machine_type else "topology"
            message = "is Compute Engine's, and this slice is of the Cloud TPU API"
            remedy = "Set api: compute, or leave it out"
            problems.append(Problem(f"{field}.{key}", entry.get(key), message, remedy))
        return problems
    if one.tier in TPU_TIERS:
        message = "is a tier of the Cloud TPU API only"
        remedy = "Use on_demand, spot, flex_start, reserved or calendar"
        problems.append(Problem(f"{field}.tier", one.tier, message, remedy))
    for key in TPU_KEYS:
        if entry.get(key):
            message = "is of the Cloud TPU API only, and this slice is of Compute Engine"
            problems.append(Problem(f"{field}.{key}", entry[key], message, "Leave it out"))
    return problems + _check_flex_start(field, one)


def _check_calendar(field: str, one: Slice, grant: Grant | None) -> list[Problem]:
    """Check a slice that is taken from a future reservation, which ends by itself.

    Google then deletes its machines. The grant has the time, so that they are not requested again.
    """
    if one.tier != CALENDAR:
        return []
    if one.api == TPU:
        message, remedy = "is a tier of Compute Engine only", "Use tier: reserved"
        return [Problem(f"{field}.tier", one.tier, message, remedy)]
    problems = []
    if not one.reservation:
        message = "is missing, which tier: calendar needs"
        remedy = "Name the reservation that Google makes for the future reservation"
        problems.append(Problem(f"{field}.reservation", None, message, remedy))
    if grant is None or grant.unrestricted:
        return problems
    for place in one.candidates:
        covered = grant.misfit(place, one.tier, []) is None
        if covered and grant.ends_at(place, one.tier) is None:
            message = f"has no end in {place.zone}, where the reservation has one"
            remedy = "Say in fleet_allocations when the reservation ends (ends)"
            problems.append(Problem(f"{field}.tier", one.tier, message, remedy))
    return problems


def _check_flex_start(field: str, one: Slice) -> list[Problem]:
    """Check how long a flex-start slice of Compute Engine may wait and live."""
    if one.tier != "flex_start":
        return []
    place, lives = f"{field}.max_run_duration", parse_duration(one.max_run_duration or "")
    remedy = "Set it from 10m to 7d; after it the watcher asks for the slice again"
    if lives is None:
        return [Problem(place, None, "is missing, which flex-start needs", remedy)]
    if not MOST_BRIEF <= lives <= LONGEST:
        return [Problem(place, one.max_run_duration, "is not what flex-start allows", remedy)]
    return []


def _check_queue(field: str, entry: Entry, one: Slice) -> list[Problem]:
    problems = []
    if one.race and len(one.candidates) == 1:
        remedy = "Give several zones or accelerator_types, or leave the strategy out"
        message = "has only one place to race for"
        problems.append(Problem(f"{field}.strategy", "race", message, remedy))
    if entry.get("queued") is False and one.queued:
        message = f"does not go with {one.queued_by}, which only a queued resource can do"
        problems.append(Problem(f"{field}.queued", False, message, "Leave it out"))
    if entry.get("valid_for") and not one.waits:
        message = "says how long a request waits, and this one does not wait"
        remedy = "Set queued: true, or leave it out"
        if one.api == COMPUTE:
            remedy = "Use tier: flex_start, or leave it out"
        problems.append(Problem(f"{field}.valid_for", entry["valid_for"], message, remedy))
    if one.reservation and one.tier not in ("reserved", CALENDAR):
        message = f"does not go with tier: {one.tier}"
        remedy = "Set tier: reserved or calendar, or leave the reservation out"
        problems.append(Problem(f"{field}.reservation", one.reservation, message, remedy))
    return problems


def _check_end(field: str, entry: Entry, one: Slice) -> list[Problem]:
    """Check what happens to the slice after the end of its runs."""
    problems = []
    how = one.on_finish
    if one.idle_after and how == "keep":
        message = "has nothing to do, as on_finish says keep"
        remedy = "Set on_finish to stop or delete, or leave it out"
        problems.append(Problem(f"{field}.idle_after", entry["idle_after"], message, remedy))
    if one.on_queue:
        problems += _check_on_queue(field, entry, how)
    obstacle = why_never_stopped(one) if how == "stop" else ""
    if obstacle:
        message = f"cannot be done with this slice: the API {obstacle}"
        problems.append(
            Problem(f"{field}.on_finish", how, message, "Use on_finish: delete, or keep")
        )
    return problems


def _check_on_queue(field: str, entry: Entry, how: str) -> list[Problem]:
    """Check that a slice which comes for submitted runs goes again."""
    told = []
    if how == KEEP:
        remedy = "Set on_finish: delete or stop, or leave on_queue out"
        told.append(("on_finish", "does not say how the slice rests, which on_queue needs", remedy))
    if not entry.get("idle_after"):
        remedy = "Set how long it stays without a run, as idle_after: 30m"
        told.append(("idle_after", "is missing, which on_queue needs", remedy))
    return [Problem(f"{field}.{key}", entry.get(key), text, do) for key, text, do in told]


def why_never_stopped(one: Slice) -> str:
    """Return why the API does not stop a slice, or starts it never again; empty if it does."""
    for kind in one.types:
        known = parse_accelerator(kind)
        workers = one.shape_workers or (known.workers if known is not None else 1)
        if workers > 1:
            return f"stops no slice of several workers, and {kind} has {workers}"
    if one.tier == "spot":
        return "never starts a spot node again that was stopped"
    return "stops no node that came of a queued resource" if one.queued else ""


def _check_maps(field: str, entry: Entry) -> list[Problem]:
    problems = []
    for key, rule in (("labels", rules.labels), ("metadata", rules.metadata)):
        values = entry.get(key)
        if isinstance(values, dict):
            for name, value, message in rule(values):
                remedy = "Change or remove it"
                if not isinstance(value, str):
                    remedy = "Put the value in quotes"
                problems.append(Problem(f"{field}.{key}.{name}", value, message, remedy))
    metadata = entry.get("metadata")
    if text_of(entry, "startup_script") and "startup-script" in (metadata or {}):
        message = "is also given as metadata startup-script"
        problems.append(Problem(f"{field}.startup_script", None, message, "Keep one of the two"))
    return problems


def _check_accounts(data: Mapping[str, Any], declared: Mapping[str, Slice]) -> list[Problem]:
    """Check that what the machines fetch with their account's token finds one.

    Without a declared one, the Cloud TPU API takes the project's default account, and Compute
    Engine none.
    """
    readers, place = _readers(data), data.get("fleet_self_setup")
    in_bucket = isinstance(place, Mapping) and bool(place.get("bucket"))
    problems = []
    for field, one in declared.items():
        if one.api != COMPUTE or one.options.get("service_account"):
            continue
        needed = [what for what, slices in readers if not slices or one.name in slices]
        if one.self_setup and in_bucket:
            needed.insert(0, "self_setup")
        if needed:
            message = (
                f"is missing, so that the slice has no account on Compute Engine; {needed[0]} "
                "reads from Google as this account"
            )
            remedy = "Set it to an account that may, such as that of fleet_service_account"
            problems.append(Problem(f"{field}.service_account", None, message, remedy))
    return problems


def _readers(data: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return what reads from Google on the machines, each with its slices; none stands for all."""
    secrets = [
        (f"{field}.google_secrets", entry)
        for field, entry in entries(data, "fleet_secrets")
        if entry.get("google_secrets")
    ]
    buckets = [
        item
        for item in entries(data, "fleet_buckets")
        if "anonymous_access" not in str(item[1].get("options")).replace("-", "_")
    ]
    return [
        (field, [name for _index, name in texts_of(entry, "slices")])
        for field, entry in (*secrets, *buckets)
    ]


def _check_frameworks(data: Mapping[str, Any], declared: list[Slice]) -> list[Problem]:
    """Check whether the venvs' JAX finds the other workers of a slice of Compute Engine.

    Their names have no address there, which older versions take for an error; and the libtpu of
    older versions does not know TPU7x.
    """
    problems = []
    for field, entry in entries(data, "fleet_venvs"):
        if (text_of(entry, "framework") or "") != "jax":
            continue
        version = text_of(entry, "framework_version") or text_of(data, "fleet_jax_version")
        if not version or not version[0].isdigit():
            continue
        among = {name for _index, name in texts_of(entry, "slices")}
        for one in declared:
            new = any(kind.startswith(f"{PREFIXES['tpu7x']}-") for kind in one.types)
            least = OLDEST_JAX_FOR_TPU7X if new else OLDEST_JAX
            if one.api != COMPUTE or (among and one.name not in among):
                continue
            workers = [kind.workers for kind in map(parse_accelerator, one.types) if kind]
            alone = (one.shape_workers or max(workers, default=1)) == 1
            if version_key(version) < least and (new or not alone):
                message = f"does not find the chips or workers of {one.name} on Compute Engine"
                remedy = f"Use {'.'.join(map(str, least))} or newer, or leave it out"
                place = f"{field}.framework_version"
                problems.append(Problem(place, version, message, remedy))
                break
    return problems


def _one_or_list(field: str, entry: Entry, one: str, many: str) -> list[Problem]:
    """Check a pair of keys, of which the list is in order of preference."""
    values = entry.get(many)
    if values is None:
        return []
    if entry.get(one):
        message, remedy = f"stands beside {one}", f"Keep one of the two; {one} goes into the list"
        return [Problem(f"{field}.{many}", values, message, remedy)]
    if values == []:
        return [Problem(f"{field}.{many}", values, "is empty", f"Name at least one, or use {one}")]
    known: set[str] = set()
    problems = []
    for index, value in texts_of(entry, many):
        if value in known:
            message = "is in the list twice"
            problems.append(Problem(f"{field}.{many}[{index}]", value, message, "Remove one"))
        known.add(value)
    return problems


def _check_grant(raw: Any, grant: Grant | None, declared: Mapping[str, Slice]) -> list[Problem]:
    """Add up what the slices need, before anything is asked of the API.

    Only what is sure: a slice none of whose places the grant holds, and slices that have one
    place each and cannot be there together. Dates are left to the planner, who knows the time.
    """
    if raw is None:
        if not declared:
            return []
        message = "is missing, so that no slice may be created"
        return [Problem("fleet_allocations", None, message, DECLARE)]
    if grant is None:
        return []  # reported by themselves
    problems: list[Problem] = []
    taken: list[Holding] = []
    for field, one in declared.items():
        # What is wrong by itself leaves no grant.
        wrong = any(rules.zone(zone) for zone in one.zones)
        wrong = wrong or None in map(parse_accelerator, one.types)
        if not one.candidates or one.tier not in TIERS or wrong:
            continue
        alone = len(one.candidates) == 1
        found = _misfit(grant, one, taken if alone else [])
        if found:
            remedy = "Make the slices fit the grant, or correct fleet_allocations"
            problems.append(Problem(field, one.name or None, found, remedy))
        elif alone:
            (place,) = one.candidates
            taken.append(Holding.at(place, one.tier, one.name or field))
    return problems


def _misfit(grant: Grant, one: Slice, taken: list[Holding]) -> str | None:
    """Say why none of the places will do."""
    reasons = [grant.misfit(place, one.tier, taken) for place in one.candidates]
    told = list(dict.fromkeys(reason for reason in reasons if reason))
    if len(told) == 0 or None in reasons:
        return None
    return "is outside of the grant: " + "; ".join(told)
