"""Write TensorBoard event files as its writers do, but for the checksums, which are not read."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """Write a number."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def field(number: int, data: bytes) -> bytes:
    """Write a field of a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(at: float, step: int, values: dict[str, float], tensor: bool = False) -> bytes:
    """Write an event with a summary: with simple values, or as TensorFlow 2 and JAX write them."""
    summary = b""
    for tag, value in values.items():
        if tensor:
            content = varint(1 << 3) + varint(1) + field(4, struct.pack("<f", value))
            number = field(8, content)
        else:
            number = varint(2 << 3 | 5) + struct.pack("<f", value)
        summary += field(1, field(1, tag.encode()) + number)
    head = varint(1 << 3 | 1) + struct.pack("<d", at) + varint(2 << 3) + varint(step)
    return head + field(5, summary)


def record(data: bytes) -> bytes:
    """Write a record."""
    return struct.pack("<Q", len(data)) + b"sum1" + data + b"sum2"
