"""The ports between the workers of a run: tried before the first attempt, which begins anyway."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ports import deaf_port

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
STEPS = """
until [ -e {go} ]; do sleep 0.1; done
echo '{{"step": 1}}' > "$TPU_FLEET_PROGRESS.new"
mv "$TPU_FLEET_PROGRESS.new" "$TPU_FLEET_PROGRESS"
exec sleep 1000
"""


def test_a_blocked_port_is_named_and_keeps_no_start(gang: Make, tmp_path: Any) -> None:
    go = tmp_path / "go"
    workers = gang(STEPS.format(go=go))
    with deaf_port("127.0.0.2") as port:
        for worker in workers:
            worker.define(worker.given, {"JAX_COORDINATOR_PORT": str(port)})
            worker.up()
        told = f"worker 1 cannot reach worker 0:{port} (JAX's coordinator): a firewall; open it: "
        for worker in workers:
            worker.wait_running(1)
            harness.wait_until(lambda w=worker: told in w.status().get("reason", ""), told)
        assert f"--allow=tcp:{port} " in workers[0].status()["reason"]
    # The program has come to a step, so it does not need the port.
    go.touch()
    harness.wait_until(lambda: workers[0].status().get("reason") == "", "an end of the advice")
    assert workers[0].status()["attempt"] == 1


def test_ports_that_are_reached_are_not_worth_a_word(gang: Make) -> None:
    workers = gang("exec sleep 1000")
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(1)
        assert worker.status()["reason"] == ""
