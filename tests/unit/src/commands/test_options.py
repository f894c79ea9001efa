"""Places that a command writes: refused before anything is done, with a remedy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from click.testing import CliRunner

from tpu_fleet.cli import main
from tpu_fleet.commands.options import NewFile, NewFolder, unwritable
from tpu_fleet.page.publish import folder_of


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands, with their words."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def outputs() -> Iterator[tuple[str, click.Parameter]]:
    """Yield each option for what a command of the fleet writes."""
    for words, command in commands(main):
        for option in command.params:
            if {"-o", "--output", "--csv", "--parquet"} & set(option.opts):
                yield words, option


def test_each_place_to_write_is_tried_first() -> None:
    found = dict(outputs())
    kinds = {words for words, one in found.items() if isinstance(one.type, NewFolder | NewFile)}
    # The page's place may be a bucket, and only the command knows whether it writes at all.
    assert set(found) - kinds == {"page"}
    assert {"fetch", "why", "profile", "slice finish", "grant import", "compare"} <= kinds


@pytest.mark.parametrize(
    "words",
    [
        *("fetch digits -o", "why digits -o", "profile digits -o", "slice finish pair -o", "init"),
        *("cp pair-w0:/data", "page -o"),
    ],
)
def test_a_place_that_takes_no_files_is_refused_with_a_remedy(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = "/proc/page.html" if words.startswith("page") else "/proc/results"
    done = CliRunner().invoke(main, [*words.split(), place])
    assert done.exit_code != 0
    assert f"{place}" in done.output
    assert "nothing can be written in /proc (No such file or directory)" in done.output
    assert "Name another " in done.output
    assert "Errno" not in done.output


def test_the_trial_leaves_nothing_and_takes_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert unwritable(tmp_path / "a" / "b") == ""
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    says = unwritable(tmp_path / "file" / "b")
    assert says == f"nothing can be written in {tmp_path / 'file'} (Not a directory)"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone becomes another user")
def test_a_folder_of_another_user_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """Path.is_dir raises PermissionError there, which ended the command with a traceback."""
    closed = tmp_path / "closed"
    (closed / "x").mkdir(parents=True)
    closed.chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(click.BadParameter, match="Make it, or name another"):
            NewFile().convert(str(closed / "x" / "y.csv"), None, None)
        with pytest.raises(TpuError, match="is no folder here"):
            folder_of(str(closed / "x"))
    finally:
        os.seteuid(0)
