#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet
short_description: Create, change and delete the slices of a fleet, within the grant
version_added: 0.1.0
description:
  - Makes all slices of a fleet file what they should be, several at once. Run it on the controller.
  - Looks at the project, makes a plan, acts, and looks again until every slice is there. Places
    without capacity are tried again, or others in turn; preempted slices and dead queued
    resources are deleted and created again.
  - Nothing is created that the grant does not hold, and nothing is changed or deleted that does not
    carry this fleet's label C(tpu-fleet).
  - It may be stopped at any moment and started again anywhere. What it needs to go on is in the
    fleet file and in the project itself.
  - While it waits, it prints one line for each slice at least every 30 seconds. In check mode it
    prints the plan.
  - Without O(slices), what is not given is taken from the variables of the play. They are the fleet
    file, and C(fleet_project), C(fleet_api_endpoint), C(fleet_scope), C(fleet_teardown),
    C(fleet_finish), C(fleet_wake), C(fleet_require), C(fleet_wait), C(fleet_wait_for) and
    C(fleet_slice_timeout). O(rest_file) and O(lock_file) are in C(fleet_state_dir).
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  slices:
    description:
      - The slices, as C(fleet_slices) of the fleet file has them. Every key is explained in
        C(docs/fleet-file.md) of the collection.
      - Where it is not given, they are those of the fleet file, and so are O(zone), O(allocations),
        O(warn_days), O(owner), O(self_setup), O(prune) and O(marks) where they are not given; each
        is taken from the variable of the play that says it.
    type: list
    elements: dict
    default: []
  zone:
    description: Zone of the slices that name none.
    type: str
  allocations:
    description:
      - What the grant holds, as C(fleet_allocations) of the fleet file has it, or V(unrestricted).
      - Without it nothing is created.
    type: raw
  warn_days:
    description: How many days before the end of an allocation to warn.
    type: float
    default: 7
  owner:
    description:
      - Value of the label C(tpu-fleet) that says whose a resource is. Two fleets in one project
        need two owners.
    type: str
    default: managed
  ssh_keys:
    description: Keys that every slice admits, as V(user:ssh-ed25519 AAAA... comment).
    type: list
    elements: str
    default: []
  self_setup:
    description:
      - Where machines find what they set themselves up with, as C(fleet_self_setup) of the fleet
        file has it. Slices with C(self_setup) need it.
    type: dict
  prune:
    description:
      - Whether to delete what carries this fleet's label and is not declared in O(slices). It is
        listed in any case.
    type: bool
    default: false
  expire:
    description:
      - Whether to delete slices whose grant has ended and whose C(on_grant_end) says V(delete).
        Data disks stay.
    type: bool
    default: false
  scope:
    description:
      - V(all) does everything.
      - V(expiry) only deletes what O(expire) deletes.
    type: str
    choices: [all, expiry]
    default: all
  teardown:
    description:
      - Names of declared slices to delete, with their queued resources. Data disks stay.
      - When it is given, nothing else is done.
    type: list
    elements: str
    default: []
  marks:
    description:
      - For each slice that may be put to rest a hash of its runs. A slice that rests stays so while
        its hash does.
    type: dict
    default: {}
  finish:
    description:
      - Declared slices to put to rest, by what their C(on_finish) says. Data disks stay.
      - When it is given, nothing else is done.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the slice.
        type: str
        required: true
      why:
        description: Why it is not needed any more, for people.
        type: str
        default: it was asked for
      ends:
        description: The ends of its runs for which it applies.
        type: str
        default: ''
  wake:
    description: Slices that rest and are wanted again, or V(all).
    type: list
    elements: str
    default: []
  rest_file:
    description:
      - A file of this computer that lists the resting slices, for users who may not read or write
        the project's metadata.
    type: path
  require:
    description:
      - V(all) fails when a slice is not there in the end, and changes nothing when it is clear
        from the start that one cannot be created.
      - V(any) succeeds when at least one slice is there, and warns of the others.
    type: str
    choices: [all, any]
    default: all
  wait_for:
    description:
      - V(all) waits until all slices are there.
      - V(next) waits until one more is there than before, so that it can be set up while the others
        are still waited for.
    type: str
    choices: [all, next]
    default: all
  retry_sleep:
    description:
      - How many seconds to wait before a place that had no capacity is asked again. Later pauses
        grow up to twenty times as long.
    type: float
    default: 30
  lock_file:
    description:
      - A file that only one apply at a time may hold on this computer. Those on other computers are
        kept away by a label.
    type: path
  progress_file:
    description: A file to which lines of progress are added. Set by the action plugin.
    type: path
  controller_pid:
    description:
      - The process without which the wait is not wanted any more. Set by the action plugin.
    type: int
