# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the controller, the project, and the connection to each worker. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._compute.quotas import quotas_of
from .._core.in_zone import region_of
from .._fleet.plan_terms import STUCK
from .._google.bucket_plan import DEFAULT_ACCOUNT
from .._google.bucket_regions import FREE, NEAR, Transfer, transfer
from .._google.bucket_settings import (
    CLASS,
    EATS,
    NO_ABORT,
    SOFT_DELETE,
    STORAGE_CLASS,
    VERSIONING,
    misfits,
)
from .._google.storage_prices import GB, kept_copies, usd_per_gb_month, usd_per_month
from .._schema.accelerators import default_runtime, runtime_fits
from .._tpu.model import COMPUTE, TPU
from .check import (
    CONTROLLER,
    FAIL,
    WARN,
    WORKER,
    Case,
    Check,
    Facts,
    Hit,
    fine,
    hit,
    listed,
    skipped,
)
from .machine import CLOCK_FAIL, CLOCK_WARN

# Messages of ssh, and their cases. The first match counts.
SSH_SAYS: tuple[tuple[str, str], ...] = (
    (r"HOST IDENTIFICATION HAS CHANGED", "host_key_changed"),
    (r"No \S+ host key is known for|[Hh]ost key verification failed", "host_key_unknown"),
    (r"UNPROTECTED PRIVATE KEY|Load key .*(error|invalid)", "key_unusable"),
    (r"Connection refused", "refused"),
    (r"timed out|Timeout, server|no answer within", "timeout"),
    (r"No route to host|Network is unreachable", "no_route"),
    (r"Could not resolve hostname", "unresolved"),
    (r"Permission denied|Too many authentication failures", "denied"),
    (r"Connection (closed|reset)|kex_exchange_identification|Broken pipe", "closed"),
)
HOST_KEY_CASES = ("host_key_changed", "host_key_unknown")
NOT_PUBLISHED = "host keys not published"
# The generations in the names of quotas.
QUOTA_WORDS = {"v5e": "v5s-litepod"}


def ssh_case(code: int, said: str) -> str:
    """Return the case of a login attempt; empty if it succeeded."""
    if code == 0:
        return ""
    return next((case for words, case in SSH_SAYS if re.search(words, said)), "other")


def _credentials(facts: Facts) -> Iterator[Hit]:
    found = facts["credentials"]
    if found["error"]:
        yield hit("unusable", error=found["error"], remedy=found["remedy"])
    elif found["place"] == "loopback":
        yield fine("none needed: the API is on this computer")
    else:
        yield fine(found["found"])


def _api(facts: Facts) -> Iterator[Hit]:
    api = facts.get("api")
    if api is None:
        yield skipped("no slice is of the Cloud TPU API")
    elif api["error"]:
        yield hit("refuses", error=api["error"], remedy=api["remedy"])
    else:
        yield fine(f"project {api['project']} sees {api['zones']} zones")
        if api["unreachable"]:
            yield hit("unreachable", zones=listed(api["unreachable"]))


def _compute_api(facts: Facts) -> Iterator[Hit]:
    api = facts.get("compute_api")
    if api is None:
        yield skipped("no slice is on Compute Engine")
    elif api["error"]:
        yield hit("refuses", error=api["error"], remedy=api["remedy"])
    else:
        yield fine(f"slices on Compute Engine: {api['slices']}")
        if api["unreachable"]:
            yield hit("unreachable", zones=listed(api["unreachable"]))


def _time(facts: Facts) -> Iterator[Hit]:
    api = facts.get("api") or facts["compute_api"]
    if api["error"] or api["ahead"] is None:
        yield skipped("the API did not report its time")
        return
    if facts["credentials"]["place"] == "loopback":
        yield skipped("a local cloud has its own clock")
        return
    ahead = api["ahead"]
    blanks = {"seconds": f"{abs(ahead):.0f}", "where": "ahead" if ahead > 0 else "behind"}
    if abs(ahead) >= CLOCK_FAIL:
        yield hit("wrong", **blanks)
    elif abs(ahead) >= CLOCK_WARN:
        yield hit("off", **blanks)


