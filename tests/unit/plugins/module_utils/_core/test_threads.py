"""Threads that take no signal, and that there are no others in Ansible's own processes."""

from __future__ import annotations

import ast
import re
import signal
import sys
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._core import threads
from ansible_collections.tpu.fleet.plugins.module_utils._host import as_user

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"
# Their threads live in programs of this collection on a machine, and not in Ansible's processes.
ELSEWHERE = (
    "module_utils/_apply_agent/",
    "module_utils/_host/file_server.py",
    # Its threads are those of a run's program, as data.
    "module_utils/_evidence/evidence.py",
)
MADE_HERE = "module_utils/_core/threads.py"
OTHERS = {"Thread", "Timer", "ThreadPoolExecutor", "to_thread"}


def mask() -> set[int]:
    return {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def test_a_thread_takes_none_of_the_signals_that_stop_a_process() -> None:
    seen: list[set[int]] = []
    threads.start(lambda: seen.append(mask())).join(10)
    with threads.pool(2) as pool:
        seen += pool.map(lambda _number: mask(), range(4))
    assert len(seen) == 5
    assert all(one >= threads.STOPS for one in seen)
    assert not mask() & threads.STOPS, "the main thread takes them"


def test_a_program_that_such_a_thread_starts_takes_them_again() -> None:
    show = "import signal; print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))"
    found: list[bytes] = []

    def work() -> None:
        found.append(as_user.run([sys.executable, "-c", show], seconds=30).out)

    threads.start(work).join(60)
    assert found == [b"[]\n"]


def calls(path: Path) -> set[str]:
    """Return the names of what a file calls."""
    called = [
        one.func for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)
    ]
    whole = {ast.unparse(one) for one in called if isinstance(one, ast.Attribute | ast.Name)}
    return {*whole, *(name.rpartition(".")[2] for name in whole)}


def test_no_other_threads_are_started() -> None:
    # What starts none imports none of them either, and needs no closer look.
    paths = [
        path for path in PLUGINS.rglob("*.py") if not any(one in str(path) for one in ELSEWHERE)
    ]
    named = [path for path in paths if re.search("hread|asyncio", path.read_text())]
    assert len(named) > 5
    found = {str(path.relative_to(PLUGINS)): calls(path) for path in named}
    assert "Thread" in found.pop(MADE_HERE)
    assert [path for path, called in found.items() if called & OTHERS] == []
    # A loop starts threads by itself, to look addresses up.
    loops = [called for called in found.values() if "asyncio.run" in called]
    assert loops
    assert all("set_default_executor" in called for called in loops)
