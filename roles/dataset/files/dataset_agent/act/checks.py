"""Checksums as origins have them: SHA-256, MD5, git's own, and the CRC32C of Cloud Storage."""

from __future__ import annotations

import hashlib
import socket
from array import array
from collections.abc import Callable, Iterable
from functools import cache
from typing import Protocol

from ..decide.listing import UNKNOWN, Item

_POLYNOMIAL = 0x82F63B78
_KNOWN = (b"123456789", "e3069283")


class Digest(Protocol):
    """What hashlib gives."""

    def update(self, data: bytes, /) -> None:
        """Take more of a file."""

    def hexdigest(self) -> str:
        """Return the checksum of what came."""


class _Crc32c:
    """By the processor, through the kernel; else by a table, which takes longer."""

    def __init__(self) -> None:
        self._kernel = _from_kernel() if _kernel_is_right() else None
        self._value = 0xFFFFFFFF

    def update(self, data: bytes, /) -> None:
        if self._kernel is not None:
            self._kernel.sendall(data, socket.MSG_MORE)
            return
        table, value = _table(), self._value
        pairs = array("H", data[: len(data) & ~1])
        for pair in pairs:
            value = (value >> 16) ^ table[(value ^ pair) & 0xFFFF]
        if len(data) & 1:
            value = (value >> 8) ^ _one_byte((value ^ data[-1]) & 0xFF)
        self._value = value

    def hexdigest(self) -> str:
        if self._kernel is None:
            return f"{self._value ^ 0xFFFFFFFF:08x}"
        self._kernel.send(b"")
        found = self._kernel.recv(4)[::-1].hex()
        self._kernel.close()
        return found


def _from_kernel() -> socket.socket:
    asked = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
    with asked:
        asked.bind(("hash", "crc32c"))
        return asked.accept()[0]


@cache
def _kernel_is_right() -> bool:
    """Return whether the kernel has this checksum; one in a container may not."""
    try:
        with _from_kernel() as given:
            given.sendall(_KNOWN[0])
            return given.recv(4)[::-1].hex() == _KNOWN[1]
    except (OSError, AttributeError):
        return False


def _one_byte(value: int) -> int:
    for _bit in range(8):
        value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
    return value


@cache
def _table() -> list[int]:
    """Return what two bytes become, in the order in which this computer reads them."""
    single = [_one_byte(value) for value in range(256)]
    step = [(value >> 8) ^ single[value & 0xFF] for value in single]
    return [step[pair & 0xFF] ^ single[pair >> 8] for pair in range(1 << 16)]


def _of_git(item: Item) -> Digest:
    """Return git's checksum of a file, which has its size in it."""
    found = hashlib.sha1(usedforsecurity=False)
    found.update(f"blob {item.size}\0".encode())
    return found


_KINDS: dict[str, Callable[[Item], Digest]] = {
    "md5": lambda _item: hashlib.md5(usedforsecurity=False),
    "crc32c": lambda _item: _Crc32c(),
    "git": _of_git,
}


class Check:
    """Looks at a file while it comes."""

    def __init__(self, item: Item) -> None:
        self._item = item
        self._count = 0
        others = {kind: _KINDS[kind](item) for kind, _wanted in item.checks if kind != "sha256"}
        self._digests: dict[str, Digest] = {"sha256": hashlib.sha256(), **others}

    def take(self, blocks: Iterable[bytes]) -> None:
        """Take the next blocks of the file."""
        for block in blocks:
            self._count += len(block)
            for digest in self._digests.values():
                digest.update(block)

    @property
    def sha256(self) -> str:
        """Return by what the workers of a slice know the file."""
        return self._digests["sha256"].hexdigest()

    def wrong(self) -> str:
        """Return what is wrong with the whole file; empty if nothing is."""
        if self._item.size not in (UNKNOWN, self._count):
            return f"it has {self._count} bytes, not {self._item.size}"
        for kind, wanted in self._item.checks:
            found = self._digests[kind].hexdigest()
            if found != wanted.lower():
                return f"its {kind} is {found}, not {wanted}"
        return ""
