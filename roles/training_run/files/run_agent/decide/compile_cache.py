"""Entries of JAX's compilation cache: which files are some, which are whole, which go first.

An entry is code that the program runs. What comes from another machine or from a bucket counts only
with a seal of the run's own key: the right to write to the bucket is not enough.

JAX names an entry by a hash of the program, the versions of jaxlib and libtpu, the compiler's flags
and the topology. Entries of different ones lie beside each other, and JAX never mixes them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

MOST_ENTRY = 512 << 20
MOST_ENTRIES = 10_000
DIRECTORY, LEAST_SECONDS = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
LEAST_BYTES = "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"
OF_GPUS = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
# A whole program also compiles hundreds of small functions, each below JAX's own limit of a second.
_WORTH_SECONDS = "0.1"
_ANY_SIZE = "-1"
_NAME = re.compile(r"[!-.0-~]{1,180}-[0-9a-f]{64}(-cache)?")
_MAGIC = b"TFC1"
SEAL = len(_MAGIC) + hashlib.sha256().digest_size
"""Bytes before the content of an entry that travels."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_ID_BYTES, _SIZE_BYTES = (0, 1, 2, 4), (0, 2, 4, 8)
_WINDOW = 1 << 20


class Entry(NamedTuple):
    """A file of the cache, or an object of the bucket."""

    name: str
    size: int
    at: float
    """When it was used or written last, in seconds since 1970."""


def variables(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the variables by which JAX has its cache in a folder, unless the run names another."""
    if not folder or DIRECTORY in env:
        return {}
    # With caches for GPUs, the names of entries would depend on the path of the folder.
    more = {LEAST_SECONDS: _WORTH_SECONDS, LEAST_BYTES: _ANY_SIZE, OF_GPUS: "none"}
    return {DIRECTORY: folder, **more}


def is_entry(name: str) -> bool:
    """Say whether a file of this name is an entry; JAX keeps others beside them."""
    return bool(_NAME.fullmatch(name)) and not name.startswith(".")


def too_much(entries: Iterable[Entry], limit: int) -> list[Entry]:
    """Return what goes so that so many bytes are left: what was used longest ago."""
    left, gone = 0, []
    for number, one in enumerate(sorted(entries, key=lambda one: (-one.at, one.name))):
        if number < MOST_ENTRIES and left + one.size <= limit:
            left += one.size
        else:
            gone.append(one)
    return gone


# Whole entries: JAX writes them in place, so the end of one may be missing


def is_whole(data: bytes) -> bool:
    """Say whether the compressed content of an entry has its end."""
    if data.startswith(_ZSTD):
        return _has_last_block(data)
    inflate = zlib.decompressobj()
    try:
        while data and not inflate.eof:
            inflate.decompress(data, _WINDOW)
            data = inflate.unconsumed_tail
    except zlib.error:
        return False
    return inflate.eof


def _has_last_block(data: bytes) -> bool:
    """Go through the blocks of a frame of Zstandard (RFC 8878) without unpacking them."""
    place = len(_ZSTD)
    if len(data) <= place:
        return False
    flags = data[place]
    is_single, has_sum = bool(flags & 0x20), bool(flags & 0x04)
    size = _SIZE_BYTES[flags >> 6] or int(is_single)
    place += 1 + (not is_single) + _ID_BYTES[flags & 3] + size
    while place + 3 <= len(data):
        head = int.from_bytes(data[place : place + 3], "little")
        kind, length = head >> 1 & 3, head >> 3
        if kind == 3:
            return False
        place += 3 + (1 if kind == 1 else length)
        if head & 1:
            return place + 4 * has_sum == len(data)
    return False


# Seals


def key_of(gang: str, run: str, user: str) -> str:
    """Return the key by which a run's entries are sealed; empty where the gang has none.

    Processes of the run's user get it, and learn nothing of the gang's key by it.
    """
    if not gang:
        return ""
    text = f"tpu-fleet compile cache\0{run}\0{user}".encode()
    return hmac.new(bytes.fromhex(gang), text, hashlib.sha256).hexdigest()


def name_of(key: str) -> str:
    """Return a name of a key that does not reveal it."""
    return hashlib.sha256(b"tpu-fleet cache " + key.encode("ascii")).hexdigest()[:16]


def sealed(key: str, name: str, data: bytes) -> bytes:
    """Return an entry as it lies in a bucket."""
    return _seal(key, name, data) + data


def unsealed(key: str, name: str, data: bytes) -> bytes | None:
    """Return an entry of a bucket; None unless it was sealed under this name and key."""
    content = data[SEAL:]
    return content if hmac.compare_digest(data[:SEAL], _seal(key, name, content)) else None


def _seal(key: str, name: str, data: bytes) -> bytes:
    words = (b"entry", name.encode(), data)
    whole = b"".join(len(word).to_bytes(8, "big") + word for word in words)
    return _MAGIC + hmac.digest(bytes.fromhex(key), whole, "sha256")
