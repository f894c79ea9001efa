#!/usr/bin/env python3
"""What uv saves against pip, and a shared cache against none, for the same environments.

    .venv/bin/python benchmarks/python_env.py [--rounds 1] [--skip-pip] [--slice 16]

Builds two environments (JAX with optax; one small package) in a temporary folder of this computer,
each time from nothing: with pip as people do by hand, and with the code of role python_env, which
resolves, installs, compiles and checks. A worker is a folder with a cache of its own; those of
--slice build at the same time. The workers of a slice resolve at the index, as the role does, and
install through the program of the role's shared cache, which counts what it had to download. All go
to the same index, one after the other; the wall clock is also that of everything else on this
computer, CPU seconds are not.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pwd
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.plugins.loader import init_plugin_loader

ROOT = Path(__file__).resolve().parents[1]
init_plugin_loader([str(ROOT / "collections")])
sys.path.insert(0, str(ROOT / "roles" / "python_env" / "files"))
sys.path.insert(0, str(ROOT / "tests" / "support"))

import package_cache  # noqa: E402
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.build import (  # noqa: E402
    Builder,
    Site,
    Tools,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import (  # noqa: E402
    VenvSpec,
    asked_lines,
)
from uv_tools import uv_tools  # noqa: E402

# That of this checkout: JAX needs a newer one than some systems have.
PYTHON = os.path.realpath(sys.executable)


def version_of(python: str) -> str:
    """Ask a Python for its version."""
    argv = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.check_output(argv, text=True).strip()


def the_set(python: str) -> list[VenvSpec]:
    """Say what is built."""
    jax = {"framework": "jax", "framework_version": "0.12.0.1", "packages": ("optax==0.2.8",)}
    return [
        VenvSpec(name="jax", path="/", python=python, **jax),  # type: ignore[arg-type]
        VenvSpec(name="small", path="/", python=python, packages=("tomli==2.0.2",)),
    ]


def tools(folder: Path, shared: str = "") -> Tools:
    """Make the role's tools, with caches in a folder."""
    return uv_tools(
        folder,
        lambda told: print(f"  ! {told}"),
        index_url=os.environ.get("UV_DEFAULT_INDEX", ""),
        shared_cache_url=shared,
        # There uv finds that Python.
        environment={"PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"},
        tries=3,
    )


def with_uv(folder: Path, specs: list[VenvSpec], shared: str = "") -> None:
    """Build the set as the role does, into new environments; the caches of the folder stay."""
    owner = pwd.getpwuid(os.getuid())
    made, index = tools(folder, shared), tools(folder)
    with made.at_work(), index.at_work():
        for spec in specs:
            builder = Builder(made, spec, "cpu", {}, index)
            place = folder / "venvs" / spec.name
            builder.build(builder.resolve(owner), place, Site(place, owner, owner))


def with_pip(folder: Path, specs: list[VenvSpec]) -> None:
    """Build the set as people do by hand."""
    # The same index for both: not what this computer's own settings of pip add.
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONDONTWRITEBYTECODE", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")
    }
    environment.update(PIP_CONFIG_FILE=os.devnull, PIP_CACHE_DIR=str(folder / "pip-cache"))
    if "UV_DEFAULT_INDEX" in os.environ:
        environment["PIP_INDEX_URL"] = os.environ["UV_DEFAULT_INDEX"]
    for spec in specs:
        venv = folder / "venvs" / spec.name
        subprocess.run([PYTHON, "-m", "venv", "--clear", venv], check=True)
        argv: list[str | Path] = [
            venv / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            *asked_lines(spec, "cpu"),
        ]
        subprocess.run(argv, check=True, env=environment)


def timed(what: str, action: Callable[[], Any]) -> dict[str, float]:
    """Measure one build of the set."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.monotonic() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {what:<52} {wall:8.1f} s wall  {cpu:7.1f} s CPU", flush=True)
    return {"wall": wall, "cpu": cpu}


def a_slice(folder: Path, specs: list[VenvSpec], shared: str, workers: int) -> None:
    """Build the set on so many workers at the same time."""
    processes = [
        multiprocessing.Process(target=with_uv, args=(folder / str(number), specs, shared))
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("A worker of the slice has failed.")


def one_round(
    folder: Path, specs: list[VenvSpec], *, pip: bool, workers: int
) -> dict[str, dict[str, float]]:
    """Measure all ways once."""
    found: dict[str, dict[str, float]] = {}
    if pip:
        found["pip"] = timed("pip, from nothing", lambda: with_pip(folder / "pip", specs))
        found["pip again"] = timed(
            "pip, with what it kept", lambda: with_pip(folder / "pip", specs)
        )
    alone = folder / "alone"
    found["uv"] = timed("uv, from nothing (an uncached worker)", lambda: with_uv(alone, specs))
    found["uv again"] = timed("uv, with its own cache", lambda: with_uv(alone, specs))

    server = package_cache.Server(
        {
            "address": "127.0.0.1",
            "port": 0,
            "folder": str(folder / "shared"),
            "indexes": {"default": os.environ.get("UV_DEFAULT_INDEX", "")},
        }
    )
    cache = server.cache
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        found["first"] = timed(
            "uv through the shared cache, the first worker",
            lambda: with_uv(folder / "first", specs, url),
        )
        first = cache.counts["bytes"]
        found["second"] = timed(
            "uv through the shared cache, the second (a cached worker)",
            lambda: with_uv(folder / "second", specs, url),
        )
        second = cache.counts["bytes"] - first
        if workers:
            found["slice"] = timed(
                f"a slice of {workers} through the shared cache, at once",
                lambda: a_slice(folder / "slice", specs, url, workers),
            )
    finally:
        server.shutdown()
        server.server_close()
    found["bytes"] = {"first": first / 1e6, "second": second / 1e6}
    print(f"  downloaded for the first {first / 1e6:.1f} MB, for the second {second / 1e6:.1f} MB")
    if workers:
        print(f"  downloaded for the slice {(cache.counts['bytes'] - first - second) / 1e6:.1f} MB")
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--skip-pip", action="store_true", help="leave the slow half out")
    parser.add_argument("--slice", type=int, default=0, metavar="WORKERS", help="none by default")
    options = parser.parse_args()
    specs = the_set(version_of(PYTHON))
    rounds = []
    for number in range(options.rounds):
        print(f"round {number + 1}: {', '.join(spec.name for spec in specs)}")
        folder = Path(tempfile.mkdtemp(prefix="tpu-fleet-python-env-"))
        try:
            rounds.append(one_round(folder, specs, pip=not options.skip_pip, workers=options.slice))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    print("\nratios (median of the rounds)              wall    CPU")
    for slow, fast, what in (
        ("pip", "uv", "pip / uv, both from nothing"),
        ("pip again", "uv again", "pip / uv, both with what they kept"),
        ("uv", "uv again", "uv from nothing / with its own cache"),
        ("uv", "second", "uncached / cached worker (shared cache)"),
    ):
        if slow in rounds[0]:
            wall, cpu = (
                statistics.median(found[slow][key] / found[fast][key] for found in rounds)
                for key in ("wall", "cpu")
            )
            print(f"  {what:<40} {wall:6.1f} {cpu:6.1f}")


if __name__ == "__main__":
    main()
