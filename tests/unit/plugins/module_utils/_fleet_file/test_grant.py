from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    Grant,
    Holding,
    Place,
    allocation_problems,
    chips_of,
    end_of,
    generation_of,
    holdings_of,
    parse_allocations,
    type_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource

US, EU = "us-central2-b", "europe-west4-a"
NOW = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
V4: dict[str, Any] = {"zone": US, "generation": "v4", "tier": "on_demand", "chips": 32}
V3: dict[str, Any] = {"zone": EU, "accelerator_type": "v3-8", "tier": "on_demand", "count": 5}
ANY_V3 = {"zone": EU, "generation": "v3", "tier": "on_demand", "chips": 16}


def at(kind: str, zone: str = US) -> Place:
    return Place(zone, kind, "tpu")


def held(kind: str, what: str, zone: str = US, tier: str = "on_demand") -> Holding:
    return Holding.at(at(kind, zone), tier, what)


@pytest.mark.parametrize(
    ("name", "chips", "generation"),
    [
        ("v2-8", 4, "v2"),
        ("v3-32", 16, "v3"),
        ("v4-8", 4, "v4"),
        ("v4-64", 32, "v4"),
        ("v4-24", 12, "v4"),
        ("v5litepod-1", 1, "v5e"),
        ("v5litepod-16", 16, "v5e"),
        ("v5p-8", 4, "v5p"),
        ("v6e-64", 64, "v6e"),
        ("v7x-16", 8, "tpu7x"),
        ("v5e-8", None, None),
        ("tpu7x-8", None, None),
        ("v4", None, None),
        ("v4-0", None, None),
        ("", None, None),
    ],
)
def test_chips_are_not_cores(name: str, chips: int | None, generation: str | None) -> None:
    assert chips_of(name) == chips
    assert generation_of(name) == generation


