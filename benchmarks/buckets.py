#!/usr/bin/env python3
"""What large objects cost the local cloud: memory and time for uploads and downloads.

    .venv/bin/python benchmarks/buckets.py [--objects 5] [--size 1000000000] [--records DIR]

Each way uploads its objects one after the other and reads one of them. The clients are here, the
server is a process of its own, whose memory is its largest since it began.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import requests
from local_api import local_api
from measure import Cost, Line, promises, record, table

PART = 1 << 20
CHUNK = 64 << 20
# MiB that the server may take, whatever the objects' size.
MOST = 100


def main() -> None:
    """Measure all ways."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=5)
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--records", type=Path)
    asked = parser.parse_args()
    runs, peak = {}, 0.0
    for way in (by_media, by_multipart, by_chunks):
        # Beside the checkout, because /tmp is often in memory.
        with (
            tempfile.TemporaryDirectory(prefix="buckets-", dir=asked.records or "/var/tmp") as name,  # noqa: S108
            local_api(Path(name)) as address,
        ):
            server = _server(Path(name))
            requests.post(f"{address}storage/v1/b", json={"name": "lab"}, timeout=30)
            runs[way.__name__] = [_measured(way, address, server, asked.objects, asked.size)]
            peak = max(peak, _peak(server))
    lines = [Line("MiB of the server's memory", peak, MOST)]
    print(table(runs, "by_media"))
    print(promises(lines))
    target = asked.records / "buckets.json" if asked.records else None
    record(target, "buckets", runs, lines, objects=asked.objects, size=asked.size)


def _server(folder: Path) -> int:
    return int((folder / "server.pid").read_text())


def _measured(way, address: str, server: int, objects: int, size: int) -> Cost:  # type: ignore[no-untyped-def]
    begun, cpu = time.monotonic(), _cpu(server)
    for number in range(objects):
        way(address, f"o{number}", size)
    wanted = hashlib.md5(usedforsecurity=False)
    for part in content(size):
        wanted.update(part)
    if _read(address, f"o{objects // 2}") != wanted.digest():
        raise SystemExit(f"{way.__name__}: another content came down than went up")
    return Cost(time.monotonic() - begun, _cpu(server) - cpu, _peak(server))


def content(size: int, first: int = 0) -> Iterator[bytes]:
    """Yield bytes that differ from part to part."""
    for place in range(first, size, PART):
        seed = hashlib.sha256(str(place).encode()).digest()
        yield (seed * (PART // len(seed)))[: min(PART, size - place)]


def by_media(address: str, name: str, size: int) -> None:
    """Upload an object in one request, as TensorStore does."""
    place = f"{address}upload/storage/v1/b/lab/o?uploadType=media&name={name}"
    requests.post(place, content(size), timeout=600).raise_for_status()


def by_multipart(address: str, name: str, size: int) -> None:
    """Upload an object with its metadata."""

    def body() -> Iterator[bytes]:
        yield b'--X\r\nContent-Type: application/json\r\n\r\n{"name": "%s"}' % name.encode()
        yield b"\r\n--X\r\nContent-Type: application/octet-stream\r\n\r\n"
        yield from content(size)
        yield b"\r\n--X--\r\n"

    place = f"{address}upload/storage/v1/b/lab/o?uploadType=multipart"
    headers = {"Content-Type": "multipart/related; boundary=X"}
    requests.post(place, body(), headers=headers, timeout=600).raise_for_status()


def by_chunks(address: str, name: str, size: int) -> None:
    """Upload an object resumably, as gcsfs and google-cloud-storage do."""
    begun = f"{address}upload/storage/v1/b/lab/o?uploadType=resumable&name={name}"
    place = requests.post(begun, timeout=30).headers["Location"]
    for first in range(0, size, CHUNK):
        last = min(size, first + CHUNK)
        headers = {"Content-Range": f"bytes {first}-{last - 1}/{size}"}
        chunk = b"".join(content(last, first))
        requests.put(place, chunk, headers=headers, timeout=600).raise_for_status()


def _read(address: str, name: str) -> bytes:
    sums = hashlib.md5(usedforsecurity=False)
    place = f"{address}storage/v1/b/lab/o/{name}?alt=media"
    with requests.get(place, stream=True, timeout=600) as answer:
        for part in answer.iter_content(PART):
            sums.update(part)
    return sums.digest()


def _peak(server: int) -> float:
    words = Path(f"/proc/{server}/status").read_text().split()
    return int(words[words.index("VmHWM:") + 1]) / 1024


def _cpu(server: int) -> float:
    words = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
