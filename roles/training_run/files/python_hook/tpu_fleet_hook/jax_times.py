"""Note when JAX is imported, and for how long it compiles, restores and saves.

JAX and Orbax report that themselves (jax.monitoring), so the program need not change. The first
process that imports JAX writes it to the run's own file; when that has ended, the next one does.
In a process without JAX only the names of imported modules are looked at.
"""

import os
import sys
import time
from _thread import allocate_lock

_PATH = os.environ["TPU_FLEET_TIMES"]
_COMPILE = "/jax/core/compile/"
_CHECKPOINTS = ("/jax/orbax/", "/jax/checkpoint/")
_READ = ("/blocking_duration_secs", "/total_duration_secs", "/durations_sec")
_WRITE = ("/blocking_duration_secs", "wait_prev_duration_secs", "/wait_for_prev_duration_secs")
_COUNTED = {
    "/jax/compilation_cache/cache_hits": "hits",
    "/jax/compilation_cache/cache_misses": "misses",
}
_WORTH = 0.05  # seconds that are written at once
_EVERY = 1.0  # seconds between two writings of less
_KEPT = 4096  # intervals in which shorter ones may lie


def _kind_of(event):
    """Return what a time is counted as; nothing for what does not keep the program from a step."""
    if event.startswith(_COMPILE):
        return "compile"
    if not event.startswith(_CHECKPOINTS) or "/worker/" in event:
        return None
    if "/read/" in event and event.endswith(_READ):
        return "restore"
    return "save" if "/write/" in event and event.endswith(_WRITE) else None


class _Times:
    """Sums of one process. Of times within each other, each moment counts once, as the inner."""

    def __init__(self):
        self.seconds = {"import": 0.0, "compile": 0.0, "restore": 0.0, "save": 0.0}
        self.counts = {"programs": 0, "hits": 0, "misses": 0}
        self._intervals = []
        self._lock = allocate_lock()
        self._pid = os.getpid()
        self._written = 0.0
        self._new = 0.0

    def add(self, kind, begin, end):
        """Count an interval that has just ended."""
        with self._lock:
            covered = 0.0
            while self._intervals and self._intervals[-1][0] >= begin:
                inner = self._intervals.pop()
                covered += inner[1] - inner[0]
            if self._intervals and self._intervals[-1][1] > begin:
                covered += min(self._intervals[-1][1], end) - begin
            self._intervals.append((begin, end))
            del self._intervals[:-_KEPT]
            new = max(0.0, end - begin - covered)
            self.seconds[kind] += new
            self._new += new
            if self._new >= _WORTH or end - self._written >= _EVERY:
                self._write(end)

    def heard(self, event, duration, **_more):
        """Take in what JAX reports."""
        kind = _kind_of(event)
        if kind is None or os.getpid() != self._pid:  # not of a child that was forked
            return
        if event.endswith("backend_compile_duration"):
            self.counts["programs"] += 1
        now = time.time()
        self.add(kind, now - duration, now)

    def counted(self, event, **_more):
        """Take in that the compilation cache had something, or had not."""
        name = _COUNTED.get(event)
        if name is not None and os.getpid() == self._pid:
            self.counts[name] += 1

    def _write(self, now):
        """Write the file, if no other process has it, and the disk takes it."""
        from contextlib import suppress

        self._written, self._new = now, 0.0
        with suppress(OSError):
            if self._is_ours():
                self._replace()

    def _replace(self):
        import json

        new = _PATH + "." + str(self._pid)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(new, flags, 0o600)
        try:
            told = {"pid": self._pid, **self.counts, "seconds": self.seconds}
            os.write(handle, json.dumps(told).encode())
        finally:
            os.close(handle)
        os.replace(new, _PATH)  # noqa: PTH105

    def _is_ours(self):
        """Return whether no other process that lives has written the file."""
        import json

        try:
            with open(_PATH, encoding="utf-8") as stream:
                pid = int(json.load(stream)["pid"])
            os.kill(pid, 0)
        except (OSError, ValueError, KeyError, TypeError):
            return True
        return pid == self._pid


class _Finder:
    """Learns when JAX is imported; what it is found by are the other finders."""

    def find_spec(self, name, path=None, target=None):
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _watch(spec)
                return spec
        return None


def _watch(spec):
    """Have the times begin when the module has been loaded, whatever becomes of them."""
    load, begin = spec.loader.exec_module, time.time()

    def exec_module(module):
        load(module)
        from contextlib import suppress

        with suppress(Exception):  # the program has no use for it
            _listen(begin)

    spec.loader.exec_module = exec_module


def _listen(begin):
    from jax import monitoring

    times = _Times()
    monitoring.register_event_duration_secs_listener(times.heard)
    monitoring.register_event_listener(times.counted)
    times.add("import", begin, time.time())


sys.meta_path.insert(0, _Finder())
