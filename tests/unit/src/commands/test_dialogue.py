"""How questions and notes of a conversation are shown."""

from __future__ import annotations

import os
import shutil

import pytest

from tpu_fleet.commands.dialogue import wrapped


@pytest.mark.parametrize("columns", [20, 40, 80, 300])
def test_lines_are_broken_between_words(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    size = os.terminal_size((columns, 24))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: size)
    text = "  Make the slices of the fleet, whose characters are many:\n\n  - first, and the others"
    shown = wrapped(text)
    assert shown.split() == text.split()
    assert all(len(line) < max(columns, 22) for line in shown.splitlines())
    assert all(line.startswith("  ") for line in shown.splitlines() if line)


def test_an_address_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((30, 24)))
    address = "https://github.com/a-long-name/of-a-long-repository.git"
    assert address in wrapped(f"Clone {address} here").splitlines()