"""

EXAMPLES = r"""
- name: Get the slices
  tpu.fleet.fleet:
    project: my-project
    allocations:
      - {zone: us-central2-b, generation: v4, tier: on_demand, chips: 32, ends: 2027-01-31}
      - {zone: europe-west4-a, generation: v6e, tier: spot, chips: 64, ends: 2027-01-31}
    slices:
      - name: main
        accelerator_type: v4-32
        zone: us-central2-b
      - name: cheap
        accelerator_types: [v6e-64, v6e-32]
        zone: europe-west4-a
        tier: spot

- name: Delete what the grant of the fleet file does not hold any more
  tpu.fleet.fleet:
    scope: expiry
"""

RETURN = r"""
plan:
  description: In check mode the plan, one line each; otherwise how every slice stands.
  returned: always
  type: list
  elements: str
  sample: ["+ create node main (v4-32, on demand) in us-central2-b: there is none"]
actions:
  description: What was done, or in check mode what would be done first.
  returned: always
  type: list
  elements: str
slices:
  description:
    - How each slice stands. RV(slices[].phase) is V(ready), V(ended) (its grant is over, or it
      rests after the end of its runs), V(coming), V(queued), V(waiting), V(clearing), V(unknown),
      V(refused), V(differs) or V(kept).
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the slice.
      type: str
    phase:
      description: How far it is.
      type: str
    text:
      description: The same in words, with the reason.
      type: str
    next_at:
      description: When it is asked for again.
      type: str
    tpu_vm:
      description: The node as M(tpu.fleet.tpu_vm) returns it; empty while there is none.
      type: dict
hosts:
  description: The workers of all slices that are there, by the names they have in the inventory.
  returned: always
  type: list
  elements: str
  sample: [solo, pair-w0, pair-w1]
orphans:
  description: What carries the fleet's label and is not declared.
  returned: always
  type: list
  elements: str
"""

import fcntl
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, poll_of, run
from ..module_utils._compute.client import Compute
from ..module_utils._core.errors import BadRequest, Refused, WaitTimeout
from ..module_utils._core.wait import Backoff
from ..module_utils._fleet.apis import apis_of
from ..module_utils._fleet.apply import FleetApplier, Pace, Result
from ..module_utils._fleet.report import answer, plan_lines, warnings_of
from ..module_utils._fleet.resting import Rest, RestBook
from ..module_utils._fleet_file.declared import Fleet
from ..module_utils._google.apis import GoogleApis
from ..module_utils._tpu.client import Client

NO_SECRET = {"ssh_keys": {"no_log": False}}


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Get the slices, or say what that would take."""
    params = module.params
    fleet = Fleet.from_params(params, client.project)
    book = rest_book(params, client)
    resting = _resting(params, fleet)
    retry = max(0.05, float(params["retry_sleep"]))
    applier = FleetApplier(
        apis_of(client, fleet),
        fleet,
        wait=params["wait"],
        only_next=params["wait_for"] == "next",
        timeout=float(params["wait_timeout"]),
        # Taking down costs nothing that has to be thought over as a whole.
        strict=params["require"] == "all" and not (fleet.teardown or fleet.stop),
        progress=lambda line: _note(client, params["progress_file"], line),
        pace=Pace(poll=poll_of(module), again=Backoff(first=retry, factor=1.5, most=20 * retry)),
        rest=book.read,
    )
    if module.check_mode:
        plan = applier.foresee()
        for line in plan_lines(plan):
            _note(client, params["progress_file"], line)
        result = Result(plan.actions, plan.statuses, plan)
    else:
        with _only_one(params["lock_file"]), _ended_properly(params["controller_pid"]):
            now = client.transport.server_time().timestamp()
            book.wake(_woken(params["wake"], fleet), now)
            # Before it goes, or a controller that dies in between would leave it to be made again.
            _note_rest(book, resting, now, done=False)
            result = applier.apply()
            over = {name: rest for name, rest in resting.items() if result.slices[name].fine}
            _note_rest(book, over, client.transport.server_time().timestamp(), done=True)
        if book.alone and (resting or params["wake"]):
            module.warn(
                f"Which slices rest is known on this computer only ({book.alone}); from another "
                "one they would be made again."
            )
    for warning in warnings_of(result.plan):
        module.warn(warning)
    if not module.check_mode or not (fleet.teardown or fleet.stop):
        _require(module, result)
    return answer(result.plan, result.actions)


