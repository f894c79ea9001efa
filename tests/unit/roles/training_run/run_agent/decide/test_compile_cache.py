"""Entries of a compilation cache: names, whole ones, bounds, seals."""

from __future__ import annotations

import zlib

import pytest
from run_agent.decide import compile_cache
from run_agent.decide.compile_cache import Entry

KEY, OTHER = "ab" * 32, "cd" * 32
NAME = f"jit_step-{'0f' * 32}-cache"


@pytest.mark.parametrize("name", [NAME, NAME.removesuffix("-cache"), f"jit__<lambda>-{'a' * 64}"])
def test_names_of_entries(name: str) -> None:
    assert compile_cache.is_entry(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".lockfile", "notes.txt", f"jit_f-{'a' * 63}-cache", f".f-{'a' * 64}-cache"),
        *(f"../f-{'a' * 64}-cache", f"a/f-{'a' * 64}-cache", f"f-{'a' * 64}-atime"),
        *(f"f f-{'a' * 64}-cache", f"{NAME}\n", f"\u00e9-{'a' * 64}-cache"),
    ],
)
def test_names_of_other_files(name: str) -> None:
    assert not compile_cache.is_entry(name)


def zstd_frame(*blocks: tuple[int, bytes], flags: int = 0x20, head: bytes = b"\x09") -> bytes:
    """Make a frame as RFC 8878 has it; the last block is marked as such."""
    parts = [b"\x28\xb5\x2f\xfd", bytes([flags]), head]
    for number, (kind, data) in enumerate(blocks):
        is_last = number == len(blocks) - 1
        parts.append((len(data) << 3 | kind << 1 | is_last).to_bytes(3, "little") + data)
    return b"".join(parts) + (b"sum." if flags & 4 else b"")


# What zstd 1.5 makes of b"tpu" * 50 from a pipe, so without its size, and with a checksum.
REAL = bytes.fromhex("28b52ffd045855000018747075010010293704e6744bd9")


@pytest.mark.parametrize(
    "data",
    [
        zlib.compress(b"code" * 1000),
        REAL,
        zstd_frame((0, b"raw"), (2, b"packed")),
        zstd_frame((2, b"packed"), flags=0x24),
        zstd_frame((2, b"packed"), flags=0x40 | 0x04 | 0x03, head=b"\x58idididsz"[:7]),
    ],
)
def test_whole_entries_lose_their_end(data: bytes) -> None:
    assert compile_cache.is_whole(data)
    for length in range(len(data)):
        assert not compile_cache.is_whole(data[:length])


def test_what_is_no_content_of_an_entry() -> None:
    for data in (
        b"",
        b"text",
        bytes(1000),
        zlib.compress(b"code" * 99)[:12] + bytes(99),
        b"\x28\xb5\x2f\xfd" + b"\xff" * 50,
    ):
        assert not compile_cache.is_whole(data)


def test_what_was_used_longest_ago_goes_first() -> None:
    found = [Entry("old", 5, 1.0), Entry("new", 5, 3.0), Entry("mid", 5, 2.0)]
    assert compile_cache.too_much(found, 15) == []
    assert [one.name for one in compile_cache.too_much(found, 14)] == ["old"]
    assert [one.name for one in compile_cache.too_much(found, 0)] == ["new", "mid", "old"]
    many = [
        Entry(str(number), 0, float(number)) for number in range(compile_cache.MOST_ENTRIES + 1)
    ]
    assert [one.name for one in compile_cache.too_much(many, 10)] == ["0"]


def test_variables_give_way_to_the_runs_own() -> None:
    named = compile_cache.variables({}, "/var/cache/x")
    assert named["JAX_COMPILATION_CACHE_DIR"] == "/var/cache/x"
    assert named["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] == "none"
    assert len(named) == 4
    assert compile_cache.variables({"JAX_COMPILATION_CACHE_DIR": "gs://own"}, "/x") == {}
    assert compile_cache.variables({}, "") == {}


def test_only_the_key_seals() -> None:
    whole = compile_cache.sealed(KEY, NAME, b"code")
    assert compile_cache.unsealed(KEY, NAME, whole) == b"code"
    forged = [
        (OTHER, NAME, whole),
        (KEY, NAME.replace("step", "stop"), whole),
        (KEY, NAME, whole[:-1]),
        (KEY, NAME, whole + b"x"),
        (KEY, NAME, b"TFC1" + bytes(32) + b"code"),
        (KEY, NAME, b""),
    ]
    assert [compile_cache.unsealed(*one) for one in forged] == [None] * len(forged)


def test_a_run_and_a_user_have_a_key_of_their_own() -> None:
    keys = {
        compile_cache.key_of(gang, run, user)
        for gang in (KEY, OTHER)
        for run in ("a", "b")
        for user in ("alice", "eve")
    }
    assert len(keys) == 8
    assert compile_cache.key_of("", "a", "alice") == ""
    assert len({compile_cache.name_of(key) for key in keys}) == 8