def _grant(facts: Facts) -> Iterator[Hit]:
    grant = facts["grant"]
    if grant["error"]:
        yield hit("unreadable", error=grant["error"])
        return
    if not grant["declared"]:
        yield hit("undeclared")
    for warning in grant["warnings"]:
        yield hit("warns", warning=warning)
    for queued in grant["dead"]:
        yield hit("dead", subject=queued["name"], **queued)


def _slices(facts: Facts) -> Iterator[Hit]:
    missing = [] if facts["grant"]["error"] else facts["grant"]["missing"]
    for one in missing:
        case = "refused" if one["phase"] in STUCK else "missing"
        yield hit(
            case, subject=one["name"], slice=one["name"], why=f"{one['phase']}: {one['text']}"
        )
    if not missing:
        yield fine("each declared slice has a node")


def _quota(facts: Facts) -> Iterator[Hit]:
    wanted = [wish for wish in facts["wanted"] if wish["api"] == TPU]
    if not wanted:
        yield skipped("no slice is declared" if not facts["wanted"] else "none of the TPU API is")
        return
    yield from _limits(facts["quota"], wanted, limit_of)


def _compute_quota(facts: Facts) -> Iterator[Hit]:
    wanted = [wish for wish in facts["wanted"] if wish["api"] == COMPUTE]
    if not wanted:
        yield skipped("no slice is on Compute Engine")
        return
    for wish in wanted:
        if not quotas_of(wish["generation"], wish["tier"]):
            yield skipped("a reservation needs no quota", wish["slice"])
    counted = [wish for wish in wanted if quotas_of(wish["generation"], wish["tier"])]
    yield from _limits(facts["compute_quota"], counted, compute_limit_of)


def _limits(
    quota: Mapping[str, Any],
    wanted: list[dict[str, Any]],
    limit_of: Callable[[list[Mapping[str, Any]], Mapping[str, Any]], int | None],
) -> Iterator[Hit]:
    if quota["error"] and wanted:
        yield skipped(f"the project's quotas cannot be read: {quota['error']}")
        return
    for wish in wanted:
        limit = limit_of(quota["metrics"], wish)
        names = " or ".join(one.name for one in quotas_of(wish["generation"], wish["tier"]))
        region = region_of(wish["zone"])
        about = {"subject": wish["slice"], "limit": limit, "names": names, "region": region, **wish}
        if limit is None:
            yield skipped(f"no quota is known for {wish['type']} in {wish['zone']}", wish["slice"])
        elif limit == 0:
            yield hit("zero", **about)
        elif 0 < limit < wish["units"]:
            yield hit("small", **about)
        else:
            yield fine(f"{wish['zone']}: {limit if limit >= 0 else 'unlimited'}", wish["slice"])


def limit_of(metrics: list[Mapping[str, Any]], wish: Mapping[str, Any]) -> int | None:
    """Return the smallest limit of the TPU API that applies to a slice; None if none is known."""
    known = [
        limit
        for metric in metrics
        if _counts(str(metric.get("metric", "")).lower(), wish)
        for limit in _limits_in(metric, str(wish["zone"]))
    ]
    return min((limit for limit in known if limit >= 0), default=None)


def compute_limit_of(metrics: list[Mapping[str, Any]], wish: Mapping[str, Any]) -> int | None:
    """Return the largest limit of Compute Engine that a slice may use; None if none is known."""
    found = []
    for quota in quotas_of(wish["generation"], wish["tier"]):
        for metric in metrics:
            if str(metric.get("metric", "")).rpartition("/")[2] == quota.metric:
                known = _limits_in(metric, str(wish["zone"]), tpu_family=quota.family)
                found += [min(known)] if known else []
    return -1 if -1 in found else max(found, default=None)


def _limits_in(metric: Mapping[str, Any], zone: str, **more: str) -> list[int]:
    """Return the limits of a metric that hold in a zone; -1 means no limit."""
    places = {"zone": zone, "region": region_of(zone), **more}
    limits = []
    for limit in metric.get("consumerQuotaLimits") or []:
        # From the least to the most specific: the last match counts.
        value = None
        for bucket in limit.get("quotaBuckets") or []:
            where = bucket.get("dimensions") or {}
            if all(places.get(name) == place for name, place in where.items()):
                value = int(bucket.get("effectiveLimit", 0))
        limits += [] if value is None else [value]
    return limits


