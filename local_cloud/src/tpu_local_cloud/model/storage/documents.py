"""What the JSON API shows of buckets and objects, and which of it requests may set."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from ...compute_errors import ComputeError, as_compute
from ...errors import ApiError, not_emulated
from ..shared.clock import seconds_of, timestamp
from .contents import Checksums
from .index import Document

_DEFAULT_KIND = "application/octet-stream"
# What uploads and changes may set of an object.
OF_OBJECT = (
    *("cacheControl", "contentDisposition", "contentEncoding", "contentLanguage", "contentType"),
    *("customTime", "eventBasedHold", "metadata", "temporaryHold"),
)
# The same of a bucket.
OF_BUCKET = (
    *("autoclass", "billing", "cors", "defaultEventBasedHold", "iamConfiguration", "labels"),
    *("lifecycle", "logging", "retentionPolicy", "rpo", "softDeletePolicy", "storageClass"),
    *("versioning", "website"),
)
# What Google has and the local cloud would only pretend to have.
_NOT_HERE = ("customPlacementConfig", "encryption", "ipFilter", "objectRetention")
_CLASSES = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE")
DAY = 86400
# Seconds for which a bucket keeps what is deleted, if its creator says nothing.
SOFT_DELETE = 7 * DAY


def moment(now: float) -> str:
    """Return a time with three digits, because gcloud warns about more."""
    return timestamp(now)[:23] + "Z"


def etag(*numbers: object) -> str:
    """Return the etag of something by its generations."""
    return base64.b64encode("/".join(map(str, numbers)).encode()).decode()


# Buckets --------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Raise for what is no name of a bucket."""
    plain = re.fullmatch(r"[a-z0-9][-_a-z0-9]{1,61}[a-z0-9]", name)
    dotted = re.fullmatch(r"[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]", name)
    parts = all(0 < len(part) <= 63 for part in name.split("."))
    if not (plain or (dotted and parts)) or name.startswith("goog"):
        raise ComputeError(400, "invalid", f"Invalid bucket name: '{name}'")


def new_bucket(wanted: Mapping[str, Any], now: float, number: str) -> Document:
    """Return the document of a new bucket; raise for values that it cannot have."""
    name, location = str(wanted.get("name", "")), str(wanted.get("location") or "US").upper()
    check_name(name)
    soft = {"retentionDurationSeconds": str(SOFT_DELETE)}
    public = {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "inherited"}
    document = {
        "kind": "storage#bucket",
        "id": name,
        "name": name,
        "projectNumber": number,
        "location": location,
        "locationType": _location_type(location),
        "storageClass": "STANDARD",
        "timeCreated": moment(now),
        "softDeletePolicy": {**soft, "effectiveTime": moment(now)},
        "iamConfiguration": public,
        "metageneration": "0",
    }
    return changed_bucket(document, wanted, now)


def _location_type(location: str) -> str:
    if location in ("US", "EU", "ASIA"):
        return "multi-region"
    return "dual-region" if re.fullmatch(r"[A-Z]+\d", location) else "region"


def changed_bucket(
    document: Document, wanted: Mapping[str, Any], now: float, replace: bool = False
) -> Document:
    """Return a bucket with changed values; replace: without those that are not among them."""
    _check_bucket(wanted)
    kept = ("iamConfiguration", "softDeletePolicy", "storageClass")
    gone = set(OF_BUCKET) - set(kept) if replace else set()
    changed = {key: value for key, value in document.items() if key not in gone}
    for key in OF_BUCKET:
        if key in wanted:
            _set(changed, key, wanted[key])
    if "softDeletePolicy" in wanted:
        changed["softDeletePolicy"] |= {"effectiveTime": moment(now)}
    changed["metageneration"] = str(int(document["metageneration"]) + 1)
    return {**changed, "etag": etag(changed["metageneration"]), "updated": moment(now)}


def _set(document: Document, key: str, value: Any) -> None:
    """Set a value as PATCH does: fields of an object one by one, null deletes."""
    before = document.get(key)
    if value is None:
        document.pop(key, None)
    elif isinstance(value, dict) and isinstance(before, dict) and key != "lifecycle":
        merged = {**before, **value}
        document[key] = {name: item for name, item in merged.items() if item is not None}
    else:
        document[key] = value
    if key == "softDeletePolicy":
        seconds = str((value or {}).get("retentionDurationSeconds", 0))
        document[key] = {"retentionDurationSeconds": seconds}


