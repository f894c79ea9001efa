"""What `tpu-fleet slice` refuses before a playbook begins."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tpu_fleet.commands import slices
from tpu_fleet.commands.playbook import Ended
from tpu_fleet.workers.report import Report


@pytest.mark.parametrize("declared", [{"name": "pair"}, {"name": "pair", "on_finish": "keep"}])
def test_a_slice_that_is_kept_is_not_put_to_rest(
    declared: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The playbook refused it after a minute, with an option that the command does not have."""
    monkeypatch.setattr(slices, "declared_slices", lambda: {"pair": declared})
    done = CliRunner().invoke(slices.slice_group, ["finish", "pair"])
    assert (done.exit_code, done.output) == (
        1,
        "Error: on_finish of pair is keep. Set it to stop or delete in fleet_slices; or delete "
        "it: tpu-fleet slice delete pair\n",
    )


def test_an_unknown_slice_is_answered_with_the_one_it_resembles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "declared_slices", lambda: {"pair": {}, "solo": {}})
    done = CliRunner().invoke(slices.slice_group, ["wake", "piar"])
    assert done.exit_code == 1
    assert "There is no declared slice piar. Did you mean pair?" in done.output


@pytest.mark.parametrize(("code", "options"), [(0, []), (0, ["--check"]), (2, [])])
def test_what_brings_a_resting_slice_back_is_said(
    code: int, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {"pair": {"name": "pair", "on_finish": "stop"}}
    monkeypatch.setattr(slices, "declared_slices", lambda: declared)
    monkeypatch.setattr(slices, "run_playbook", lambda *_asked: Ended(code, Report()))
    done = CliRunner().invoke(slices.slice_group, ["finish", "pair", *options])
    assert done.exit_code == code
    assert ("tpu-fleet slice wake pair" in done.output) is (code == 0 and not options)
