"""The process with the user's rights: when another agent keeps it, and that it ends."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from run_agent.act import hand, processes
from run_agent.act.hand import CannotReach, Hand

ME = pwd.getpwuid(os.getuid()).pw_name


def test_one_that_is_closed_leaves_no_process_and_starts_none(tmp_path: Path) -> None:
    one = Hand(ME)
    assert one.real_folder(str(tmp_path)) == str(tmp_path)
    (pid,) = processes.descendants(os.getpid())
    one.close()
    assert processes.start_time(pid) is None
    with pytest.raises(CannotReach):
        one.glance(tmp_path, tmp_path)
    assert processes.descendants(os.getpid()) == set()


def test_it_is_kept_while_a_new_one_would_have_the_same_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Hand(ME)
    try:
        assert one.fits(ME)
        assert not one.fits("daemon")
        one.real_folder(str(tmp_path))
        assert one.fits(ME)
        groups = os.getgrouplist(ME, os.getgid())
        monkeypatch.setattr(hand.os, "getgrouplist", lambda _name, _gid: [*groups, 4711])
        assert not one.fits(ME)
    finally:
        one.close()