def _check_bucket(wanted: Mapping[str, Any]) -> None:
    for key in _NOT_HERE:
        if wanted.get(key):
            raise not_here(f"{key} of buckets")
    if (wanted.get("hierarchicalNamespace") or {}).get("enabled"):
        raise not_here("hierarchical namespace of buckets")
    _check_soft_delete((wanted.get("softDeletePolicy") or {}).get("retentionDurationSeconds", 0))
    check_class(wanted.get("storageClass"))


def _check_soft_delete(seconds: Any) -> None:
    try:
        valid = int(seconds) == 0 or 7 * DAY <= int(seconds) <= 90 * DAY
    except (TypeError, ValueError):
        valid = False
    if not valid:
        text = (
            f"Invalid softDeletePolicy.retentionDurationSeconds '{seconds}': it must be 0, or "
            f"between {7 * DAY} (7 days) and {90 * DAY} (90 days)."
        )
        raise ComputeError(400, "invalid", text)


def check_class(given: Any) -> None:
    """Raise for what is no storage class."""
    if given is not None and given not in _CLASSES:
        text = f"Invalid storageClass '{given}'. It is one of {', '.join(_CLASSES)}."
        raise ComputeError(400, "invalid", text)


def not_here(what: str) -> ApiError:
    """Google has it, the local cloud does not."""
    return as_compute(not_emulated(what))


# Objects --------------------------------------------------------------------------------------


def check_object_name(name: str) -> None:
    """Raise for what is no name of an object."""
    if not name:
        raise ComputeError(400, "required", "Required")
    if len(name.encode(errors="replace")) > 1024 or "\n" in name or "\r" in name:
        text = f"Invalid object name: {name[:100]!a} has a line break, or more than 1024 bytes."
        raise ComputeError(400, "invalid", text)
    if name in (".", "..") or name.startswith(".well-known/acme-challenge/"):
        raise ComputeError(400, "invalid", f"Invalid object name: '{name}'")


def new_object(
    bucket: Document, name: str, generation: int, about: Mapping[str, Any], now: float
) -> Document:
    """Return the document of a new object without what its content says."""
    made, own = moment(now), {key: about[key] for key in OF_OBJECT if about.get(key)}
    check_time(about)
    check_class(about.get("storageClass"))
    return {
        "kind": "storage#object",
        "id": f"{bucket['name']}/{name}/{generation}",
        "name": name,
        "bucket": bucket["name"],
        "generation": str(generation),
        "metageneration": "1",
        "contentType": _DEFAULT_KIND,
        **own,
        "storageClass": about.get("storageClass") or bucket["storageClass"],
        "etag": etag(generation, 1),
        "timeCreated": made,
        "updated": made,
        "timeStorageClassUpdated": made,
        "timeFinalized": made,
    }


def check_time(about: Mapping[str, Any]) -> None:
    """Raise for a custom time that is none."""
    given = about.get("customTime")
    try:
        _ = given is None or seconds_of(str(given))
    except (ValueError, TypeError):
        text = f"Invalid customTime '{given}': write it as 2026-01-31T12:00:00Z."
        raise ComputeError(400, "invalid", text) from None


def of_sums(sums: Checksums) -> Document:
    """Return what an object's document says about its content."""
    return {"size": str(sums.size), "md5Hash": sums.md5, "crc32c": sums.crc32c}


def check_sums(about: Mapping[str, Any], sums: Mapping[str, Any]) -> None:
    """Raise if a content is not the one that was announced."""
    for key, what in (("crc32c", "CRC32C"), ("md5Hash", "MD5 hash")):
        given = about.get(key)
        if given and key in sums and given != sums[key]:
            text = f'Provided {what} "{given}" doesn\'t match calculated {what} "{sums[key]}".'
            raise ComputeError(400, "invalid", text)


def changed_object(
    document: Document, wanted: Mapping[str, Any], now: float, replace: bool = False
) -> Document:
    """Return an object with changed metadata; replace: without what is not among it."""
    gone = set(OF_OBJECT) if replace else set()
    changed = {key: value for key, value in document.items() if key not in gone}
    for key in OF_OBJECT:
        if key in wanted:
            _set(changed, key, wanted[key])
    changed.setdefault("contentType", _DEFAULT_KIND)
    number = str(int(document["metageneration"]) + 1)
    own = {"metageneration": number, "etag": etag(document["generation"], number)}
    return {**changed, **own, "updated": moment(now)}
