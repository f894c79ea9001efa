"""Workers of a slice that begin together download an environment once: counted at the index."""

from __future__ import annotations

import io
import os
import pwd
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import beside
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
    build as _venv_build,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.build import (
    Builder,
    Site,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import VenvSpec
from package_index import Index
from package_index import serve as serve_index
from uv_tools import uv_tools

ROOT = Path(__file__).resolve().parents[4]
PYTHON = "/usr/bin/python3"
PROGRAM = ROOT / "roles" / "python_env" / "files" / "package_cache.py"
package_cache = beside.load(PROGRAM, "package_cache")

WORKERS = 4


class Apart(Index):
    """An index that offers the metadata of wheels apart, as PyPI does."""

    def answer(self, path: str, authorization: str) -> tuple[int, str, bytes]:
        wheel, apart, _end = path.partition(".metadata")
        status, kind, body = super().answer(wheel, authorization)
        if kind == "text/html":
            body = body.replace(b'">', b'" data-core-metadata="true">')
        elif apart and status == 200:
            with zipfile.ZipFile(io.BytesIO(body)) as packed:
                (name,) = (one for one in packed.namelist() if one.endswith(".dist-info/METADATA"))
                body = packed.read(name)
        return status, kind, body


class Slice:
    """The workers of a slice, as folders of this computer, and an index that counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        self.index = Apart()
        self.index.add("big", "1.0", text="x = 1\n" * 300_000)
        self.index.add("top", "2.0", requires=["big"])
        self.index.add("pip", "26.0")
        self.server = serve_index(self.index)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/simple"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def install(self, workers: list[int], shared: str = "") -> int:
        """Let workers, each with its own cache, build the environment at once; count the bytes."""
        before = sum(self.index.sent)
        together = threading.Barrier(len(workers))
        with ThreadPoolExecutor(len(workers)) as pool:
            for packages in pool.map(lambda worker: self.one(worker, shared, together), workers):
                assert packages == {"big": "1.0", "pip": "26.0", "top": "2.0"}
        return sum(self.index.sent) - before

    def one(self, worker: int, shared: str, together: threading.Barrier) -> dict[str, str]:
        """Do on one worker what the role's module does."""
        folder = self.folder / str(worker)
        params = {"compile_bytecode": False, "index_url": self.address}
        tools = uv_tools(folder, self.warnings.append, shared_cache_url=shared, **params)
        index = uv_tools(folder, self.warnings.append, **params)
        argv = [PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        version = subprocess.check_output(argv, text=True).strip()
        spec = VenvSpec(name="env", path="/", python=version, packages=("top==2.0",))
        owner = pwd.getpwuid(os.getuid())
        together.wait()
        with tools.at_work(), index.at_work():
            site = Site(folder / "env", owner, owner)
            builder = Builder(tools, spec, "cpu", {}, index)
            built: dict[str, Any] = builder.build(builder.resolve(owner), folder / "venv", site)
        return dict(built["packages"])

    @contextmanager
    def cache_of_worker_0(self, after: float) -> Iterator[str]:
        """Bring the shared cache up some seconds after the workers have begun."""
        config = {
            "address": "127.0.0.1",
            "port": self.port,
            "folder": str(self.folder / "shared"),
            "indexes": {"default": self.address},
        }
        servers: list[Any] = []

        def serve() -> None:
            servers.append(package_cache.Server(config))
            servers[0].serve_forever()

        starter = threading.Timer(after, serve)
        starter.daemon = True
        starter.start()
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            starter.cancel()
            for server in servers:
                server.shutdown()
                server.server_close()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Slice]:
    made = Slice(tmp_path)
    yield made
    made.stop()


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the module runs as root")


def test_four_workers_fetch_hardly_more_than_one(pod: Slice) -> None:
    one = pod.install([100])
    pages = pod.index.asked.count("/simple/top/")
    with pod.cache_of_worker_0(after=1.0) as shared:
        four = pod.install(list(range(WORKERS)), shared)
    # Each worker resolves at the index itself, and the cache asks once for all that install.
    assert pod.index.asked.count("/simple/top/") == pages + WORKERS + 1
    each_for_itself = pod.install([200, 201])
    print(
        f"bytes from outside: one worker {one}, four {four}, two without a cache {each_for_itself}"
    )
    assert one > 1_000_000
    assert each_for_itself == 2 * one
    assert four <= 1.1 * one
    assert pod.warnings == []


def test_who_finds_no_cache_asks_the_index_and_says_so(
    pod: Slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_venv_build, "SHARED_SECONDS", 0.0)
    assert pod.install([0], f"http://127.0.0.1:{pod.port}") > 1_000_000
    assert "does not answer" in pod.warnings[0]
