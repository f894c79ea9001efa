"""Record a profile of this process when `tpu-fleet profile` asks for one.

tpu_fleet_hook/profile.py begins this once the program imports JAX or torch_xla. A thread waits for
SIGNAL, whose handler is faulthandler's: that is C code, so it also runs while the main thread is in
C code, where a handler of Python's would wait for its end. So the signal is caught exactly where
there is something to profile. What is asked for stands in a file of the run's user, and so does the
answer (src/tpu_fleet/on_worker/profiler.py writes the one and reads the other). This runs in the
programs' own Pythons, also old ones.
"""

import contextlib
import faulthandler
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path

SIGNAL = 58  # a real-time signal; 59 asks for stacks
_MOST_PROGRESS = 500  # bytes, as the agent reads it
_SECONDS_OF_SERVER = 60
_LOOK = 0.05  # seconds
_GENERATOR = 0x20  # of a function's flags
_MOST_ITERATORS = 100


class Refused(Exception):
    """There can be no profile; the message says why."""


def begin():
    """Be ready from now on. A child that is forked is not: it has no thread that waits."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a handler never waits
    faulthandler.register(SIGNAL, file=writing, all_threads=False, chain=False)
    os.register_at_fork(after_in_child=lambda: faulthandler.unregister(SIGNAL))
    name = "tpu-fleet-profile"
    threading.Thread(target=_wait, args=(reading,), name=name, daemon=True).start()


def _wait(reading):
    """Answer each request; what the handler writes has no other meaning than that it ran."""
    while os.read(reading, 1 << 16):
        with contextlib.suppress(Exception):  # a signal without a request, a folder that is gone
            _answer(Path(os.environ["TPU_FLEET_PROGRESS"]).parent / "profile")


def _answer(folder):
    place = folder / f"{os.getpid()}.asked"
    asked = json.loads(place.read_text(encoding="utf-8"))
    place.unlink()
    told = {"state": "waits"}

    def tell(**more):
        told.update(more)
        _write(folder / f"{os.getpid()}.told", told)

    try:
        _record(asked, tell)
    except BaseException as error:
        known = isinstance(error, Refused)
        says = str(error) if known else f"{type(error).__name__}: {error}"
        tell(state="failed", says=says[:1000])


def _write(path, told):
    half = path.with_suffix(".new")
    half.write_text(json.dumps(told), encoding="utf-8")
    half.replace(path)


def _record(asked, tell):
    """Record from asked["begin"] on, by this machine's clock; leave one file at asked["target"]."""
    framework, record = _way()
    tell(framework=framework)

    def wait_for_the_moment():
        time.sleep(max(0.0, asked["begin"] - time.time()))
        tell(state="records", begun=time.time(), first_step=_step())

    def wait_for_the_end():
        iterators = _iterators(asked["seconds"])
        tell(ended=time.time(), last_step=_step(), iterators=iterators, state="writes")

    folder = asked["target"] + ".d"
    try:
        record(folder, asked["seconds"], wait_for_the_moment, wait_for_the_end)
        size = _take_one(folder, Path(asked["target"]), asked["most_bytes"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tell(state="done", bytes=size)


def _iterators(seconds):
    """Sleep; return the generator functions that ran meanwhile, as the profile names them.

    A loop over one calls nothing that a profile would show as an iterator.
    """
    found, end = set(), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(max(0.0, min(_LOOK, end - time.monotonic())))
        for frame in sys._current_frames().values():
            while frame is not None:
                if frame.f_code.co_flags & _GENERATOR and len(found) < _MOST_ITERATORS:
                    found.add(frame.f_code)
                frame = frame.f_back
    named = ((os.path.basename(one.co_filename), one) for one in found)  # noqa: PTH119 - any text
    return [f"{file}:{one.co_firstlineno} {one.co_name}"[:200] for file, one in named]


def _step():
    """Return the step that the program has written down, as the agent reads it."""
    try:
        with Path(os.environ["TPU_FLEET_PROGRESS"]).open("rb") as stream:
            step = json.loads(stream.read(_MOST_PROGRESS).decode("utf-8")).get("step")
    except (OSError, ValueError, AttributeError):
        return None
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _way():
    """Return name and version of the framework, and how it records."""
    jax, torch_xla = sys.modules.get("jax"), sys.modules.get("torch_xla")
    bridge = sys.modules.get("jax._src.xla_bridge")
    # To ask for a device would make JAX take the chips in a process that has none.
    if getattr(bridge, "_backends", None):
        if not hasattr(getattr(jax, "profiler", None), "start_trace"):
            raise Refused(f"{_named('jax', jax)} has no profiler that can be started")
        return _named("jax", jax), _by_jax
    if torch_xla is not None:
        return _named("torch_xla", torch_xla), _by_torch_xla
    if not hasattr(bridge, "_backends"):
        raise Refused(f"{_named('jax', jax)} is too old, or its import goes on")
    raise Refused(f"{_named('jax', jax)} has used no device yet")


def _named(name, module):
    return f"{name} {getattr(module, '__version__', '?')}"


def _by_jax(folder, _seconds, wait_for_the_moment, wait_for_the_end):
    # No server: it would listen on all addresses, and ask for no password.
    profiler = sys.modules["jax"].profiler
    wait_for_the_moment()
    profiler.start_trace(folder)
    try:
        wait_for_the_end()
    finally:
        profiler.stop_trace()


def _by_torch_xla(folder, seconds, wait_for_the_moment, wait_for_the_end):
    # It records only through its server, which this process asks itself and then ends.
    import socket

    import torch_xla.debug.profiler as profiler

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = profiler.start_server(port, only_on_master=False)
    wait_for_the_moment()
    end = threading.Thread(target=wait_for_the_end, daemon=True)
    end.start()
    profiler.trace(
        f"127.0.0.1:{port}",
        folder,
        duration_ms=int(seconds * 1000),
        num_tracing_attempts=1,
        timeout_s=_SECONDS_OF_SERVER,
    )
    end.join()
    del server


def _take_one(folder, target, most):
    """Move the profile to its place; return its size in bytes."""
    found = list(Path(folder).rglob("*.xplane.pb"))
    if not found:
        raise Refused("its profiler wrote no profile")
    largest = max(found, key=lambda path: path.stat().st_size)
    size = largest.stat().st_size
    if size > most:
        raise Refused(
            f"its profile has {size} bytes, and {most} at most are taken: ask for fewer --seconds"
        )
    largest.replace(target)
    return size
