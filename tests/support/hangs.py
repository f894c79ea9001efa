"""Programs of a gang that hang in the ways that people meet, for the trials of `tpu-fleet why`.

Their collectives are a stand-in with the path and the names of torch.distributed: sums over TCP,
through worker 0. What hangs is real: locks, threads, pipes, disks and sockets of a Python program.
"""

from __future__ import annotations

from pathlib import Path

COLLECTIVES = '''"""A stand-in for torch.distributed: worker 0 adds up what all send."""
import os, socket, struct, time

WORKER, WORKERS = int(os.environ["TPU_FLEET_WORKER"]), int(os.environ["TPU_FLEET_WORKERS"])
_links = []

def _place():
    address, _colon, port = os.environ["TPU_FLEET_COORDINATOR"].rpartition(":")
    return address.strip("[]"), int(port)

def init_process_group():
    if WORKER == 0:
        with socket.create_server(_place(), backlog=64) as server:
            while len(_links) < WORKERS - 1:
                _links.append(server.accept()[0])
        return
    while not _links:
        try:
            _links.append(socket.create_connection(_place()))
        except ConnectionRefusedError:
            time.sleep(0.1)

def _receive(link):
    data = b""
    while len(data) < 8:
        part = link.recv(8 - len(data))
        if not part:
            raise ConnectionError("connection closed by peer")
        data += part
    return struct.unpack("d", data)[0]

def all_reduce(value):
    while os.environ["HANG"] == "stuck_core" and os.path.exists(os.path.expanduser("~/stuck")):
        time.sleep(1)  # as long as the device does not end the program before
    if WORKER == 0:
        value += sum(_receive(link) for link in _links)
        for link in _links:
            link.sendall(struct.pack("d", value))
        return value
    _links[0].sendall(struct.pack("d", value))
    return _receive(_links[0])

def broadcast():
    return _receive(_links[0])
'''

DATA = '''"""Batches that a thread reads ahead."""
import os, queue, threading, time

ahead = queue.Queue(2)

def read_shards(is_stuck):
    number = 0
    while True:
        if is_stuck(number):
            shard = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shard")
            os.mkfifo(shard)
            open(shard, "rb").read()
        ahead.put(number)
        number += 1

def begin(is_stuck):
    threading.Thread(target=read_shards, args=(is_stuck,), daemon=True).start()

def next_batch():
    return ahead.get()
'''

TRAIN = '''"""A program that hangs as HANG says, on worker WHERE, from step 5 on."""
import json, mmap, os, sys, threading, time
from importlib.metadata import version
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages")
sys.path.insert(0, SITE)
from torch.distributed import distributed_c10d as gang
import data

HANG, HERE = os.environ.get("HANG", ""), os.environ.get("WHERE") == os.environ["TPU_FLEET_WORKER"]
FROM, SECONDS = 5, float(os.environ.get("STEP_SECONDS", "0.1"))
# As an interpreter has the libraries of its packages in its memory.
with open(os.path.join(SITE, "jaxlib", "_jax.so"), "rb") as library:
    loaded = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
weights, counts = threading.Lock(), threading.Lock()

def hangs(kind, step):
    return HERE and HANG == kind and step >= FROM

def count_while_locked():
    with counts:
        time.sleep(0.2)
        with weights:
            pass

def update(step):
    if hangs("dead_lock", step):
        threading.Thread(target=count_while_locked, daemon=True).start()
    with weights:
        if hangs("dead_lock", step):
            time.sleep(0.3)
            with counts:
                pass

def augment(step):
    time.sleep(SECONDS * (15 if hangs("slow", step) else 1))

def keep_warm():
    while True:
        time.sleep(1)

def save(step):
    path = os.path.join(os.environ["SAVE_IN"], "state")
    while True:
        try:
            with open(path, "ab" if hangs("full_disk", step) else "wb") as out:
                out.write(bytes(1 << 20) * (200 if hangs("full_disk", step) else 1))
            return
        except OSError as error:
            print(f"saving failed: {error}; trying again", flush=True)
            time.sleep(2)

def train():
    if HANG == "stuck_core":
        chips = [open(f"/dev/accel{number}") for number in range(2)]
    data.begin(lambda number: hangs("data_loader", number))
    threading.Thread(target=keep_warm).start()
    gang.init_process_group()
    print("all are there", flush=True)
    step = 0
    while True:
        batch = data.next_batch()
        augment(step)
        if hangs("exception", step):
            raise RuntimeError(f"bad record in batch {batch}")
        update(step)
        if "SAVE_IN" in os.environ:
            save(step)
        if HANG == "other_version" and step >= FROM and version("jax") != "0.12.0":
            gang.broadcast()  # which the others do not know
        gang.all_reduce(1.0)
        step += 1
        with open(os.environ["TPU_FLEET_PROGRESS"] + ".new", "w") as out:
            json.dump({"step": step}, out)
        os.replace(out.name, os.environ["TPU_FLEET_PROGRESS"])

train()
'''

WANTED = {
    "healthy": ("healthy", ()),
    "data_loader": ("data", (1,)),
    "dead_lock": ("dead_lock", (1,)),
    "never_starts": ("agent_gone", (2,)),
    "blocked_port": ("blocked_port", (1, 2)),
    "stopped": ("stopped", (1,)),
    "full_disk": ("full_disk", (1,)),
    "other_version": ("other_version", (2,)),
    "exception": ("error", (1,)),
    "slow": ("slow", (1,)),
}
"""The cause, and the workers, that `why` shall name for each hang."""
STUCK_CORE = ("stuck_core", (1,))
"""The same where machines have chips."""


def write(folder: Path, jax: str = "0.12.0") -> None:
    """Write the program and its stand-ins into a folder."""
    package = folder / "site-packages" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "distributed_c10d.py").write_text(COLLECTIVES)
    (folder / "data.py").write_text(DATA)
    (folder / "train.py").write_text(TRAIN)
    (folder / "site-packages" / "jaxlib").mkdir()
    (folder / "site-packages" / "jaxlib" / "_jax.so").write_bytes(bytes(64))
    write_version(folder / "site-packages", "jax", jax)


def write_version(site: Path, package: str, version: str) -> None:
    """Write what an installed package says of itself."""
    place = site / f"{package}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