@pytest.mark.parametrize(
    ("raw", "asked", "there", "refusal"),
    [
        ("unrestricted", (at("v4-4096"), "on_demand"), [], None),
        (None, (at("v4-8"), "on_demand"), [], "write fleet_allocations: unrestricted"),
        ([], (at("v4-8"), "on_demand"), [], "v4-8 on demand in us-central2-b: it holds nothing"),
        ([V4], (at("v4-64"), "on_demand"), [], None),
        ([V4], (at("v4-64"), "guaranteed"), [], None),
        (
            [V4],
            (at("v4-128"), "on_demand"),
            [],
            "the grant holds 32 v4 chips on demand in us-central2-b; none are in use; "
            "v4-128 needs 64",
        ),
        ([V4], (at("v4-8"), "spot"), [], "it holds 32 v4 chips on demand in us-central2-b"),
        ([V4], (at("v4-8"), "reserved"), [], "does not hold v4-8 reserved"),
        ([V4], (at("v4-8", EU), "on_demand"), [], "does not hold v4-8 on demand in europe-west4-a"),
        ([V4], (at("v5litepod-8"), "on_demand"), [], "does not hold v5litepod-8"),
        ([V4], (at("v9-8"), "on_demand"), [], "does not hold v9-8"),
        (
            [V4],
            (at("v4-16"), "on_demand"),
            [held("v4-32", "node a (READY)"), held("v4-24", "queued resource b (WAITING)")],
            "the grant holds 32 v4 chips on demand in us-central2-b; 28 are in use (node a (READY):"
            " 16, queued resource b (WAITING): 12); v4-16 needs 8 more",
        ),
        (
            [V4],
            (at("v4-8"), "on_demand"),
            [held("v4-32", "a"), held("v4-24", "b")],
            None,
        ),
        # Another tier, zone or generation uses nothing of it.
        (
            [V4],
            (at("v4-64"), "on_demand"),
            [held("v4-64", "a", tier="spot"), held("v4-64", "b", EU), held("v3-64", "c")],
            None,
        ),
        # The tiers that may be taken away count as spot, in the grant as well.
        (
            [{**V4, "tier": "best_effort"}],
            (at("v4-8"), "flex_start"),
            [held("v4-64", "a", tier="best_effort")],
            "32 v4 chips as spot in us-central2-b; 32 are in use (a: 32)",
        ),
        # Five v3-8 and no other size.
        ([V3], (at("v3-32", EU), "on_demand"), [], "it holds 20 chips for v3-8 on demand"),
        ([V3], (at("v3-8", EU), "on_demand"), [held("v3-8", str(i), EU) for i in range(4)], None),
        (
            [V3],
            (at("v3-8", EU), "on_demand"),
            [held("v3-8", str(i), EU) for i in range(5)],
            "20 chips for v3-8 on demand in europe-west4-a; 20 are in use",
        ),
        # First the type's own entry, then the generation's.
        (
            [ANY_V3, V3],
            (at("v3-32", EU), "on_demand"),
            [held("v3-8", str(i), EU) for i in range(5)],
            None,
        ),
        (
            [ANY_V3, V3],
            (at("v3-32", EU), "on_demand"),
            [held("v3-8", str(i), EU) for i in range(6)],
            "16 v3 chips on demand in europe-west4-a; 4 are in use (5: 4); v3-32 needs 16 more",
        ),
        (
            [ANY_V3, V3],
            (at("v3-8", EU), "on_demand"),
            [held("v3-32", "big", EU), *(held("v3-8", str(i), EU) for i in range(4))],
            None,
        ),
        # What others hold outside of the grant takes nothing of a type's own entry.
        ([ANY_V3, V3], (at("v3-8", EU), "on_demand"), [held("v3-2048", "huge", EU)], None),
        # An entry that is over holds nothing.
        (
            [{**V4, "ends": "2026-05-31"}],
            (at("v4-8"), "on_demand"),
            [],
            "the grant for v4-8 on demand in us-central2-b is over: fleet_allocations[0], "
            "32 v4 chips on demand in us-central2-b, until 2026-05-31",
        ),
        ([{**V4, "ends": "2026-06-01"}], (at("v4-8"), "on_demand"), [], None),
        (
            [{**V4, "ends": "2026-05-31"}, {**V4, "ends": "2026-07-01"}],
            (at("v4-64"), "on_demand"),
            [held("v4-8", "a")],
            "the grant holds 32 v4 chips on demand in us-central2-b; 4 are in use",
        ),
        ([V4, {**V4, "ends": "2026-07-01"}], (at("v4-128"), "on_demand"), [], None),
    ],
)
def test_what_leaves_the_grant(
    raw: Any, asked: tuple[str, str, str], there: list[Holding], refusal: str | None
) -> None:
    found = parse_allocations(raw).refusal(*asked, there, NOW)
    if refusal is None:
        assert found is None
    else:
        assert refusal in (found or "it was allowed")


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("2026-12-31", datetime(2027, 1, 1, tzinfo=timezone.utc)),
        (date(2026, 12, 31), datetime(2027, 1, 1, tzinfo=timezone.utc)),
        (" 2024-02-28 ", datetime(2024, 2, 29, tzinfo=timezone.utc)),
        ("2026-12-31T12:00:00Z", datetime(2026, 12, 31, 12, tzinfo=timezone.utc)),
        ("2026-12-31T12:00:00+02:00", datetime(2026, 12, 31, 10, tzinfo=timezone.utc)),
        (datetime(2026, 12, 31, 12), datetime(2026, 12, 31, 12, tzinfo=timezone.utc)),
        ("2026-02-30", None),
        ("soon", None),
        (20261231, None),
    ],
)
def test_an_end_is_the_end_of_its_day_in_utc(value: Any, end: datetime | None) -> None:
    assert end_of(value) == end


@pytest.mark.parametrize(
    ("ends", "last", "ended"),
    [
        (["2026-05-31"], "2026-06-01T00:00:00+00:00", True),
        (["2026-05-31", "2026-06-01"], "2026-06-02T00:00:00+00:00", False),
        (["2026-05-31", None], None, False),
        ([None], None, False),
        ([], None, False),
    ],
)
def test_when_the_grant_ends(ends: list[str | None], last: str | None, ended: bool) -> None:
    grant = parse_allocations([{**V4, "ends": end} for end in ends])
    end = grant.ends_at(at("v4-8"), "on_demand")
    assert (end.isoformat() if end else None) == last
    assert grant.ended(at("v4-8"), "on_demand", NOW) is ended
    assert not grant.ended(at("v4-8"), "spot", NOW)


def test_it_ends_with_the_last_second_of_the_day() -> None:
    grant = parse_allocations([{**V4, "ends": "2026-05-31"}])
    midnight = datetime(2026, 6, 1, tzinfo=timezone.utc)
    assert not grant.ended(at("v4-8"), "on_demand", midnight - timedelta(microseconds=1))
    assert grant.ended(at("v4-8"), "on_demand", midnight)


