"""Limits of what is sent to workers, each met by a program of that kind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tpu_fleet import on_worker
from tpu_fleet.workers.ask.worker_program import PACKAGE, program

SOON = {"CPU = 30": "CPU = 1", "LIFE = 90": "LIFE = 2", "MEMORY = 1 << 30": "MEMORY = 1 << 28"}
ENDLESS = {
    "a long search": "import re; re.match('(a*)*b', 'a' * 40)",
    "a share that hangs": "import time; time.sleep(600)",
    "much memory": "kept = bytearray(1 << 29)",
}


@contextmanager
def started(main: str, **soon: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that does this, with the limits of `soon`."""
    text = program("run_states", "runs").replace(
        "sys.exit(last.main())", f"print('begun', flush=True); {main}"
    )
    for old, new in soon.items():
        assert old in text
        text = text.replace(old, new)
    command = [sys.executable, "-I", "-c", text]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        yield process
        process.kill()


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_reader_that_meets_a_limit_ends(kind: str) -> None:
    with started(ENDLESS[kind], **SOON) as process:
        code = process.wait(60)
        assert code in (-signal.SIGXCPU, -signal.SIGALRM, 1)


def test_a_reader_ends_with_its_caller_though_its_input_stays_open() -> None:
    with started("import time; time.sleep(600)") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 1


def test_a_sign_of_life_gives_it_more_time() -> None:
    grant = f"sys.modules['{PACKAGE}.limits'].grant()"
    spin = "import time\nfor _ in range(3):\n    time.sleep(1)\n    " + grant
    with started(f"exec({spin!r})", **SOON) as process:
        assert process.wait(60) == 0


@pytest.mark.parametrize("names", [on_worker.MODULES, on_worker.PAST, on_worker.READ])
def test_every_program_is_limited_before_it_reads(names: tuple[str, ...]) -> None:
    text = program(*names)
    assert text.index(f"{PACKAGE}.limits") < text.index(f"{PACKAGE}.runs")
    assert "last.begin()" in text


def test_a_listing_still_answers() -> None:
    text = program(*on_worker.MODULES)
    order = json.dumps({"do": "list"})
    done = subprocess.run(
        [sys.executable, "-I", "-c", text, order], stdin=subprocess.DEVNULL, capture_output=True
    )
    assert done.returncode == 0
    assert b'"runs"' in done.stdout