def _counts(metric: str, wish: Mapping[str, Any]) -> bool:
    name = metric.rpartition("/")[2].replace("_", "-")
    word = QUOTA_WORDS.get(wish["generation"], wish["generation"])
    serving = wish["generation"] == "v5e" and wish["units"] <= 8
    return (
        word in name
        and ("preemptible" in name) == (wish["tier"] == "spot")
        and ("reserved" in name) == (wish["tier"] == "reserved")
        and ("serving" in name) == serving
    )


def _buckets(facts: Facts) -> Iterator[Hit]:
    if not facts["buckets"]:
        yield skipped("no bucket is declared")
    for bucket in facts["buckets"]:
        if bucket["error"]:
            yield hit("unreadable", bucket["name"], **bucket)
            continue
        hits = [*_far(bucket), *_access(bucket), *_misfits(bucket)]
        yield from hits or [fine(bucket["location"], subject=bucket["name"])]


def _far(bucket: Mapping[str, Any]) -> Iterator[Hit]:
    """Yield from where a bucket costs; what the fleet file accepts is not among its zones."""
    apart: dict[Transfer, list[str]] = {}
    for zone in bucket["zones"]:
        between = transfer(bucket["resource"], region_of(zone))
        if between.kind != FREE:
            apart.setdefault(between, []).append(zone)
    for between, zones in apart.items():
        about = {"name": bucket["name"], "where": between.place, "zones": listed(zones)}
        case = "multi_region" if between.kind == NEAR else "far"
        yield hit(case, bucket["name"], price=between.price, **about)


def _access(bucket: Mapping[str, Any]) -> Iterator[Hit]:
    """Yield who cannot use the queue in a bucket."""
    for who, roles in (bucket.get("lacking") or {}).items():
        named = "the project's default account" if who == DEFAULT_ACCOUNT else who
        about = {"name": bucket["name"], "who": named, "roles": listed(roles)}
        yield hit("no_access", bucket["name"], **about)
    if bucket.get("forbidden"):
        about = {"name": bucket["name"], "permissions": listed(bucket["forbidden"])}
        yield hit("not_mine", bucket["name"], **about)


def _misfits(bucket: Mapping[str, Any]) -> Iterator[Hit]:
    """Yield the settings that do not fit rotating checkpoints, of a bucket that has some."""
    folders = tuple(bucket["folders"])
    for one in misfits(bucket["resource"], folders) if folders else ():
        days = "for good" if one.days == float("inf") else f"for {one.days:g} days"
        about = {"name": bucket["name"], "days": days, "value": one.value}
        bill = _bill(bucket, one.days) if one.days else ""
        yield hit(one.case, bucket["name"], bill=bill, command=one.command, **about)


def _bill(bucket: Mapping[str, Any], days: float) -> str:
    """Return what deleted checkpoints cost a month, as far as two saves of a run were seen."""
    each = usd_per_gb_month(
        bucket["location"], str(bucket["resource"].get("storageClass") or STORAGE_CLASS)
    )
    seen = [(one["bytes"], kept_copies(days, one["seconds"])) for one in bucket["saves"]]
    if each is None:
        return "their price is not known here"
    if not seen:
        return f"at ${each:g} a month for a gigabyte"
    size = int(sum(copies * of_one for of_one, copies in seen))
    usd = usd_per_month(size, each) or 0.0
    count = sum(copies for _of_one, copies in seen)
    return (
        f"at the present pace about {count:,.0f} of them, {size / GB:,.1f} GB, which is "
        f"${usd:,.2f} a month"
    )


def _fleet_file(facts: Facts) -> Iterator[Hit]:
    for notice in facts["notices"]:
        yield hit("notice", subject=notice["field"], **notice)


