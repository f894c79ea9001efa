"""A profile of a run of JAX on CPUs: all workers, the same steps, and the run goes on."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_python import example_python, xprof_python
from playwright.sync_api import Page, sync_playwright

from tpu_fleet.commands.profile import Recorded, Wanted, tables_of, take_in
from tpu_fleet.commands.tunnel import answers, free_port, running
from tpu_fleet.show import serve_profiles
from tpu_fleet.workers.profile.bring import Answer, Bringer, Moment

harness = sys.modules["run_agent_harness"]
WORKERS = 4
SESSION = "2026_11_29_17_22_21"
PROGRAM = Path(__file__).with_name("profiled.py")
RECORDER = (
    "import sys; from tpu_fleet.on_worker import limits, profiler; limits.begin(); "
    "sys.exit(profiler.main(sys.argv[1]))"
)
PLACES = {
    "state": "var/lib/tpu-fleet/runs/demo",
    "runtime": "run/tpu-fleet/runs/demo",
    "log": "var/log/tpu-fleet/runs/demo",
}


class LocalChannel:
    """The streams of a process in the place of those of a connection."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.target = SimpleNamespace(name=name)
        self.readline = process.stdout.readline
        self.readexactly = process.stdout.readexactly
        self._input = process.stdin

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()


def as_on_a_machine(worker: Any) -> Path:
    """Have a worker keep its files where a machine has them, below a folder that is returned."""
    root = worker.folder / "machine"
    for name, place in PLACES.items():
        (root / place).mkdir(parents=True)
        (worker.folder / {"runtime": "r"}.get(name, name)).symlink_to(root / place)
    (root / "proc").symlink_to("/proc")
    paths = {name: str(root / place) for name, place in PLACES.items()}
    worker.define({**worker.given, "paths": {**paths, "log": f"{paths['log']}/run.log"}})
    return root


async def asked(roots: Sequence[Path], folder: Path, seconds: float) -> list[Answer]:
    bringer = Bringer(Moment(len(roots)), folder)
    order = json.dumps({"run": "demo", "seconds": seconds, "most_bytes": 1 << 28})

    async def of(number: int, root: Path) -> Answer:
        words = (sys.executable, "-c", RECORDER, str(root), order)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        try:
            return await bringer.talk(LocalChannel(f"pair-w{number}", process))  # type: ignore[arg-type]
        finally:
            assert await process.wait() == 0

    return list(await asyncio.gather(*(of(*one) for one in enumerate(roots))))


def steps(worker: Any) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+)", worker.log(), re.MULTILINE)]


@contextmanager
def served(folder: Path, log: Path) -> Iterator[str]:
    """Serve a folder with XProf as --open does; yield the address."""
    port = free_port(0)
    with log.open("wb") as said:
        words = [xprof_python(), "-P", serve_profiles.__file__, str(folder), str(port)]
        with running(words, said):
            harness.wait_until(lambda: answers(port), "XProf")
            yield f"http://127.0.0.1:{port}"


@contextmanager
def page() -> Iterator[Page]:
    path = shutil.which("chromium")
    assert path, "There is no chromium: run scripts/test-packages."
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=path)
        yield browser.new_page()
        browser.close()


# Four processes of JAX, XProf and a browser. CI has tests/unit/src/on_worker/test_profiler.py, with
# a few lines that stand for JAX, and tests/unit/src/workers/profile.
@pytest.mark.night
def test_all_workers_record_the_same_steps_and_the_run_goes_on(
    gang: Callable[..., list[Any]], tmp_path: Path
) -> None:
    hosts = [f"127.0.0.{number}" for number in range(2, 2 + WORKERS)]
    workers = gang(f"exec {example_python()} {PROGRAM}", workers=WORKERS, hosts=hosts)
    roots = [as_on_a_machine(worker) for worker in workers]
    for worker in workers:
        worker.up()
    for worker in workers:
        harness.wait_until(lambda worker=worker: len(steps(worker)) > 20, "twenty steps")
    pids = [worker.status()["pid"] for worker in workers]

    # In turn, as a program can be profiled more than once.
    for number in range(2):
        half = tmp_path / str(number)
        half.mkdir()
        recorded = Recorded(Wanted("demo", 2.0, None))
        for answer in asyncio.run(asked(roots, half, 2.0)):
            assert answer.missing == ()
            recorded.found += [(profile, None) for profile in answer.profiles]
        folder = tmp_path / f"demo-profile-{number}"
        take_in(recorded, half, folder, SESSION)

    found = [profile for profile, _shares in recorded.found]
    names = [f"pair-w{number}.xplane.pb" for number in range(WORKERS)]
    place = folder / "plugins/profile" / SESSION
    assert sorted(path.name for path in place.iterdir()) == names
    assert {profile.framework.split()[0] for profile in found} == {"jax"}
    # All wait for all in each step, so none can be further than one step from another.
    first = [profile.first_step for profile in found]
    assert max(first) - min(first) <= 1
    assert all(one.last_step - one.first_step > 3 for one in found)
    assert all(abs(one.late) < 1.0 and 2.0 <= one.seconds < 4.0 for one in found)
    shares = [of_devices for _profile, of_devices in recorded.found]
    # A batch takes 30 ms, and a step on a busy computer twice as long at most.
    assert all(one.devices == 1 and one.input > 0.3 and one.idle >= one.input for one in shares)
    assert all(0 < one.collectives < 1 for one in shares)
    assert "collective" in {one.kind for one in recorded.operations}

    shown = [str(line) for table in tables_of(recorded) for line in table.lines(80)]
    print("\n".join(shown))
    assert all(len(line) <= 80 for line in shown)
    assert recorded.while_idle[0].name == "profiled.py:20 batches"

    after = max(steps(workers[0]))
    harness.wait_until(lambda: max(steps(workers[0])) > after + 20, "more steps")
    for worker, pid in zip(workers, pids, strict=True):
        done = steps(worker)
        assert done == list(range(len(done)))
        assert (worker.status()["pid"], worker.status()["attempt"]) == (pid, 1)
        assert not list((worker.folder / "log").glob("profile*"))

    with served(folder, tmp_path / "xprof.log") as address, page() as here:
        here.goto(address, timeout=120_000)
        here.get_by_text(SESSION).first.wait_for()
        hosts = ",".join(f"pair-w{number}" for number in range(WORKERS))
        about = f"run={SESSION}&tag=trace_viewer@&hosts={hosts}"
        here.goto(f"{address}/data/plugin/profile/trace_viewer@?{about}")
        for number in range(WORKERS):
            shown = here.frame_locator("iframe").get_by_text(f"pair-w{number} /host:CPU")
            shown.filter(visible=True).first.wait_for(timeout=60_000)
