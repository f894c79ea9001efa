"""A gRPC server on a Unix socket in a folder of its own."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc


class UnixGrpc(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Serves what `service` of a class below it has, at `path`."""

    def __init__(self, name: str, workers: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"tpu-{name}-"))
        self.path = str(self._folder / "grpc")
        pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._server = grpc.server(pool, handlers=(self,))
        self._server.add_insecure_port(f"unix:{self.path}")

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self) -> None:
        """End."""
        self._server.stop(1.0).wait()
        shutil.rmtree(self._folder, ignore_errors=True)
