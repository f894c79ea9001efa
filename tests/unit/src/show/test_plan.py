"""How a plan reads, within 80 columns."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.show.plan import NAMED, as_data, plan_text, something
from tpu_fleet.workers.report import Machine, Report


def change(does: str = "create", name: str = "solo", **more: Any) -> dict[str, Any]:
    return {
        "does": does,
        "slice": name,
        "what": f"node {name}",
        "zone": "us-central2-b",
        "why": "there is none",
        "accelerator_type": "v4-8",
        "tier": "on_demand",
        "chips": 4,
        "hosts": (),
        "fields": (),
        "usd_per_hour": 12.88,
        "usd_per_hour_billed": 0.0,
        "granted_until": None,
        **more,
    }


def planned(*changes: dict[str, Any], **more: Any) -> Report:
    report = Report(**more)
    costs = {"usd_per_hour": 12.88, "usd_per_hour_billed": 0.0}
    phases = [{"name": "pair", "phase": "ready", "text": "v4-16"}]
    report.progress(
        {"event": "plan", "changes": list(changes), "slices": phases, "orphans": [],
         "prunes": False, **costs}
    )  # fmt: skip
    return report


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "+ create solo (v4-8, on demand) in us-central2-b; $12.88/h, the grant pays it"),
        ({"usd_per_hour_billed": 12.88}, "; $12.88/h, billed"),
        ({"usd_per_hour_billed": 6.44}, "$6.44 of it billed, the grant pays the rest"),
        ({"usd_per_hour": None, "usd_per_hour_billed": None}, "; unknown/h, billed"),
        ({"does": "recreate", "why": "it is PREEMPTED"}, "+ recreate solo"),
        ({"does": "delete", "why": "teardown requested"}, "- delete solo"),
        ({"does": "delete"}, "; $12.88/h less"),
        ({"does": "change", "chips": 0, "fields": ("labels",)}, "~ change solo"),
    ],
)
def test_a_slice_is_a_row(more: dict[str, Any], says: str) -> None:
    text = plan_text(planned(change(**more)))
    assert says in " ".join(" ".join(text).split())
    assert max(map(len, text)) <= 80


def test_machines_with_the_same_roles_and_runs_for_the_same_reason_are_one_row() -> None:
    machines = {
        f"pair-w{at}": Machine(f"pair-w{at}", "pair", status="ok", changed=2, roles=("code",))
        for at in range(4)
    }
    runs = [
        {"run": name, "slice": "pair", "does": "restarted", "why": ["code"], "note": ""}
        for name in ("a", "b")
    ]
    text = plan_text(planned(machines=machines, runs=runs))
    assert "set up      pair-w[0-3]: code" in text
    assert "runs        restart a (pair), b (pair): code" in text


def test_the_runs_of_a_new_slice_are_named_and_its_machines_counted_once() -> None:
    report = planned(change(hosts=("solo",)), declared={"solo": ["digits"], "pair": ["other"]})
    report.machines["solo"] = Machine("solo", "solo", changed=3)
    text = plan_text(report)
    assert "set up      solo: new, all roles" in text
    assert "runs        start digits (solo): its slice is new" in text
    assert [one["host"] for one in as_data(report, 2)["machines"]] == ["solo"]


def test_nothing_to_do_is_said() -> None:
    report = planned(machines={"pair-w0": Machine("pair-w0", "pair", status="ok")})
    assert not something(report)
    assert plan_text(report)[0] == "nothing     1 slice and 1 machine, all as declared."
    # Of a machine that could not look, nothing is known.
    full = Machine("pair-w0", "pair", status="failed", problem="its disk is full")
    report = planned(machines={"pair-w0": full})
    assert "nothing" not in "\n".join(plan_text(report))


def test_what_is_not_known_and_what_waits_are_said() -> None:
    report = planned(
        machines={"pair-w1": Machine("pair-w1", "pair", status="unreachable", problem="no route")}
    )
    report.slices["big"] = ("waiting", "no capacity for v4-32")
    text = plan_text(report)
    assert "unknown     pair-w1: no route" in text
    assert "waits       big: waiting: no capacity for v4-32" in text
    assert something(report)


def test_a_long_plan_is_cut_and_json_has_it_whole() -> None:
    report = planned(*(change(name=f"n-{at}") for at in range(60)))
    assert sum("create" in line for line in plan_text(report)) == NAMED
    assert any("and 54 more (--json has them all)" in line for line in plan_text(report))
    assert len(as_data(report, 2)["slices"]) == 60


def beside(what: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "what": what,
        "name": name,
        "place": "us-east5-a",
        "kind": "",
        "amount": 4,
        "usd_per_month": 14.6,
        "usd_per_gb_month": None,
        "is_cut": False,
        **more,
    }


def test_what_is_new_beside_the_chips_has_a_price() -> None:
    report = planned(change())
    rows = [
        beside("addresses", "pair"),
        beside("boot disks", "pair", kind="hyperdisk-balanced", amount=400, usd_per_month=32.0),
        beside("disk", "data", kind="tape", amount=200, usd_per_month=None),
        beside("bucket", "lab", kind="STANDARD", amount=0, usd_per_month=0, usd_per_gb_month=0.023),
    ]
    report.progress({"event": "beside", "rows": rows})
    text = plan_text(report)
    assert max(map(len, text)) <= 80
    whole = " ".join(" ".join(text).split())
    assert "+ addresses of pair (4) in us-east5-a; $14.60 a month" in whole
    assert "+ boot disks of pair (hyperdisk-balanced, 400.0 GB) in us-east5-a; $32.00" in whole
    assert "+ disk data (tape, 200.0 GB) in us-east5-a; unknown a month" in whole
    assert "+ bucket lab (standard) in us-east5-a; $0.023 a GB and month" in whole
    assert "$46.60 and 1 unknown a month for what is new beside the chips" in whole
    assert as_data(report, 2)["beside"] == rows
    assert "beside" not in " ".join(plan_text(planned(change())))


def test_a_slice_that_comes_for_submitted_runs_has_its_row() -> None:
    report = planned()
    report.plan["on_queue"] = [
        {"slice": "burst-1", "comes": True, "why": "3 submitted runs wait for v4-8"},
        {"slice": "burst-2", "comes": False, "why": "nothing waits in the queue for it"},
    ]
    assert not something(report)
    assert "\n".join(plan_text(report)).startswith(
        "on queue    burst-1: would be created by the watcher: 3 submitted runs wait for\n"
        "              v4-8\n"
        "            burst-2: rests: nothing waits in the queue for it\n"
    )
    assert as_data(report, 0)["slices_on_queue"] == report.plan["on_queue"]
