"""Which slices rest after the end of their runs, who knows it, and what the plan makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    BadRequest,
    PermissionDenied,
    TpuError,
    Unavailable,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan import plan_fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import (
    BY_RUNS,
    Plan,
    World,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import (
    Rest,
    RestBook,
    from_text,
    marks_of,
    to_text,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.fleet import check_fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
ZONE = "us-central2-b"
SLICE = {"name": "solo", "accelerator_type": "v4-8", "zone": ZONE, "on_finish": "delete"}
RUN = {"name": "digits", "slices": ["solo"], "command": "true", "env": {"KEY": "hush"}}
RESTS = Rest("delete", "m1", ends="digits:r:1", why="its runs have finished", at=5.0, done=True)


def node(state: str, owner: str = "managed") -> Node:
    return Node.from_api(
        {
            "name": f"projects/p/locations/{ZONE}/nodes/solo",
            "id": "7",
            "state": state,
            "health": "HEALTHY",
            "acceleratorType": "v4-8",
            "runtimeVersion": "tpu-ubuntu2204-base",
            "labels": {"tpu-fleet": owner, "tpu-fleet-spec": "x"},
        }
    )


def plan(
    *nodes: Node, rest: Rest | None = None, mark: str = "m1", finish: bool = False, **entry: Any
) -> Plan:
    params = {
        "slices": [{**SLICE, **entry}],
        "allocations": "unrestricted",
        "marks": {"solo": mark},
        "finish": [{"name": "solo"}] if finish else [],
    }
    fleet = Fleet.from_params(params, "p")
    known = {"solo": rest} if rest else {}
    return plan_fleet(fleet, World(nodes, (), frozenset(), NOW, known), {})


def kinds(found: Plan) -> list[str]:
    return [action.kind for action in found.actions]


@pytest.mark.parametrize(
    ("rest", "mark", "entry", "there", "does", "phase"),
    [
        (None, "m1", {}, (), ["create_node"], "coming"),
        (RESTS, "m1", {}, (), [], "ended"),
        # Noted, and the controller died before it was deleted: it is left to whoever goes on.
        (replace(RESTS, done=False), "m1", {}, ("READY",), [], "ready"),
        (replace(RESTS, done=False), "m1", {}, ("DELETING",), [], "clearing"),
        # Another run, and a person who asks.
        (RESTS, "m2", {}, (), ["create_node"], "coming"),
        (replace(RESTS, awake=True), "m1", {}, (), ["create_node"], "coming"),
        # Who says keep now wants it back.
        (RESTS, "m1", {"on_finish": "keep"}, (), ["create_node"], "coming"),
        # What is stopped is not started, nor changed.
        (replace(RESTS, how="stop"), "m1", {"on_finish": "stop", "labels": {"a": "b"}},
         ("STOPPED",), [], "ended"),
        (replace(RESTS, how="stop"), "m2", {"on_finish": "stop"}, ("STOPPED",),
         ["start_node"], "coming"),
        (replace(RESTS, how="stop", awake=True), "m1", {"on_finish": "stop"}, ("STOPPED",),
         ["start_node"], "coming"),
        # Somebody started it: it is used like any other.
        (replace(RESTS, how="stop"), "m1", {"on_finish": "stop"}, ("READY",), [], "ready"),
        # Lost while it was to go: cleared away, and not made again.
        (RESTS, "m1", {}, ("PREEMPTED",), ["delete_node"], "clearing"),
    ],
)  # fmt: skip
def test_what_rests_is_not_made_again(
    rest: Rest | None, mark: str, entry: dict[str, Any], there: tuple[str, ...],
    does: list[str], phase: str,
) -> None:  # fmt: skip
    found = plan(*map(node, there), rest=rest, mark=mark, **entry)
    assert kinds(found) == does
    [status] = found.statuses
    assert status.phase == phase
    assert ("slice wake" in status.text) is (phase == "ended")


BY_QUEUE = {"on_queue": True, "idle_after": "30m"}


@pytest.mark.parametrize(
    ("rest", "mark", "there", "does", "phase"),
    [
        # It comes only when a watcher recorded that a run needs it, or a user asked.
        (None, "m1", (), [], "ended"),
        (replace(RESTS, awake=True), "m1", (), ["create_node"], "coming"),
        (RESTS, "m1", (), [], "ended"),
        # Runs of the fleet file do not bring it.
        (RESTS, "m2", (), [], "ended"),
        # It is there: it is used like any other. What was lost is not made again unasked.
        (None, "m1", ("READY",), [], "ready"),
        (None, "m1", ("PREEMPTED",), ["delete_node"], "clearing"),
        (None, "m1", ("STOPPED",), [], "ended"),
    ],
)
def test_a_slice_on_queue_is_not_made_unasked(
    rest: Rest | None, mark: str, there: tuple[str, ...], does: list[str], phase: str
) -> None:
    found = plan(*map(node, there), rest=rest, mark=mark, **BY_QUEUE)
    [status] = found.statuses
    assert (kinds(found), status.phase) == (does, phase)
    assert status.text.endswith(BY_RUNS) is (phase == "ended")


def test_a_request_for_a_slice_on_queue_is_withdrawn_when_no_run_needs_it() -> None:
    raw = {
        "name": f"projects/p/locations/{ZONE}/queuedResources/solo",
        "state": {"state": "WAITING_FOR_RESOURCES"},
        "tpu": {"nodeSpec": [{"nodeId": "solo", "node": {
            "acceleratorType": "v4-8", "labels": {"tpu-fleet": "managed"}}}]},
    }  # fmt: skip
    queued = QueuedResource.from_api(raw)
    params = {"slices": [{**SLICE, **BY_QUEUE, "queued": True}], "allocations": "unrestricted"}
    fleet = Fleet.from_params({**params, "marks": {"solo": "m1"}}, "p")
    asleep = World((), (queued,), frozenset(), NOW, {"solo": RESTS})
    assert kinds(plan_fleet(fleet, asleep, {})) == ["delete_queued"]
    awake = replace(asleep, rest={"solo": replace(RESTS, awake=True)})
    assert kinds(plan_fleet(fleet, awake, {})) == []


@pytest.mark.parametrize(
    ("how", "there", "does", "phase"),
    [
        ("stop", [node("READY")], ["stop_node"], "clearing"),
        ("stop", [node("STOPPING")], [], "clearing"),
        ("stop", [node("REPAIRING")], [], "clearing"),
        ("stop", [node("STOPPED")], [], "ended"),
        ("stop", [], [], "ended"),
        ("delete", [node("READY")], ["delete_node"], "clearing"),
        ("delete", [node("DELETING")], [], "clearing"),
        ("delete", [], [], "ended"),
        # What is not this fleet's is not touched.
        ("stop", [node("READY", owner="bob")], [], "ended"),
        ("delete", [node("READY", owner="bob")], [], "refused"),
    ],
)
def test_a_slice_is_put_to_rest(how: str, there: list[Node], does: list[str], phase: str) -> None:
    found = plan(*there, finish=True, on_finish=how)
    assert kinds(found) == does
    assert [status.phase for status in found.statuses] == [phase]


def test_only_what_says_on_finish_is_put_to_rest() -> None:
    with pytest.raises(BadRequest, match="solo cannot be put to rest"):
        plan(finish=True, on_finish="keep")


@pytest.mark.parametrize(
    ("entry", "field", "words"),
    [
        ({"accelerator_type": "v4-16"}, "on_finish", "stops no slice of several workers"),
        ({"tier": "spot"}, "on_finish", "never starts a spot node again"),
        ({"queued": True}, "on_finish", "stops no node that came of a queued resource"),
        ({"tier": "flex_start"}, "on_finish", "stops no node that came of a queued resource"),
        ({"idle_minutes": 5}, "idle_minutes", "the key's old name"),
        ({"idle_after": "5m", "on_finish": "keep"}, "idle_after", "on_finish says keep"),
        ({"idle_after": "5m"}, "", ""),
        ({"idle_after": "5m", "on_queue": True}, "", ""),
        ({"on_queue": True}, "idle_after", "which on_queue needs"),
        ({"idle_after": None, "on_queue": True}, "idle_after", "which on_queue needs"),
        ({"tier": "reserved"}, "", ""),
        ({"accelerator_type": "v4-16", "on_finish": "delete", "queued": True}, "", ""),
    ],
)
def test_what_the_api_cannot_do_is_said_at_once(
    entry: dict[str, Any], field: str, words: str
) -> None:
    slices = [{**SLICE, "on_finish": "stop", **entry}]
    found = check_fleet({"fleet_slices": slices, "fleet_allocations": "unrestricted"})
    if not field:
        assert found == []
        return
    [problem] = found
    assert problem.field == f"fleet_slices[0].{field}"
    assert words in problem.message


def test_a_mark_is_that_of_the_runs_of_the_slice() -> None:
    tree = {"name": "code", "version": "v1"}
    run = {**RUN, "code": "code"}
    other = {"name": "words", "slices": ["pair"]}
    before = marks_of([run], [SLICE], [tree])["solo"]
    assert marks_of([other, run], [SLICE], [tree]) == {"solo": before}
    off = {**RUN, "name": "off", "enabled": False}
    assert marks_of([run, off], [SLICE], [tree]) == {"solo": before}
    changed = [
        marks_of([{**run, "command": "false"}], [SLICE], [tree]),
        marks_of([{**run, "env": {"KEY": "hash"}}], [SLICE], [tree]),
        marks_of([run, {**RUN, "name": "new"}], [SLICE], [tree]),
        marks_of([run], [SLICE], [{**tree, "version": "v2"}]),
        marks_of([], [SLICE], [tree]),
    ]
    assert before not in [found["solo"] for found in changed]
    assert marks_of([run], [{**SLICE, "on_finish": "keep"}]) == {}


class Metadata:
    """The metadata of a project, which may be closed to us."""

    def __init__(self) -> None:
        self.values = {"other": "left alone"}
        self.error: TpuError | None = None

    def metadata(self) -> dict[str, Any]:
        if self.error:
            raise self.error
        return {"items": [{"key": key, "value": value} for key, value in self.values.items()]}

    def change_metadata(self, alter: Any) -> None:
        if self.error:
            raise self.error
        self.values = alter(dict(self.values)) or self.values


def test_another_computer_knows_what_rests(tmp_path: Path) -> None:
    project: Any = Metadata()
    here = RestBook(lambda: project, "managed", tmp_path / "here.json")
    there = RestBook(lambda: project, "managed", tmp_path / "there.json")
    here.write({"solo": RESTS})
    assert there.read() == {"solo": RESTS}
    there.wake(["solo", "pair"], 9.0)
    # The file here is older, so it does not hold.
    assert here.read() == {"solo": replace(RESTS, awake=True, at=9.0)}
    assert project.values["other"] == "left alone"
    # A clock that is late is no reason not to be heard.
    here.write({"solo": replace(RESTS, at=2.0)})
    assert there.read() == {"solo": replace(RESTS, at=10.0)}
    there.wake(["solo"], 1.0)
    assert here.read() == {"solo": replace(RESTS, awake=True, at=11.0)}
    # What is awake for submitted runs, or never was there, is a user's from then on.
    here.write({"solo": replace(RESTS, awake=True, by_queue=True, at=12.0)})
    there.wake(["solo", "new"], 13.0, {"new": Rest("delete", "m"), "solo": Rest("stop", "x")})
    woken = Rest("delete", "m", awake=True, at=13.0)
    assert here.read() == {"solo": replace(RESTS, awake=True, at=13.0), "new": woken}
    assert RestBook(lambda: project, "bob", None).read() == {}


def test_without_the_right_to_the_metadata_it_is_known_here_only(tmp_path: Path) -> None:
    project: Any = Metadata()
    project.error = PermissionDenied("no")
    book = RestBook(lambda: project, None, tmp_path / "rest.json")
    book.write({"solo": RESTS})
    assert book.alone == "no"
    assert RestBook(lambda: project, None, tmp_path / "rest.json").read() == {"solo": RESTS}
    assert (tmp_path / "rest.json").stat().st_mode & 0o777 == 0o600


def test_who_cannot_ask_just_now_says_so(tmp_path: Path) -> None:
    project: Any = Metadata()
    project.error = Unavailable("later")
    with pytest.raises(Unavailable):
        RestBook(lambda: project, None, tmp_path / "rest.json").read()


def test_what_nobody_understands_is_nothing() -> None:
    assert from_text(to_text({"solo": RESTS})) == {"solo": RESTS}
    for text in ("", "{", "[]", '{"solo": 1}', '{"solo": {"how": "stop"}}'):
        assert from_text(text) == {}
