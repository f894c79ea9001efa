"""systemd is asked for no more than is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_agent.act import units
from queue_agent.act.units import CannotDo, Units

SYSTEMCTL = """\
#!/bin/sh
echo "$@" >> {folder}/asked
case $1 in
show) cat {folder}/shown;;
start) grep -q "not found" {folder}/shown && echo > {folder}/shown && exit 5 || exit 0;;
stop) sleep $(cat {folder}/takes);;
esac
"""
UNIT = "tpu-fleet-run@one.service"


@pytest.fixture
def one(tmp_path: Path) -> Units:
    program = tmp_path / "systemctl"
    program.write_text(SYSTEMCTL.format(folder=tmp_path))
    program.chmod(0o755)
    (tmp_path / "takes").write_text("0")
    return Units(str(program))


def asked(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / "asked").read_text().splitlines()]


@pytest.mark.parametrize(
    ("shown", "is_new", "verbs"),
    [
        ("", True, ["start"]),
        ("NeedDaemonReload=no", False, ["show", "start"]),
        # It knows what was here before.
        ("NeedDaemonReload=yes", False, ["show", "daemon-reload", "start"]),
        # An old version knows of no new file.
        ("not found", True, ["start", "daemon-reload", "start"]),
    ],
)
def test_all_units_are_read_only_where_it_has_to_be(
    one: Units, tmp_path: Path, shown: str, is_new: bool, verbs: list[str]
) -> None:
    (tmp_path / "shown").write_text(shown)
    one.start("one", is_new)
    assert asked(tmp_path) == verbs
    assert one.is_active("one")
    assert asked(tmp_path) == verbs


def test_an_agent_that_takes_long_to_end_has_not_stopped(
    one: Units, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one.has_stopped("one")
    monkeypatch.setattr(units, "_SECONDS", 0.1)
    (tmp_path / "takes").write_text("5")
    assert not one.has_stopped("one")
    with pytest.raises(CannotDo, match="systemctl stop: not within"):
        one._ask("stop", UNIT)
