"""Protobuf's wire format, for the few messages that are written here byte by byte."""

from __future__ import annotations

import struct

_VARINT, _DOUBLE, _LENGTH_DELIMITED = 0, 1, 2


def varint(number: int) -> bytes:
    """Return a number; a negative one as 64 bits."""
    number &= (1 << 64) - 1
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: float | str | bytes) -> bytes:
    """Return a field of a message: a whole number, a double, a text, or bytes or a message."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | _DOUBLE) + struct.pack("<d", value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content


def strings(message: bytes) -> dict[int, str]:
    """Return the texts of a message by their numbers, up to its first other field."""
    found: dict[int, str] = {}
    place = 0
    while place < len(message) and message[place] & 7 == _LENGTH_DELIMITED:
        number = message[place] >> 3
        size, place = _number(message, place + 1)
        found[number] = message[place : place + size].decode(errors="replace")
        place += size
    return found


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends."""
    number = shift = 0
    while place < len(message):
        byte, place = message[place], place + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number, place
