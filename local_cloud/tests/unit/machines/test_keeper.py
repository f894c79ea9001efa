"""What the keeper does about a machine that asked to be booted again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tpu_local_cloud.machines import keeper
from tpu_local_cloud.machines.base import MachineError
from tpu_local_cloud.machines.network import Network


@pytest.mark.parametrize(("failures", "boots"), [(0, 1), (2, 3), (3, 3)])
def test_a_boot_that_fails_is_tried_again(
    failures: int, boots: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = []

    def boot(_engine: Any, _wiring: Any, record: dict[str, Any]) -> None:
        tried.append(record["machine_id"])
        if len(tried) <= failures:
            raise MachineError("the network was busy")

    monkeypatch.setattr(keeper, "boot", boot)
    monkeypatch.setattr(keeper, "Wiring", lambda *_: None)
    monkeypatch.setattr(keeper.time, "sleep", lambda _: None)
    made = SimpleNamespace(_engine=None)
    network = Network("a1b2c3", "10.100.0.0/16", 0)
    if failures == boots:
        with pytest.raises(MachineError, match="busy"):
            keeper.Keeper._boot(made, {"machine_id": "m"}, network)  # type: ignore[arg-type]
    else:
        keeper.Keeper._boot(made, {"machine_id": "m"}, network)  # type: ignore[arg-type]
    assert tried == ["m"] * boots
    assert capsys.readouterr().out.count("retrying") == min(failures, keeper.TRIES - 1)
