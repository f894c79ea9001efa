"""What errors of Compute Engine mean."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind"),
    [
        (409, "alreadyExists", "The resource 'x' already exists", "exists"),
        (409, "conflict", "", "busy"),
        (404, "notFound", "The resource 'x' was not found", "not_found"),
        (412, "conditionNotMet", "Supplied fingerprint does not match", "bad_request"),
        (400, "resourceInUseByAnotherResource", "is already being used by", "bad_request"),
        (400, "resourceNotReady", "The resource 'x' is not ready", "busy"),
        (403, "forbidden", "Required 'compute.disks.create' permission for 'x'", "permission"),
        (403, "quotaExceeded", "Quota 'SSD_TOTAL_GB' exceeded. Limit: 500.0 in region r.", "quota"),
        (403, "rateLimitExceeded", "Rate Limit Exceeded", "rate_limit"),
    ],
)
def test_errors_of_compute(status: int, reason: str, message: str, kind: str) -> None:
    error = {"code": status, "message": message, "errors": [{"reason": reason, "domain": "global"}]}
    assert _errors.from_response(status, {"error": error}).kind == kind
