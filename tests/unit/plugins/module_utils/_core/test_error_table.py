"""The table of errors: each row is what its samples are taken for, and every error has a row."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator

import pytest
from ansible_collections.tpu.fleet.plugins import module_utils
from ansible_collections.tpu.fleet.plugins.module_utils._core import error_table as _error_table
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_row import (
    BLANKS,
    Reaction,
    Row,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_table import ROWS
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import row_of
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import (
    QueuedResource,
    failure_of,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._core.error_samples import (
    SAMPLES,
    Sample,
)

QUEUED_NAME = "projects/my-project/locations/us-central2-b/queuedResources/big"
SHOWN = [
    pytest.param(row, sample, id=f"{row.key}-{index}")
    for row in ROWS
    for index, sample in enumerate(SAMPLES.get(row.key, ()))
]


def family(cls: type[_errors.TpuError]) -> Iterator[type[_errors.TpuError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from family(child)


def every_class() -> list[type[_errors.TpuError]]:
    """Every error class of the collection, wherever it is defined."""
    for module in pkgutil.walk_packages(module_utils.__path__, f"{module_utils.__name__}."):
        # The apply agent is a program of its own, whose files import each other as such.
        if "._apply_agent" not in module.name:
            importlib.import_module(module.name)
    return [cls for cls in family(_errors.TpuError) if cls.__module__.startswith("ansible_")]


CLASS_OF = {cls.kind: cls for cls in family(_errors.TpuError)}


def shown(row: Row, sample: Sample) -> _errors.TpuError:
    """Make the error in the way in which it comes about in real life."""
    if sample.queued:
        raw = {"name": QUEUED_NAME, "state": dict(sample.queued)}
        return failure_of(QueuedResource.from_api(raw))
    if sample.http is not None:
        body = sample.body if isinstance(sample.body, str) else json.dumps(sample.body)
        return _errors.from_response(sample.http, body.encode(), {})
    if sample.code is not None:
        return _errors.from_status(sample.rpc_status)
    if row.kind == "timeout":
        return _errors.WaitTimeout("node big in us-central2-b to be READY", "CREATING", 1800.0)
    return CLASS_OF[row.kind](sample.text)


@pytest.mark.parametrize(("row", "sample"), SHOWN)
def test_a_sample_is_taken_for_its_row(row: Row, sample: Sample) -> None:
    error = shown(row, sample)
    assert row_of(error) is row
    assert error.kind == row.kind
    assert error.__class__ is CLASS_OF[row.kind]
    assert getattr(error, "flavour", "") in (row.flavour, "")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_remedy_comes_from_the_table(row: Row) -> None:
    """With the blanks filled in from the answer; there is no second copy anywhere."""
    pattern = re.escape(row.remedy)
    for blank in BLANKS:
        pattern = pattern.replace(re.escape("{" + blank + "}"), r"\S+")
    assert re.search(pattern, shown(row, SAMPLES[row.key][0]).remedy)


def test_every_class_has_a_row() -> None:
    classes = every_class()
    assert _errors.NodeLost in classes
    for cls in classes:
        assert any(row.kind == cls.kind for row in ROWS), cls


@pytest.mark.parametrize("name", ["key", "short"])
def test_rows_can_be_told_apart(name: str) -> None:
    values = [getattr(row, name) for row in ROWS]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_row_is_complete(row: Row) -> None:
    assert SAMPLES[row.key]
    for text in (row.means, row.does, row.remedy):
        assert text[0].isupper()
        assert "\n" not in text
    assert row.short[0].islower() or row.short.startswith("API")
    row.remedy.format_map(BLANKS)


def test_kind_alone_gives_a_row() -> None:
    """An error that code raises itself has the row of its kind, and its remedy."""
    error = _errors.StockOut("Nothing there.")
    assert row_of(error).key == "stock_out"
    assert error.remedy == row_of(error).remedy


def test_subclass_of_elsewhere_has_the_row_of_its_parent() -> None:
    class Leased(_errors.Refused):
        kind = "leased"

    assert row_of(Leased("held by another")).key == "refused"
    assert row_of(_errors.PermissionDenied("no", flavour="iam")).key == "iam"
    assert row_of(_errors.PermissionDenied("no", flavour="unheard of")).key == "permission"
    assert row_of(_errors.QuotaExceeded("no", limit=0)).key == "quota_zero"
    assert row_of(_errors.QuotaExceeded("no", limit=4)).key == "quota"


REACTIONS = {
    "stock_out": Reaction.NEXT_PLACE,
    "reserved_capacity": Reaction.NEXT_PLACE,
    "quota": Reaction.HOLD,
    "quota_zero": Reaction.NEVER_HERE,
    "queue": Reaction.NEVER_HERE,
    "location": Reaction.NEVER_HERE,
    "type_not_in_zone": Reaction.NEVER_HERE,
    "zone_not_supported": Reaction.NEVER_HERE,
    "runtime_not_in_zone": Reaction.NEVER_HERE,
    "reservation_missing": Reaction.NEVER_HERE,
    "flex_start": Reaction.NEVER_HERE,
    "machine_type_not_in_zone": Reaction.NEVER_HERE,
    "user_agent": Reaction.NEVER_HERE,
    "name_taken": Reaction.NEVER_HERE,
    "organization_policy": Reaction.STOP,
    "outdated": Reaction.LOOK,
    "rate_limit": Reaction.WAIT,
    "busy": Reaction.WAIT,
    "internal_error": Reaction.WAIT,
    "service_unavailable": Reaction.LOOK,
    "bad_gateway": Reaction.LOOK,
    "unavailable": Reaction.LOOK,
    "exists": Reaction.LOOK,
    "credentials": Reaction.STOP,
    "api_disabled": Reaction.STOP,
    "billing": Reaction.STOP,
    "iam": Reaction.STOP,
    "project": Reaction.STOP,
}


@pytest.mark.parametrize(("key", "reaction"), REACTIONS.items())
def test_reaction(key: str, reaction: Reaction) -> None:
    assert _error_table.row_named(key).reaction is reaction


@pytest.mark.parametrize("code", [*range(-1, 20), 99])
def test_any_code_has_a_row(code: int) -> None:
    error = _errors.from_status({"code": code, "message": "something new"})
    assert row_of(error).kind == error.kind
    assert _errors.from_status({"code": code}).message


def test_samples_are_of_rows() -> None:
    assert set(SAMPLES) == {row.key for row in ROWS}