def _tools(facts: Facts) -> Iterator[Hit]:
    tools = facts["tools"]
    if not tools["ssh"]:
        yield hit("no_ssh")
    key = tools["key"]
    if key and not key["there"]:
        yield hit("no_key", path=key["path"])
    elif key and key["mode"] & 0o077:
        yield hit("open_key", path=key["path"])
    else:
        yield fine(f"ansible-core {tools['ansible']}, Python {tools['python']}")


def _state(facts: Facts) -> Iterator[Hit]:
    worker = facts["worker"]
    reason = worker["reason"]
    if reason and NOT_PUBLISHED not in reason:
        yield hit("unusable", reason=reason, slice=worker["slice"])
    coming = worker["maintenance"]
    if coming:
        yield hit("maintenance", slice=worker["slice"], when=coming)
    if not runtime_fits(worker["type"], worker["runtime"]):
        right = default_runtime(worker["type"])
        yield hit("runtime", right=right, runtime=worker["runtime"], type=worker["type"])


def _ssh(facts: Facts) -> Iterator[Hit]:
    worker, login = facts["worker"], facts["worker"]["login"]
    if worker["reason"] or login is None:
        yield skipped(worker["reason"] or "it was not tried")
        return
    case = ssh_case(login["code"], login["said"])
    about = {"address": worker["address"], "user": worker["user"], "key": worker["key"]}
    if not case:
        yield fine(f"{worker['user']}@{worker['address']}")
    elif case in HOST_KEY_CASES:
        yield skipped("the host key is not trusted")
    else:
        said = re.sub(r"\s+", " ", login["said"]).strip()[-300:]
        yield hit(case, said=said or f"ssh ends with {login['code']}", **about)


def _host_keys(facts: Facts) -> Iterator[Hit]:
    worker, login = facts["worker"], facts["worker"]["login"]
    about = {"address": worker["address"], "slice": worker["slice"]}
    if NOT_PUBLISHED in worker["reason"]:
        yield hit("not_published", **about)
    elif worker["reason"] or login is None:
        yield skipped(worker["reason"] or "it was not tried")
    else:
        case = ssh_case(login["code"], login["said"])
        if case in HOST_KEY_CASES:
            yield hit(case, **about)
        elif case and case != "denied":
            yield skipped("no connection")
        else:
            yield fine("verified" if worker["strict"] else "unchanged since the first connection")


_WATCH = "Wait a minute if it boots; otherwise run: tpu-fleet repair"

