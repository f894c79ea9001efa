"""The workers that options choose."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.commands import many
from tpu_fleet.commands.many import Many, limit_of
from tpu_fleet.workers.inventory.hosts import Known

GROUPS = {"tpu_slice_pair": ["pair-w0", "pair-w1"], "tpu_slice_solo": ["solo"]}
TARGETS = {name: Target(name, "192.0.2.1") for name in ("pair-w0", "pair-w1", "solo")}
KNOWN = Known(Path("/s/ssh_config"), Fleet(TARGETS, groups=GROUPS))


def names(worker: int | None, *slices: str, limit: str | None = None) -> list[str]:
    return Many(slices, limit, sudo=False, refresh=False, worker=worker).names_in(KNOWN)


def test_a_worker_is_chosen_by_its_index_in_its_slice() -> None:
    assert names(None) == ["pair-w0", "pair-w1", "solo"]
    assert names(0) == ["pair-w0", "solo"]
    assert names(1) == names(1, "pair") == ["pair-w1"]
    assert names(0, limit="pair-w*") == ["pair-w0"]
    with pytest.raises(click.ClickException, match="None of solo is worker 1 of its slice"):
        names(1, "solo")


def test_slices_become_a_pattern_of_ansibles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "chosen", lambda choose: (KNOWN, choose(KNOWN)))
    assert limit_of((), "pair-*") == "pair-*"
    assert limit_of((), None) is None
    assert limit_of(("pair",), None) == "pair-w0,pair-w1"
    assert limit_of(("pair",), "*-w1") == "pair-w1"
    with pytest.raises(click.ClickException, match="There is no slice pare"):
        limit_of(("pare",), None)
