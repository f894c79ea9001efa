"""Checksums, by values that other programs have computed."""

from __future__ import annotations

import hashlib

import pytest
from dataset_agent.act import checks
from dataset_agent.act.checks import Check
from dataset_agent.decide.listing import UNKNOWN, Item

# Of b"123456789", as RFC 3720, md5sum, sha256sum and git hash-object have them.
KNOWN = {
    "crc32c": "e3069283",
    "md5": "25f9e794323b453885f5181f1b624d0b",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    "git": "e2e107ac61ac259b87c544f6e7a4eb03422c6c21",
}


def item(*checked: tuple[str, str], size: int = 9) -> Item:
    return Item("a", size, "a", "1", checked)


@pytest.mark.parametrize("kind", KNOWN)
def test_each_kind_of_checksum(kind: str) -> None:
    good, bad = Check(item((kind, KNOWN[kind]))), Check(item((kind, KNOWN[kind][::-1])))
    for check in (good, bad):
        check.take([b"1234", b"", b"56789"])
    assert good.wrong() == ""
    assert good.sha256 == KNOWN["sha256"]
    assert bad.wrong() == f"its {kind} is {KNOWN[kind]}, not {KNOWN[kind][::-1]}"


def test_a_table_and_the_kernel_agree() -> None:
    data = hashlib.sha256(b"seed").digest() * 101
    found = checks._Crc32c()
    found._kernel = None
    found.update(data)
    slow = 0xFFFFFFFF
    for byte in data:
        slow = (slow >> 8) ^ checks._one_byte((slow ^ byte) & 0xFF)
    assert found.hexdigest() == f"{slow ^ 0xFFFFFFFF:08x}"


def test_a_size_counts_where_it_is_known() -> None:
    short, unknown = Check(item(size=10)), Check(item(size=UNKNOWN))
    for check in (short, unknown):
        check.take([b"123456789"])
    assert short.wrong() == "it has 9 bytes, not 10"
    assert unknown.wrong() == ""