CHECKS: tuple[Check, ...] = (
    Check(
        "fleet_file",
        CONTROLLER,
        "the warnings of `tpu.fleet.check`: checkpoints that a preemption deletes, people without "
        "sudo beside an account that may edit the project, entries of the grant that are over",
        _fleet_file,
        {"notice": Case(WARN, "{message}", "{remedy}.")},
    ),
    Check(
        "tools",
        CONTROLLER,
        "the ssh command and Ansible's key",
        _tools,
        {
            "no_ssh": Case(FAIL, "there is no ssh command", "Install openssh-client."),
            "no_key": Case(
                FAIL,
                "the key {path} does not exist",
                "Copy it here, or generate one: tpu-fleet apply --only slices",
            ),
            "open_key": Case(
                FAIL,
                "others can read the key {path}, so ssh refuses it",
                "Run: chmod 600 {path}",
            ),
        },
        ("tools",),
    ),
    Check(
        "credentials",
        CONTROLLER,
        "which Google credentials are found, and whether they yield a token",
        _credentials,
        {"unusable": Case(FAIL, "{error}", "{remedy}")},
        ("credentials",),
    ),
    Check(
        "api",
        CONTROLLER,
        "whether the Cloud TPU API is enabled and answers (docs/errors.md lists its errors)",
        _api,
        {
            "refuses": Case(FAIL, "{error}", "{remedy}"),
            "unreachable": Case(
                WARN,
                "the API cannot read {zones} now: their nodes are unknown, not deleted",
                "Check again later.",
            ),
        },
        ("api",),
    ),
    Check(
        "compute_api",
        CONTROLLER,
        "whether Compute Engine is enabled and may be read, if a slice is there",
        _compute_api,
        {
            "refuses": Case(FAIL, "{error}", "{remedy}"),
            "unreachable": Case(
                WARN,
                "Compute Engine cannot read {zones} now: slices there are unknown, not deleted",
                "Check again later.",
            ),
        },
        ("compute_api",),
    ),
    Check(
        "time",
        CONTROLLER,
        "this computer's clock against Google's",
        _time,
        {
            "wrong": Case(
                FAIL,
                "this computer's clock is {seconds} s {where}: tokens will be refused",
                "Set it: sudo timedatectl set-ntp true",
            ),
            "off": Case(
                WARN,
                "this computer's clock is {seconds} s {where}",
                "Set it: sudo timedatectl set-ntp true",
            ),
        },
        ("api", "compute_api", "credentials"),
    ),
    Check(
        "grant",
        CONTROLLER,
        "fleet_allocations: what is used, what ends soon; dead queued resources that use up quota",
        _grant,
        {
            "undeclared": Case(
                WARN,
                "fleet_allocations is not declared: nothing can be created",
                "Declare it: tpu-fleet grant import < mail.txt",
            ),
            "warns": Case(WARN, "{warning}", "See: tpu-fleet status"),
            "dead": Case(
                WARN,
                "queued resource {name} in {zone} is {state} and still uses up quota",
                "Delete it: tpu-fleet repair",
            ),
            "unreadable": Case(WARN, "{error}", "Correct fleet_allocations in the fleet file."),
        },
        ("grant",),
    ),
    Check(
        "slices",
        CONTROLLER,
        "whether each declared slice exists",
        _slices,
        {
            "missing": Case(
                WARN,
                "slice {slice} is declared, and does not exist ({why})",
                "Request it: tpu-fleet apply",
            ),
            "refused": Case(
                WARN,
                "slice {slice} is declared, and cannot be created ({why})",
                "Change it or fleet_allocations in the fleet file.",
            ),
        },
        ("grant",),
    ),
    Check(
        "quota",
        CONTROLLER,
        "the quota of the Cloud TPU API for each of its slices, where Service Usage reports it",
        _quota,
        {
            "zero": Case(
                FAIL,
                "the project has no quota for {type} ({tier}) in {zone}",
                "Use a zone of your grant, or ask for quota: "
                "https://console.cloud.google.com/iam-admin/quotas",
            ),
            "small": Case(
                FAIL,
                "the quota for {type} ({tier}) in {zone} is {limit}; the slice takes {units}",
                "Use a smaller type, or ask for quota: "
                "https://console.cloud.google.com/iam-admin/quotas",
            ),
        },
        ("quota",),
    ),
    Check(
        "compute_quota",
        CONTROLLER,
        "the same for slices on Compute Engine, which counts chips in a region",
        _compute_quota,
        {
            "zero": Case(
                FAIL,
                "the project has no quota on Compute Engine for {type} ({tier}) in {region}",
                "Ask for {names} in {region}: https://console.cloud.google.com/iam-admin/quotas",
            ),
            "small": Case(
                FAIL,
                "the quota on Compute Engine for {type} ({tier}) in {region} is {limit}; "
                "the slice takes {units}",
                "Use a smaller type, or ask for {names}: "
                "https://console.cloud.google.com/iam-admin/quotas",
            ),
        },
        ("compute_quota",),
    ),
    Check(
        "buckets",
        CONTROLLER,
        "each bucket that slices use: exists, readable, in the region of the slices; of those with "
        "checkpoints, soft delete, versions and lifecycle rules; of the queue's, who has access",
        _buckets,
        {
            "unreadable": Case(
                FAIL, "bucket {name}: {error}", "Correct its name, or give the account access."
            ),
            "far": Case(
                FAIL,
                "bucket {name} is in {where}, and its slices may be in {zones}: what goes between "
                "them costs {price}",
                "Use a bucket in the region of the slices; for several regions see "
                "docs/data-and-checkpoints.md.",
            ),
            "multi_region": Case(
                WARN,
                "bucket {name} is in {where}: reads from {zones} cost {price}",
                "Use a bucket in the region of the slices; for several regions see "
                "docs/data-and-checkpoints.md.",
            ),
            "no_access": Case(
                WARN,
                "fleet_queue.bucket = {name}: its policy does not give {roles} to {who}",
                "Run as an administrator of the bucket: tpu-fleet project setup --only buckets",
            ),
            "not_mine": Case(
                WARN,
                "fleet_queue.bucket = {name}: your account cannot submit, it lacks {permissions}",
                "Add it to `fleet_queue.writers`, and let an administrator of the bucket "
                "run: tpu-fleet project setup --only buckets",
            ),
            SOFT_DELETE: Case(
                WARN,
                "bucket {name} keeps each deleted checkpoint {days} and bills it: {bill}",
                "Switch soft delete off: {command}",
            ),
            VERSIONING: Case(
                WARN,
                "bucket {name} keeps versions, so each deleted checkpoint stays {days} and is "
                "billed: {bill}",
                "Switch versions off: {command}",
            ),
            CLASS: Case(
                WARN,
                "bucket {name} stores checkpoints as {value}, which bills at least 30 days of "
                "each, and each read",
                "Use Standard for new objects: {command}",
            ),
            EATS: Case(
                FAIL,
                "a lifecycle rule of bucket {name} deletes checkpoints, the newest too: {value}",
                "Leave this rule out: {command}",
            ),
            NO_ABORT: Case(
                WARN,
                "bucket {name} keeps and bills the parts of uploads that never ended",
                "Delete them after 7 days: {command}",
            ),
        },
        ("buckets",),
    ),
)

