# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations of Compute Engine, as those of the Cloud TPU API; their errors as a status. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._core.error_row import (
    ABORTED,
    ALREADY_EXISTS,
    CANCELLED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    UNKNOWN,
)
from .._tpu.model import Operation, basename, part_of

# By a word of an error's code.
_BY_WORD = {
    "POOL_EXHAUSTED": RESOURCE_EXHAUSTED,
    "QUOTA_EXCEEDED": RESOURCE_EXHAUSTED,
    "RATE_LIMIT_EXCEEDED": RESOURCE_EXHAUSTED,
    "INTERNAL_ERROR": INTERNAL,
    "ALREADY_EXISTS": ALREADY_EXISTS,
    "NOT_FOUND": NOT_FOUND,
    "NOT_READY": ABORTED,
    "IN_USE": FAILED_PRECONDITION,
    "CONDITION_NOT_MET": FAILED_PRECONDITION,
    "PERMISSIONS_ERROR": PERMISSION_DENIED,
    "FORBIDDEN": PERMISSION_DENIED,
    "CANCEL": CANCELLED,
}
_BY_HTTP = {
    400: INVALID_ARGUMENT,
    403: PERMISSION_DENIED,
    404: NOT_FOUND,
    409: ABORTED,
    412: FAILED_PRECONDITION,
    429: RESOURCE_EXHAUSTED,
    500: INTERNAL,
    503: UNAVAILABLE,
}
_VERBS = {"insert": "create", "delete": "delete", "start": "start", "stop": "stop"}
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def operation_of(raw: Mapping[str, Any], project: str) -> Operation:
    """Return an operation; its target is the node that the instance or group is."""
    link = str(raw.get("targetLink") or "")
    zone = part_of(link, "zones") or basename(str(raw.get("zone") or ""))
    kind = str(raw.get("operationType") or "").rpartition(".")[2]
    errors = (raw.get("error") or {}).get("errors") or []
    return Operation(
        name=str(raw.get("name") or ""),
        done=raw.get("status") == "DONE",
        target=f"projects/{project}/locations/{zone}/nodes/{basename(link)}",
        verb=_VERBS.get(kind, kind),
        create_time=str(raw.get("insertTime") or raw.get("startTime") or ""),
        end_time=str(raw.get("endTime") or ""),
        error=status_of(errors, raw.get("httpErrorStatusCode")),
        raw=dict(raw),
    )


def status_of(errors: Sequence[Mapping[str, Any]], http: Any = None) -> dict[str, Any]:
    """Return errors as a google.rpc.Status, empty if there are none; the first decides."""
    if not errors:
        return {}
    texts = [str(item.get("message") or item.get("code") or "") for item in errors]
    status: dict[str, Any] = {
        "code": _code(str(errors[0].get("code") or ""), http),
        "message": "; ".join(dict.fromkeys(text for text in texts if text)),
    }
    details = [_info(detail) for item in errors for detail in item.get("errorDetails") or []]
    found = [detail for detail in details if detail]
    return {**status, "details": found} if found else status


def _code(word: str, http: Any) -> int:
    said = "".join(f"_{letter}" if letter.isupper() else letter for letter in word)
    upper = word if word.isupper() else said.upper()
    for part, code in _BY_WORD.items():
        if part in upper:
            return code
    return _BY_HTTP.get(http, UNKNOWN) if isinstance(http, int) else UNKNOWN


def _info(detail: Mapping[str, Any]) -> dict[str, Any]:
    info = detail.get("errorInfo")
    if not isinstance(info, Mapping):
        return {}
    return {
        "@type": ERROR_INFO,
        "reason": str(info.get("reason") or ""),
        "domain": str(info.get("domain") or ""),
        "metadata": dict(info.get("metadatas") or {}),
    }
