"""Whatever the API answers, it does not crash us, and it is an error of the table."""

from __future__ import annotations

from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_table import ROWS
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import row_of
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._core.error_samples import (
    SAMPLES,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = [sample.text for samples in SAMPLES.values() for sample in samples]
WORDS = TEXTS + [f"x{text}" for text in TEXTS]
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGE = st.one_of(st.sampled_from(WORDS), ANYTHING)
TYPE = "type.googleapis.com/google.rpc."
CONSUMER = st.one_of(ANYTHING, st.just("projects/p"))
INFO = st.fixed_dictionaries(
    {"@type": st.just(f"{TYPE}ErrorInfo")},
    optional={
        "reason": st.one_of(ANYTHING, st.sampled_from(["SERVICE_DISABLED", "RATE_LIMIT_EXCEEDED"])),
        "metadata": st.one_of(
            ANYTHING, st.fixed_dictionaries({"consumer": CONSUMER, "service": ANYTHING})
        ),
    },
)
VIOLATIONS = st.fixed_dictionaries({"description": st.one_of(ANYTHING, st.just("x Limit 0 y"))})
QUOTA = st.fixed_dictionaries(
    {"@type": st.just(f"{TYPE}QuotaFailure")},
    optional={"violations": st.one_of(ANYTHING, st.lists(VIOLATIONS, max_size=2))},
)
DELAY = st.one_of(ANYTHING, st.sampled_from(["nans", "infs", "-1s", "1.5s", "s"]))
RETRY = st.fixed_dictionaries({"@type": st.just(f"{TYPE}RetryInfo"), "retryDelay": DELAY})
DETAIL = st.one_of(INFO, QUOTA, RETRY, st.fixed_dictionaries({"@type": ANYTHING}), ANYTHING)
DETAILS = st.one_of(st.lists(DETAIL, min_size=1, max_size=3), ANYTHING)


def check(error: _errors.TpuError) -> None:
    row = row_of(error)
    assert row in ROWS
    assert error.kind == row.kind
    assert error.message
    assert error.remedy
    assert str(error)
    assert error.to_dict()["kind"] == row.kind
    wait = getattr(error, "retry_after", None)
    assert wait is None or wait >= 0


@settings(max_examples=400)
@given(
    http=st.integers(100, 599),
    error=st.fixed_dictionaries(
        {}, optional={"code": ANYTHING, "message": MESSAGE, "status": ANYTHING, "details": DETAILS}
    ),
    headers=st.dictionaries(
        st.sampled_from(["Retry-After", "retry-after", "Date"]), st.text(max_size=30)
    ),
    resource=st.sampled_from([None, "big", "v2/projects/p/locations/z"]),
)
def test_any_answer_has_a_row(
    http: int, error: dict[str, Any], headers: dict[str, str], resource: str | None
) -> None:
    check(_errors.from_response(http, {"error": error}, headers, resource))


@given(http=st.integers(100, 599), body=st.binary(max_size=60))
def test_any_bytes_have_a_row(http: int, body: bytes) -> None:
    check(_errors.from_response(http, body))


@settings(max_examples=400)
@given(code=ANYTHING, message=MESSAGE, details=DETAILS)
def test_any_operation_has_a_row(code: Any, message: Any, details: Any) -> None:
    check(_errors.from_status({"code": code, "message": message, "details": details}))