@pytest.mark.parametrize(
    ("raw", "there", "expected"),
    [
        ([{**V4, "ends": "2026-06-09"}], [], []),
        (
            [{**V4, "ends": "2026-06-07"}],
            [held("v4-32", "node a")],
            [
                "fleet_allocations[0]: 32 v4 chips on demand in us-central2-b, until 2026-06-07, "
                "in 6 days; 16 of them are in use"
            ],
        ),
        ([{**V4, "ends": "2026-06-02"}], [], ["in 36 hours; none of them are in use"]),
        (
            [V4],
            [held("v4-32", "node a"), held("v4-64", "node b"), held("v4-8", "c", tier="spot")],
            [
                "node b: 16 of its 32 chips (v4-64 on demand in us-central2-b) are outside of the "
                "grant and cost money",
                "c: 4 of its 4 chips (v4-8 as spot in us-central2-b)",
            ],
        ),
        ([{**V4, "ends": "2026-05-01"}], [held("v4-8", "node a")], ["node a: 4 of its 4"]),
        ("unrestricted", [held("v4-8", "node a")], []),
        (None, [held("v4-8", "node a")], []),
    ],
)
def test_warnings(raw: Any, there: list[Holding], expected: list[str]) -> None:
    lines = parse_allocations(raw).warnings(there, NOW, 7 * 86400, "managed")
    assert len(lines) == len(expected), lines
    for line, words in zip(lines, expected, strict=True):
        assert words in line


def test_slices_of_another_fleet_are_no_warning_of_this_one() -> None:
    """They use the grant up, too; whether theirs holds them, their own fleet file says."""
    there = [
        Holding.at(at("v4-64"), "on_demand", "node bob", "bob"),
        Holding.at(at("v4-8"), "on_demand", "node mine", "managed"),
        Holding.at(at("v3-8", EU), "on_demand", "node else", "bob"),
        Holding.at(at("v3-8", EU), "on_demand", "node by hand"),
    ]
    lines = parse_allocations([V4]).warnings(there, NOW, 7 * 86400, "managed")
    assert [line.partition(":")[0] for line in lines] == ["node mine", "node by hand"]


def test_slices_are_added_up_whatever_the_day() -> None:
    grant = parse_allocations([{**V4, "ends": "2020-01-01"}])
    assert grant.misfit(at("v4-32"), "on_demand", [held("v4-32", "a")]) is None
    assert grant.misfit(at("v4-64"), "on_demand", [held("v4-32", "a")]) == (
        "the grant holds 32 v4 chips on demand in us-central2-b; 16 are for other slices (a: 16); "
        "v4-64 needs 32 more"
    )


def test_what_ends_first_is_used_last() -> None:
    grant = parse_allocations([{**V4, "ends": "2026-06-03"}, {**V4, "ends": "2026-09-01"}, V4])
    there = [held("v4-64", "a"), held("v4-32", "b")]
    assert list(grant.used(there, NOW).values()) == [0, 16, 32]


@pytest.mark.parametrize(
    ("entry", "field", "words"),
    [
        ({**V4, "generation": None}, "", "has neither generation nor accelerator_type"),
        ({**V4, "accelerator_type": "v4-8"}, "", "has both generation and accelerator_type"),
        ({**V4, "generation": "v5"}, ".generation", "Did you mean v5"),
        ({**V4, "generation": "v4-8"}, ".generation", "Did you mean v4"),
        ({**V3, "accelerator_type": "v3_8"}, ".accelerator_type", "Did you mean v3-8"),
        ({**V4, "count": 4}, "", "has both chips and count"),
        ({**V4, "chips": None}, "", "has neither chips nor count"),
        ({**V4, "chips": None, "count": 4}, ".count", "counts nothing"),
        ({**V4, "chips": 0}, ".chips", "is less than one"),
        ({**V4, "chips": True}, ".chips", "a whole number"),
        ({**V4, "chips": "32"}, ".chips", "a whole number"),
        ({**V4, "zone": "us-central2"}, ".zone", "is a region, not a zone"),
        ({**V4, "zone": None}, ".zone", "is missing"),
        ({**V4, "tier": "on-demand"}, ".tier", "Did you mean on_demand"),
        ({**V4, "tier": None}, ".tier", "is missing"),
        ({**V4, "ends": "31.12.2026"}, ".ends", "is not a date. Write the last day, as 2026-12-31"),
        ({**V4, "end": "2026-12-31"}, ".end", "Did you mean ends"),
    ],
)
def test_what_is_wrong_with_an_entry(entry: dict[str, Any], field: str, words: str) -> None:
    (problem,) = allocation_problems([entry])
    assert problem.field == f"fleet_allocations[0]{field}"
    assert words in str(problem)
    with pytest.raises(BadRequest, match="fleet_allocations"):
        parse_allocations([entry])


