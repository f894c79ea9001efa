"""What is on a machine under the name of a run may be another user's: it is not taken over."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from queue_agent.act.code import CannotInstall
from queue_agent.act.install import Installed
from queue_agent.decide.messages import RUN, Order
from queue_agent.decide.settings import Places
from queue_agent.shared._queue.objects import Definition

ME = pwd.getpwuid(os.getuid()).pw_name
LOG, CHECKPOINTS = "var/log/tpu-fleet/runs/one", "var/lib/tpu-fleet/checkpoints/one"


class Stops(Exception):
    """The places are taken; the rest has tests of its own."""


@pytest.fixture
def installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what installs a run with checkpoints at a place, up to its files."""

    def stop(*_words: Any) -> None:
        raise Stops

    def do(place: str | None) -> None:
        found = Definition("one", "alice", ME, ("true",), "", 1.0, checkpoint_dir=place)
        units: Any = None
        settings: Any = SimpleNamespace(training={})
        verified: Any = SimpleNamespace(get=lambda *_words: found)
        installed = Installed(settings, Places(tmp_path), units, verified)
        monkeypatch.setattr(installed, "_write", stop)
        installed.install(Order(RUN, "one", "a" * 64, 1), units)

    return do


def foreign(path: Path) -> None:
    """Put there what is not a folder of this user: for any user, a file does as well."""
    path.mkdir(parents=True)
    (path / "left").write_text("of another")
    if os.geteuid() == 0:
        os.chown(path, 4321, -1)
    else:
        path.rename(path.with_suffix(".folder"))
        path.write_text("of another")


def test_a_log_of_another_user_is_put_where_only_root_finds_it(
    installs: Any, tmp_path: Path
) -> None:
    foreign(tmp_path / LOG)
    with pytest.raises(Stops):
        installs(None)
    assert not (tmp_path / LOG).exists()
    (away,) = (tmp_path / LOG).parent.glob(".one-moved-away-*")
    assert away.stat().st_mode & 0o777 == 0o700
    assert (away / "one").exists()


@pytest.mark.parametrize("place", ["", f"/{CHECKPOINTS}"])
def test_checkpoints_of_another_user_are_not_read(
    installs: Any, tmp_path: Path, place: str
) -> None:
    foreign(tmp_path / CHECKPOINTS)
    with pytest.raises(CannotInstall, match="another user's: remove it, or submit") as error:
        installs(place)
    assert not error.value.final
    with pytest.raises(Stops):
        installs("gs://lab/one")


def test_what_is_the_users_own_stays(installs: Any, tmp_path: Path) -> None:
    for place in (LOG, CHECKPOINTS):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "kept").touch()
    with pytest.raises(Stops):
        installs("")
    assert (tmp_path / LOG / "kept").exists()
    assert (tmp_path / CHECKPOINTS / "kept").exists()
