"""Objects when the server is killed, and when the disk is full."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from ports import free_port

UPLOAD, OBJECTS = "upload/storage/v1/b/lab/o", "storage/v1/b/lab/o"
QUANTUM = 256 * 1024
MIB = 1 << 20


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path, largest_file: int = -1) -> None:
        self.folder, self.largest = folder, largest_file
        self.config = folder / "config.json"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/"
        config = {"hosts": "none", "host": "127.0.0.1", "port": port, "state_dir": str(folder)}
        self.config.write_text(json.dumps(config))
        self.start()
        made = requests.post(f"{self.url}storage/v1/b", json={"name": "lab"}, timeout=30)
        made.raise_for_status()

    def start(self) -> None:
        """Serve, until killed."""

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest, self.largest))

        words = [sys.executable, "-m", "tpu_local_cloud.serve.server", "--config", str(self.config)]
        log = (self.folder / "log").open("a")
        self.process = subprocess.Popen(words, stderr=log, preexec_fn=limit)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                requests.get(f"{self.url}storage/v1/b", timeout=5).raise_for_status()
                return
            except requests.RequestException:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
        pytest.fail("the server does not answer")

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def names(self) -> list[str]:
        """Return the names of all objects."""
        found = requests.get(f"{self.url}{OBJECTS}", timeout=60).json()
        return [item["name"] for item in found.get("items", [])]

    def content(self, name: str) -> bytes:
        """Return the content of an object."""
        answer = requests.get(f"{self.url}{OBJECTS}/{name}?alt=media", timeout=60)
        answer.raise_for_status()
        return answer.content


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    made = Served(tmp_path, getattr(request, "param", -1))
    yield made
    made.kill()


def content_of(name: str) -> bytes:
    """Return what an object of this name has: nothing that a half could be taken for."""
    seed = hashlib.sha256(name.encode()).digest()
    return seed * (1 + seed[0] * 400)


class Writer(threading.Thread):
    """Uploads objects one after the other until the server is gone."""

    def __init__(self, url: str, mark: str, resumable: bool) -> None:
        super().__init__()
        self.url, self.mark, self.resumable = url, mark, resumable
        self.acknowledged: list[str] = []
        # Address of an upload, its object, and how many bytes were acknowledged.
        self.open: tuple[str, str, int] = ("", "", 0)

    def run(self) -> None:
        """Write."""
        session = requests.Session()
        try:
            for number in range(100_000):
                name = f"{self.mark}-{number}"
                (self.in_chunks if self.resumable else self.at_once)(session, name)
                self.acknowledged.append(name)
        except requests.RequestException:
            return

    def at_once(self, session: requests.Session, name: str) -> None:
        """Upload an object in one request."""
        place = f"{self.url}{UPLOAD}?uploadType=media&name={name}"
        session.post(place, content_of(name), timeout=60).raise_for_status()

    def in_chunks(self, session: requests.Session, name: str) -> None:
        """Upload an object in several requests."""
        begun = session.post(f"{self.url}{UPLOAD}?uploadType=resumable&name={name}", timeout=60)
        content, have = content_of(name), 0
        place = begun.headers["Location"]
        while True:
            self.open = (place, name, have)
            part = content[have : have + QUANTUM]
            end, total = have + len(part), len(content)
            last = f"bytes {have}-{end - 1}/{total if end == total else '*'}"
            answer = session.put(place, part, headers={"Content-Range": last}, timeout=60)
            answer.raise_for_status()
            if answer.status_code == 200:
                return
            have = end


def test_killed_in_the_middle_of_uploads(served: Served) -> None:
    """What was acknowledged is there, what is there is whole, what was begun goes on."""
    for lap in range(3):
        writers = [Writer(served.url, f"{lap}-{n}", n % 2 == 1) for n in range(4)]
        for writer in writers:
            writer.start()
        deadline = time.monotonic() + 30
        while not any(writer.acknowledged for writer in writers) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2 + lap * 0.2)
        served.kill()
        for writer in writers:
            writer.join(60)
        served.start()
        there = set(served.names())
        for writer in writers:
            assert set(writer.acknowledged) <= there
        assert sum(len(writer.acknowledged) for writer in writers) > 0
        for name in there:
            assert served.content(name) == content_of(name)
        for writer in writers[1::2]:
            go_on(served, *writer.open)
        for name in there:
            requests.delete(f"{served.url}{OBJECTS}/{name}", timeout=60).raise_for_status()


def go_on(served: Served, place: str, name: str, acknowledged: int) -> None:
    """Continue an upload from where the server says that it is."""
    if not place:
        return
    content = content_of(name)
    total = len(content)
    status: dict[str, Any] = {"Content-Range": f"bytes */{total}"}
    answer = requests.put(place, headers=status, timeout=60)
    if answer.status_code == 308:
        have = int(answer.headers.get("Range", "bytes=0--1").rpartition("-")[2]) + 1
        have = have if "Range" in answer.headers else 0
        assert have >= acknowledged
        rest = {"Content-Range": f"bytes {have}-{total - 1}/{total}"}
        answer = requests.put(place, content[have:], headers=rest, timeout=60)
    assert answer.status_code == 200
    assert served.content(name) == content


@pytest.mark.parametrize("served", [3 * MIB], indirect=True)
def test_a_full_disk_breaks_nothing(served: Served) -> None:
    """The server cannot write more than 3 MiB to a file, as if the disk ended there."""
    small, large = content_of("small"), b"x" * (4 * MIB)
    media = f"{served.url}{UPLOAD}?uploadType=media&name="
    requests.post(f"{media}a", small, timeout=60).raise_for_status()
    for name in ("a", "b"):
        refused = requests.post(media + name, large, timeout=60)
        assert refused.status_code == 500
        assert "the disk of this computer is full" in refused.json()["error"]["message"]
    begun = requests.post(f"{served.url}{UPLOAD}?uploadType=resumable&name=c", timeout=60)
    place = begun.headers["Location"]
    assert requests.put(place, large, timeout=60).status_code == 500
    by_xml = requests.put(f"{served.url}lab/d", large, timeout=60)
    assert (by_xml.status_code, "<Code>InternalError</Code>" in by_xml.text) == (500, True)
    assert served.names() == ["a"]
    assert served.content("a") == small
    requests.post(f"{media}b", small, timeout=60).raise_for_status()
    assert served.names() == ["a", "b"]
    held = list((served.folder / "buckets/incoming").iterdir())
    assert [path.name for path in held] == [place.rpartition("=")[2]]
