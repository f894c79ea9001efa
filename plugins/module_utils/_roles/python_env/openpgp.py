# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the fingerprint of an OpenPGP public key, without gpg. No I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

_PUBLIC_KEY = 6


def fingerprint(armoured: str) -> str:
    """Give the fingerprint of a key in ASCII armour; an empty text for what is no key.

    Only keys of version 4, whose fingerprint is a SHA-1 (RFC 9580, section 5.5.4.2).
    """
    match = re.search(
        r"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:[\w-]+: .*\r?\n)*\s*([A-Za-z0-9+/=\s]+?)"
        r"(?:\r?\n=[A-Za-z0-9+/]{4})?\s*-----END PGP PUBLIC KEY BLOCK-----",
        armoured,
    )
    if match is None:
        return ""
    try:
        data = base64.b64decode("".join(match[1].split()))
        tag, body = _first_packet(data)
    except (binascii.Error, IndexError, ValueError):
        return ""
    if tag != _PUBLIC_KEY or body[:1] != b"\x04":
        return ""
    # Keys of this version are named by it.
    digest = hashlib.new("sha1", b"\x99" + len(body).to_bytes(2, "big") + body)  # noqa: S324
    return digest.hexdigest().upper()


def _first_packet(data: bytes) -> tuple[int, bytes]:
    """Give the tag and the body of the first packet, in the old or the new format."""
    head = data[0]
    if head & 0x40:
        tag, first = head & 0x3F, data[1]
        if first < 192:
            start, length = 2, first
        elif first < 224:
            start, length = 3, ((first - 192) << 8) + data[2] + 192
        elif first == 255:
            start, length = 6, int.from_bytes(data[2:6], "big")
        else:
            raise ValueError("a key does not come in parts")
    else:
        tag, width = (head >> 2) & 0x0F, 1 << (head & 3)
        if width == 8:
            raise ValueError("a key has a length")
        start, length = 1 + width, int.from_bytes(data[1 : 1 + width], "big")
    body = data[start : start + length]
    if len(body) != length:
        raise ValueError("the key is cut off")
    return tag, body