WORKER_CHECKS: tuple[Check, ...] = (
    Check(
        "state",
        WORKER,
        "the node in the API: state, health, maintenance, runtime version",
        _state,
        {
            "unusable": Case(FAIL, "{reason}", "Run: tpu-fleet repair"),
            "maintenance": Case(
                WARN,
                "maintenance is planned: {when}",
                "Let runs save checkpoints; they restart by themselves.",
            ),
            "runtime": Case(
                FAIL,
                "runtime version {runtime} has no driver for {type}: programs end with "
                "'Failed to get global TPU topology'",
                "Set runtime_version: {right} (or leave it out), and create the slice again.",
            ),
        },
    ),
    Check(
        "ssh",
        WORKER,
        "a login with ssh, as Ansible does it",
        _ssh,
        {
            "refused": Case(FAIL, "{address} refuses: no sshd listens there", _WATCH),
            "timeout": Case(
                FAIL,
                "{address} does not answer: it is down, or a firewall is in between",
                "Run: tpu-fleet project setup --only firewall; then tpu-fleet repair",
            ),
            "no_route": Case(
                FAIL,
                "there is no route to {address}",
                "Check your network and VPN; then run: tpu-fleet project setup --only firewall",
            ),
            "unresolved": Case(
                FAIL,
                "the name {address} cannot be resolved",
                "Run: tpu-fleet apply --only slices; it writes the names again.",
            ),
            "denied": Case(
                FAIL,
                "{user}@{address} does not accept the key {key}",
                "Check fleet_ssh_user and fleet_ssh_private_key_file; "
                "tpu-fleet apply --only slices adds the key",
            ),
            "closed": Case(FAIL, "{address} closes the connection: {said}", _WATCH),
            "key_unusable": Case(
                FAIL, "ssh cannot use the key {key}: {said}", "Run: chmod 600 {key}"
            ),
            "other": Case(FAIL, "ssh to {address}: {said}", "Try by hand: ssh -v {address}"),
        },
    ),
    Check(
        "host_keys",
        WORKER,
        "whether the host key is the one that the machine published through the API",
        _host_keys,
        {
            "host_key_changed": Case(
                FAIL,
                "{address} has another host key than the machine published: it is another machine",
                "Update the addresses: tpu-fleet apply --only slices. If it stays, "
                "do not log in: delete slice {slice} and create it again.",
            ),
            "host_key_unknown": Case(
                FAIL,
                "{address} has a host key that was not published",
                "Update the keys: tpu-fleet apply --only slices",
            ),
            "not_published": Case(
                WARN,
                "the machine has not published its host keys yet",
                "It does so within a minute after its boot; if not, restart slice {slice}.",
            ),
        },
    ),
)
