"""What `tpu-fleet status` shows of slices that cannot be used."""

from __future__ import annotations

import re

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import STATE_REASONS

from tpu_fleet.cli import main
from tpu_fleet.commands.status import fleet_table, rows_of
from tpu_fleet.show.console import PlainConsole
from tpu_fleet.show.table import print_tables


def shown(reason: str, state: str) -> str:
    """Return the table of one worker at 80 columns."""
    seen = {
        "tpu_vm_name": "pair",
        "tpu_vm_accelerator_type": "v4-16",
        "tpu_vm_zone": "us-central2-b",
        "tpu_vm_tier": "spot",
        "tpu_vm_state": state,
        "tpu_vm_unavailable_reason": reason,
    }
    console = PlainConsole(width=80, record=True, force_terminal=True)
    print_tables(console, fleet_table(rows_of([("pair-w0", seen)], {})))
    return console.export_text()


@pytest.mark.parametrize(
    ("state", "command"),
    [
        ("STOPPED", ("slice", "wake")),
        ("PREEMPTED", ("repair",)),
        ("TERMINATED", ("repair",)),
    ],
)
def test_a_slice_that_is_gone_is_shown_with_the_command_that_brings_it_back(
    state: str, command: tuple[str, ...]
) -> None:
    text = shown(STATE_REASONS[state], state)
    assert f"tpu-fleet {' '.join(command)} " in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_the_reasons_name_commands_that_there_are() -> None:
    named = [
        words.split()
        for text in STATE_REASONS.values()
        for words in re.findall(r"tpu-fleet ([a-z ]+?) (?:starts|creates)", text)
    ]
    assert len(named) == 3
    for words in named:
        found: click.Command = main
        for word in words:
            assert isinstance(found, click.Group)
            inner = found.get_command(click.Context(found), word)
            assert inner is not None, words
            found = inner
