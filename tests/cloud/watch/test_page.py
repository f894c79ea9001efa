"""`tpu-fleet page` and `history`, where no worker answers."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import requests
from emulator import ROOT, Emulator
from json_forms import conforms

SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": Emulator.zone}


def command(watched: Any, *words: str) -> list[str]:
    watched.get(SOLO)
    watched.declare(fleet_slices=[SOLO])
    return [sys.executable, "-m", "tpu_fleet", *words]


def run(watched: Any, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tpu_fleet", *words],
        cwd=ROOT, env=watched.env(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_written_and_says_who_does_not_answer(cloud: Emulator, watched: Any) -> None:
    command(watched, "page")
    file = watched.folder / "team.html"
    assert run(watched, "page", "--output", str(file)) == f"{file.as_uri()}\n"
    text = file.read_text()
    assert "1 of 1 slices ready · 0 of 1 workers answer" in text
    # What the page has seen is kept, and so is what `status` sees.
    told = conforms(["history"], run(watched, "history", "--json"))
    assert (told["runs"], told["events"], told["verdict"]["failed"]) == ([], [], [])
    run(watched, "status")
    assert len(list((watched.folder / "state/watch").glob("*/history.db"))) == 1


def test_a_place_that_is_not_there_is_named(cloud: Emulator, watched: Any) -> None:
    argv = command(watched, "page", "--output", "/nowhere/x.html")
    done = subprocess.run(
        argv, cwd=ROOT, env=watched.env(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "/nowhere is no folder here. Make it, or name another place." in done.stderr


def test_it_is_served_until_ctrl_c(cloud: Emulator, watched: Any) -> None:
    process = subprocess.Popen(
        command(watched, "page", "--serve", "--interval", "1"),
        cwd=ROOT, env=watched.env(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert requests.get(f"{address[:-5]}/", timeout=20).status_code == 404
        assert "local-project" in requests.get(address, timeout=20).text
        answer = requests.get(address, headers={"Host": "evil.example"}, timeout=20)
        assert (answer.status_code, answer.text) == (421, "")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout.close()
    finally:
        process.kill()
        process.wait()
