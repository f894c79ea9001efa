"""What the leader says of a start, and of workers that stand out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from run_agent.decide import config
from run_agent.decide.gang_state import CHIPS, GATHERING, Report
from run_agent.decide.member import Order
from run_agent.decide.run_states import RUNNING
from run_agent.talk.leader import Leader
from run_definition import PUBLIC

HOSTS = ["10.0.0.2", "10.0.0.3", "10.0.0.4"]


class Gang:
    """A leader, and its workers' reports."""

    def __init__(self, folder: Path, **declared: Any) -> None:
        paths = {name: str(folder / name) for name in ("state", "runtime")}
        told = {**PUBLIC, "hosts": HOSTS, "worker": 0, "checkpoint_dir": "", **declared}
        told["timing"] = {"lost": 30, "restart_delay": 0.0, "restart_delay_max": 0.0}
        self.leader = Leader(config.parse({**told, "paths": paths}, {}), "b0")
        self.sent = 0.0
        self.orders: dict[int, Order] = {}

    def report(self, worker: int, **more: Any) -> Order:
        self.sent += 1.0
        heard = self.orders[worker].token if worker in self.orders else ""
        known = {"boot_id": f"b{worker}", "definition": self.leader.config.definition}
        report = Report(worker, **{**known, "sent": self.sent, "heard": heard, **more})
        self.orders[worker] = self.leader.exchange(report)
        return self.orders[worker]

    def all_report(self, **more: Any) -> Order:
        for worker in range(len(HOSTS)):
            self.report(worker, **more)
        return self.report(0, **more)

    def begin(self, **more: Any) -> int:
        """Begin an attempt; return its number."""
        idle = {"program": "exited", "last_started": self.leader.gang.attempt}
        for _ in range(4):
            self.all_report(**idle, exit_code=1, cause="told to stop", **more)
        assert self.leader.gang.phase == RUNNING
        return self.leader.gang.attempt


def test_other_code_is_told_with_its_version(tmp_path: Path) -> None:
    gang = Gang(tmp_path, code={"tree": "train", "version": "a" * 64})
    gang.begin(builds={"code": "a" * 16})
    gang.leader.told()
    leader = Gang(tmp_path, code={"tree": "train", "version": "b" * 64}).leader
    assert leader.told() == [{"event": "code-changed", "version": "b" * 64}]


def test_ports_are_tried_before_the_first_attempt(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    assert not gang.report(0, testing=True).all_here
    gang.report(1, testing=True)
    order = gang.report(2, testing=True)
    assert (order.all_here, order.phase) == (True, GATHERING)
    assert order.waiting.startswith("worker 0 tests the ports of the others")
    for _ in range(3):
        order = gang.all_report()
    assert order.phase == RUNNING


def test_what_is_blocked_is_said_to_all_with_the_network(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    gang.leader.network = "lab"
    gang.report(0)
    gang.report(1, unreached=[[0, 8482, "timeout", "JAX's coordinator"], [7, 1, "timeout", ""]])
    order = gang.report(2)
    assert order.hint == (
        "worker 1 cannot reach worker 0:8482 (JAX's coordinator): a firewall; open it: "
        "gcloud compute firewall-rules create tpu-fleet-workers --network=lab "
        "--allow=tcp:8482 --source-ranges=10.0.0.0/24"
    )


def test_chips_that_failed_starts_are_said_in_the_next_one(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    attempt = gang.begin()
    over = {"program": "exited", "exit_code": 1, "last_started": attempt}
    for _ in range(3):
        gang.report(2, **over, cause=CHIPS, tail=["busy"])
        for worker in (0, 1):
            gang.report(worker, **over)
    order = gang.report(1, **over)
    assert order.bad_chips == [[2, 1, "busy"]]
    for _ in range(3):
        for worker in range(len(HOSTS)):
            more = {"cause": CHIPS, "tail": ["busy"]} if worker == 2 else {}
            order = gang.report(worker, **over, **more)
    assert (order.phase, order.attempt) == (RUNNING, attempt + 1)
    assert order.hint == "the chips of worker 2 failed 1 start before: busy"


def test_a_late_start_names_the_worker_without_chips(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    at_work = {"program": "running", "last_started": gang.begin()}
    gang.report(0, **at_work, opened=True)
    gang.report(1, **at_work, opened=False)
    order = gang.report(2, **at_work, opened=True)
    assert order.hint == "worker 1 has not opened its chips, the others have"


def test_workers_that_stand_out_are_named(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    at_work = {"program": "running", "last_started": gang.begin()}
    for worker in range(len(HOSTS)):
        loss = "nan" if worker == 1 else "0.5"
        error = "core 0: ECC" if worker == 2 else ""
        gang.report(worker, **at_work, losses=[[7, loss]], chip_error=error)
    assert gang.leader.stand_out() == [
        "the chips of worker 2 report an error: core 0: ECC",
        "worker 1 computes something else: its loss at step 7 is nan, that of the others 0.5",
    ]
    # Of an attempt before, nothing is said.
    gang.report(0, program="exited", exit_code=1, last_started=at_work["last_started"])
    assert gang.leader.stand_out()[1:] == []
