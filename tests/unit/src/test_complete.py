"""What TAB offers, and that it imports no command for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from tpu_fleet.cli import COMMANDS, imported, main
from tpu_fleet.complete import TABLE, described, outline
from tpu_fleet.workers.inventory import names
from tpu_fleet.workers.inventory.ansible_config import inventory_sources

PROGRAM = """
import os, sys
os.environ |= {"COMP_WORDS": sys.argv[1], "COMP_CWORD": sys.argv[2]}
os.environ["_TPU_FLEET_COMPLETE"] = "bash_complete"
from tpu_fleet.cli import main
try:
    main(prog_name="tpu-fleet")
except SystemExit:
    loaded = {name.split(".")[0] for name in sys.modules} | set(sys.modules)
    wrong = {"ansible", "asyncssh", "rich", "requests", "tpu_fleet.commands"}
    print(sorted(loaded & wrong))
"""


@pytest.fixture(autouse=True)
def _fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "inventory"))
    names.remember(
        inventory_sources({"ANSIBLE_INVENTORY": str(tmp_path / "inventory")}, tmp_path),
        slices=["pair", "pod", "solo"],
        declared=["later", "solo"],
        users=["alice", "bob"],
        workers=["pair-w0", "pair-w1", "solo"],
        runs=["digits", "digits-big", "other"],
    )


def offered(*words: str) -> list[str]:
    *before, begun = words
    found = ShellComplete(main, {}, "tpu-fleet", "_TPU_FLEET_COMPLETE").get_completions(
        before, begun
    )
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["lo"], ["logs"]),
        (["logs", ""], ["digits", "digits-big", "other"]),
        (["logs", "digits-"], ["digits-big"]),
        (["logs", "--tail", "5", "-f", "o"], ["other"]),
        (["logs", "--slice", "p"], ["pair", "pod"]),
        (["logs", "--slice", "solo,p"], ["solo,pair", "solo,pod"]),
        (["exec", "--limit", "pair-"], ["pair-w0", "pair-w1"]),
        (["exec", "--limit", "s"], ["solo"]),
        (["attach", "--slice", "so"], ["solo"]),
        (["runs", "digits", "ot"], ["other"]),
        (["doctor", "--limit", "so"], ["solo"]),
        (["tunnel", "--limit", "so"], ["solo"]),
        (["exec", "--kex", "c"], ["cheap"]),
        (["logs", "--ta"], ["--tail"]),
        (["logs", "--no-r"], ["--no-refresh"]),
        (["grant", "i"], ["import"]),
        # Also one that is declared and not created yet.
        (["slice", "create", ""], ["later", "solo", "pair", "pod"]),
        (["apply", "--slice", "la"], ["later"]),
        (["apply", "--only", "co"], ["code"]),
        (["invite", "al"], ["alice"]),
        (["grant", "import", "--forc"], ["--force"]),
        (["cloud", "clo"], ["clock"]),
        (["completion", "z"], ["zsh"]),
        (["logs", "nothing"], []),
    ],
)
def test_what_is_offered(words: list[str], wanted: list[str]) -> None:
    assert offered(*words) == wanted


@pytest.mark.parametrize("words", ["tpu-fleet lo", "tpu-fleet logs dig", "tpu-fleet status --j"])
def test_tab_imports_no_command(words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, words, str(len(words.split()) - 1)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("plain,"), done.stdout + done.stderr
    assert done.stdout.endswith("\n[]\n"), done.stdout


def test_the_table_is_that_of_the_commands() -> None:
    assert json.loads(TABLE.read_text()) == {name: described(imported(name)) for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_outline_has_the_options_of_its_command(name: str) -> None:
    def options(command: click.Command | None) -> list[tuple[list[str], list[str], bool]]:
        assert command
        return [
            (one.opts, one.secondary_opts, one.is_flag)
            for one in command.params
            if isinstance(one, click.Option)
        ]

    assert options(outline(name)) == options(imported(name))