def rest_book(params: Mapping[str, Any], client: Client) -> RestBook:
    """Return what says which slices rest."""
    file = params["rest_file"]
    return RestBook(lambda: Compute(GoogleApis(client)), params["owner"], file)


def _resting(params: Mapping[str, Any], fleet: Fleet) -> dict[str, Rest]:
    """Return what is to be noted of the slices that are put to rest."""
    wants = {want.name: want for want in fleet.slices}
    found = {}
    for item in params["finish"]:
        want = wants[item["name"]]
        if not want.mark:
            raise BadRequest(f"Of the runs of {want.name} nothing is known: give marks.")
        found[want.name] = Rest(want.on_finish, want.mark, ends=item["ends"], why=item["why"])
    return found


def _woken(names: Sequence[str], fleet: Fleet) -> list[str]:
    declared = [want.name for want in fleet.slices]
    unknown = sorted(set(names) - {*declared, "all"})
    if unknown:
        raise BadRequest(
            f"wake names {', '.join(unknown)}, which the fleet file does not declare.",
            remedy="Name declared slices, or all.",
        )
    return declared if "all" in names else list(names)


def _note_rest(book: RestBook, resting: Mapping[str, Rest], now: float, done: bool) -> None:
    if resting:
        book.write({name: replace(rest, at=now, done=done) for name, rest in resting.items()})


def _require(module: AnsibleModule, result: Result) -> None:
    """Raise what a person has to know: which slices are wanted and not there, and why."""
    missing = result.missing
    if module.check_mode or not module.params["wait"]:
        missing = tuple(status for status in missing if status in result.plan.refusals)
    if not missing and result.waited is None:
        return
    if not missing and result.waited is not None:
        raise WaitTimeout(
            "what was begun to end",
            "\n".join(["", *(f"  {line}" for line in plan_lines(result.plan))]),
            result.waited,
            remedy="\nRun it again to go on; the lines of progress say what the API answered.",
        )
    lines = "\n".join(f"  {status}" for status in missing)
    text = f"{len(missing)} of {len(result.statuses)} slices are not there:\n{lines}"
    if module.params["require"] == "any" and len(missing) < len(result.statuses):
        module.warn(text)
    elif result.waited is not None:
        raise WaitTimeout(
            "all slices",
            text,
            result.waited,
            remedy="\nRun it again to go on waiting; nothing that was asked for is lost.",
        )
    else:
        raise Refused(text, remedy="\nCorrect what the lines name and run it again.")


def _note(client: Client, path: str | None, line: str) -> None:
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{client.transport.server_time():%H:%M:%S} {line}\n")


@contextmanager
def _only_one(path: str | None) -> Iterator[None]:
    """Keep a second apply on this computer away; the lock ends with the process."""
    if path is None:
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(
                f"Another apply of this fleet runs on this computer: it holds {path}.",
                remedy="Wait until it has ended, or stop it.",
            ) from error
        yield


@contextmanager
def _ended_properly(controller: int | None) -> Iterator[None]:
    """Let one that is told to end, or whose Ansible is gone, do what it does at its end."""

    def end(number: int, _frame: Any) -> None:
        # What follows must not be cut short because the parent is missed.
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}

    def look(_number: int, _frame: Any) -> None:
        # What a killed Ansible began should not go on for hours behind everybody's back.
        if controller is not None and not _runs(controller):
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise SystemExit(1)

    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _runs(pid: int) -> bool:
    """Say whether a process is there and not just waiting to be forgotten."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def main() -> None:
    """Run the module."""
    module = api_module(DOCUMENTATION, NO_SECRET)
    run(module, execute)


if __name__ == "__main__":
    main()
