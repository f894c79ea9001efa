"""Every line of docs/agents.md, as an agent would type it, against the API alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from emulator import ROOT, Emulator

PAGE = ROOT / "docs/agents.md"
# Lines that are not shown.
SKIPPED = "…"
FLEET = f"""\
fleet_allocations:
  - {{zone: {Emulator.zone}, generation: v4, tier: on_demand, chips: 4}}
fleet_slices:
  - {{name: solo, accelerator_type: v4-8, zone: {Emulator.zone}}}
fleet_users: []
fleet_connection_timeout: 0s
"""


def steps(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of the page's console blocks, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def shows(wanted: list[str], printed: list[str]) -> bool:
    """Whether a command printed the lines of the page; … stands for any number of lines."""
    if SKIPPED not in wanted:
        return wanted == printed
    at = wanted.index(SKIPPED)
    rest = len(wanted) - at - 1
    return (
        len(printed) >= at + rest
        and printed[:at] == wanted[:at]
        and printed[len(printed) - rest :] == wanted[at + 1 :]
    )


@pytest.mark.night
def test_the_page_shows_what_happens(cloud: Emulator, ground: Any, tmp_path: Path) -> None:
    (ground.inventory / "group_vars/all/fleet.yml").write_text(FLEET)
    environment = {**ground.env, "PATH": f"{ROOT}/.venv/bin:{ground.env['PATH']}"}
    for command, wanted in steps(PAGE.read_text()):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        printed = done.stdout.splitlines()
        assert shows(wanted, printed), f"$ {command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    ("wanted", "printed", "same"),
    [
        (["0"], ["0"], True),
        (["0"], ["said", "0"], False),
        (["…", "0"], ["said", "0"], True),
        (["a", "…", "0"], ["b", "0"], False),
        ([], ["said"], False),
    ],
)
def test_what_counts_as_shown(wanted: list[str], printed: list[str], same: bool) -> None:
    assert shows(wanted, printed) == same


def test_the_page_has_commands() -> None:
    commands = [command for command, _lines in steps(PAGE.read_text())]
    assert len(commands) >= 7
    assert any(command.startswith("tpu-fleet plan --json") for command in commands)