@pytest.mark.parametrize("raw", ["unlimited", {"a": 1}, 3])
def test_what_is_no_list(raw: Any) -> None:
    (problem,) = allocation_problems(raw)
    assert "or as unrestricted" in problem.remedy
    with pytest.raises(BadRequest):
        parse_allocations(raw)


def node(name: str, kind: str = "v4-8", **fields: Any) -> dict[str, Any]:
    path = f"projects/123/locations/{US}/nodes/{name}"
    return {"name": path, "acceleratorType": kind, "state": "READY", **fields}


def request(name: str, state: str, *nodes: str, **fields: Any) -> QueuedResource:
    parent = f"projects/p/locations/{US}"
    specs = [
        {"parent": parent, "nodeId": each, "node": {"acceleratorType": "v4-16"}} for each in nodes
    ]
    path = f"{parent}/queuedResources/{name}"
    return QueuedResource.from_api(
        {"name": path, "state": {"state": state}, "tpu": {"nodeSpec": specs}, **fields}
    )


def test_what_exists_and_what_waits_is_held() -> None:
    nodes = [
        Node.from_api(raw)
        for raw in (
            node("a"),
            node("lost", state="PREEMPTED", schedulingConfig={"preemptible": True}),
            node("going", state="DELETING"),
            node("made", "v4-16", queuedResource=f"projects/p/locations/{US}/queuedResources/q"),
            node("odd", "v9-8"),
        )
    ]
    queued = [
        request("q", "ACTIVE", "made", "not-yet", bestEffort={}),
        request("w", "WAITING_FOR_RESOURCES", "w0", spot={}),
        request("s", "SUSPENDED", "s0"),
        request("f", "FAILED", "f0"),
        request("d", "DELETING", "d0"),
    ]
    found = [(h.what, h.tier, h.chips) for h in holdings_of(nodes, queued)]
    assert found == [
        ("node a (READY)", "on_demand", 4),
        ("node lost (PREEMPTED)", "preemptible", 4),
        ("node going (DELETING)", "on_demand", 4),
        ("node made (READY)", "best_effort", 8),
        ("node odd (READY)", "on_demand", 0),
        ("queued resource q (ACTIVE)", "best_effort", 8),
        ("queued resource w (WAITING_FOR_RESOURCES)", "spot", 8),
        ("queued resource d (DELETING)", "on_demand", 8),
    ]


def test_a_group_that_failed_goes_on_to_wait_and_is_held() -> None:
    failed = replace(request("f", "FAILED", "f0"), api="compute")
    assert [held.chips for held in holdings_of([], [failed])] == [8]


def test_which_entries_end_between_two_moments() -> None:
    entry = {"zone": US, "generation": "v4", "tier": "on_demand", "chips": 8}
    grant = Grant.read([entry, {**entry, "ends": "2026-11-21T12:00:00Z"}])
    noon = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    before, later = noon - timedelta(seconds=1), noon + timedelta(hours=1)
    assert grant.ends_between(at("v4-8"), "on_demand", before, noon)
    assert not grant.ends_between(at("v4-8"), "on_demand", noon, later)
    assert not grant.ends_between(at("v4-8"), "spot", before, later)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"acceleratorConfig": {"type": "V4", "topology": "2x2x2"}}, "v4-16"),
        ({"acceleratorConfig": {"type": "V5LITE_POD", "topology": "4x4"}}, "v5litepod-16"),
        ({"acceleratorConfig": {"type": "V9", "topology": "4x4"}}, ""),
        ({"acceleratorConfig": {"type": "V4", "topology": "big"}}, ""),
        ({}, ""),
        ({"acceleratorType": "projects/p/locations/z/acceleratorTypes/v4-8"}, "v4-8"),
    ],
)
def test_a_type_without_a_name_is_made_from_its_shape(fields: dict[str, Any], kind: str) -> None:
    assert type_of(Node.from_api(fields)) == kind
