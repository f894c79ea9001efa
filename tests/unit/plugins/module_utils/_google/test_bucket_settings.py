from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_settings import (
    CLASS,
    DAY,
    EATS,
    NO_ABORT,
    SOFT_DELETE,
    VERSIONING,
    misfits,
    wanted,
)

RECOMMENDED = {"name": "lab", **wanted()}


def cases(folders: tuple[str, ...] = ("lm/",), **changes: Any) -> list[str]:
    return [one.case for one in misfits({**RECOMMENDED, **changes}, folders)]


def rule(kind: str, **condition: Any) -> dict[str, Any]:
    return {"action": {"type": kind}, "condition": condition}


def test_what_is_recommended_fits() -> None:
    assert cases() == []
    assert cases(folders=()) == []


def test_each_setting_that_costs_is_found_with_its_command() -> None:
    week = {"retentionDurationSeconds": str(7 * DAY)}
    [found] = misfits({**RECOMMENDED, "softDeletePolicy": week})
    assert (found.case, found.days) == (SOFT_DELETE, 7.0)
    assert found.command == "gcloud storage buckets update gs://lab --soft-delete-duration=0"
    [found] = misfits({**RECOMMENDED, "versioning": {"enabled": True}})
    assert (found.case, found.days) == (VERSIONING, float("inf"))
    assert found.command.endswith("--no-versioning")
    [found] = misfits({**RECOMMENDED, "storageClass": "NEARLINE"})
    assert (found.case, found.value) == (CLASS, "NEARLINE")


def test_versions_that_a_rule_deletes_are_billed_until_then() -> None:
    rules = [*RECOMMENDED["lifecycle"]["rule"], rule("Delete", daysSinceNoncurrentTime=3)]
    changes = {"versioning": {"enabled": True}, "lifecycle": {"rule": rules}}
    [found] = misfits({**RECOMMENDED, **changes})
    assert (found.case, found.days) == (VERSIONING, 3.0)


def test_a_new_bucket_without_rules_lacks_the_end_of_uploads() -> None:
    assert cases(lifecycle={}) == [NO_ABORT]
    [found] = misfits({**RECOMMENDED, "lifecycle": None})
    text = found.command.partition("'")[2].partition("'")[0]
    assert json.loads(text)["rule"] == [wanted()["lifecycle"]["rule"][0]]


@pytest.mark.parametrize(
    ("eaten", "condition"),
    [
        (True, {"age": 7}),
        (True, {"age": 7, "matchesPrefix": ["lm/"]}),
        (True, {"age": 7, "matchesPrefix": ["lm/old/"]}),
        (True, {"age": 7, "matchesPrefix": ["l"]}),
        (False, {"age": 7, "matchesPrefix": ["tmp/"]}),
        (False, {"daysSinceNoncurrentTime": 7}),
        (False, {"age": 7, "isLive": False}),
    ],
)
def test_a_rule_that_deletes_checkpoints_is_found(eaten: bool, condition: dict[str, Any]) -> None:
    rules = [wanted()["lifecycle"]["rule"][0], rule("Delete", **condition)]
    assert cases(lifecycle={"rule": rules}) == ([EATS] if eaten else [])
    # Without a run in the bucket, nothing is known of what a rule may delete.
    assert cases(folders=(), lifecycle={"rule": rules}) == []


def test_the_command_against_such_a_rule_keeps_the_others() -> None:
    abort = wanted()["lifecycle"]["rule"][0]
    bucket = {**RECOMMENDED, "lifecycle": {"rule": [abort, rule("Delete", age=7)]}}
    [found] = misfits(bucket, ("lm/",))
    text = found.command.partition("'")[2].partition("'")[0]
    assert json.loads(text) == {"rule": [abort]}
