"""The process with the user's rights: when another agent keeps it, and that it ends."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_agent.act import hand, installed, processes
from run_agent.act.hand import CannotReach, Hand

USER = "nobody"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hand]:
    with tempfile.TemporaryDirectory() as name:
        # Where every user may read the program, and with an interpreter that every user may run.
        shutil.copytree(installed.FILES, name, dirs_exist_ok=True)
        Path(name).chmod(0o755)
        monkeypatch.setattr(installed, "FILES", Path(name))
        monkeypatch.setattr(installed.sys, "executable", "/usr/bin/python3")
        made = Hand(USER)
        yield made
        made.close()


def test_one_that_is_closed_leaves_no_process_and_starts_none(one: Hand) -> None:
    before = processes.descendants(os.getpid())
    assert one.real_folder("/") == "/"
    assert len(processes.descendants(os.getpid()) - before) > 0
    one.close()
    assert processes.descendants(os.getpid()) == before
    with pytest.raises(CannotReach):
        one.glance(Path("/"), Path("/"))
    assert processes.descendants(os.getpid()) == before


def test_it_is_kept_while_a_new_one_would_have_the_same_rights(
    one: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before it has a process, a user of the same name is enough.
    assert (one.fits(USER), one.fits("daemon")) == (True, False)
    one.real_folder("/")
    assert one.fits(USER)
    groups = os.getgrouplist(USER, pwd.getpwnam(USER).pw_gid)
    monkeypatch.setattr(hand.os, "getgrouplist", lambda _name, _gid: [*groups, 4711])
    assert not one.fits(USER)
