"""Python's stacks as faulthandler and py-spy write them, read as frames of threads.

The run's user can have written them, so they are read with care, and are only ever shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import bounds
from .values import is_whole, one_line

_BLOCK = re.compile(r"(Current thread|Thread) 0x([0-9a-f]{1,16})(?: \[.{0,100}\])? \(most recent")
_FRAME = re.compile(r'  File "(.{0,4096})", line (\d{1,9}|\?\?\?) in (.{1,500})')
_MOST_LINES = 200_000

Frames = tuple[tuple[str, str, int], ...]
"""Function, file and line of each call, the innermost first."""


@dataclass(frozen=True)
class Block:
    """A thread in what faulthandler wrote."""

    ident: int
    """Its address in the process, as pthread_self gives it."""
    current: bool
    frames: Frames


def frame(function: str, file: str, line: int) -> tuple[str, str, int]:
    """Return a frame with texts of limited length."""
    return one_line(function, bounds.TEXT), one_line(file, bounds.TEXT), line


def blocks(text: str) -> list[Block]:
    """Return the threads that faulthandler wrote, in its order: the main thread is the last."""
    found: list[tuple[int, bool, list[tuple[str, str, int]]]] = []
    for line in text.split("\n")[:_MOST_LINES]:
        begins, call = _BLOCK.match(line), _FRAME.match(line)
        if begins:
            found.append((int(begins[2], 16), begins[1] != "Thread", []))
        elif call and found and len(found[-1][2]) < bounds.FRAMES:
            number = int(call[2]) if call[2].isdigit() else 0
            found[-1][2].append(frame(call[3], call[1], number))
    return [Block(ident, current, tuple(frames)) for ident, current, frames in found]


def looks_whole(text: bytes) -> bool:
    """Return whether the text can be all that faulthandler writes: it has the current thread."""
    return b"Current thread 0x" in text and text.endswith(b"\n")


def by_thread(
    found: Iterable[Block],
    pid: int,
    pointers: Mapping[int, int],
    areas: Iterable[tuple[int, int]],
) -> dict[int, Frames]:
    """Return the frames by the numbers of the kernel's threads.

    A thread's address and its stack pointer are in the same area of memory, but not the main
    thread's, whose number is the process's: its block is the last one, if no other thread has that.
    `pointers` are the stack pointers of threads that wait; one that runs has none.
    """
    left = {block.ident: block.frames for block in found}
    last = next(reversed(left), None)
    spaces = [area for area in areas if any(area[0] <= ident < area[1] for ident in left)]
    result: dict[int, Frames] = {}
    for tid, pointer in pointers.items():
        here = [a for a in spaces if a[0] <= pointer < a[1]] if tid != pid else []
        above = [i for i in left if here and pointer < i < here[0][1] and i >= here[0][0]]
        if above:
            result[tid] = left.pop(min(above))
    return {**result, pid: left[last]} if last is not None and last in left else result


def with_the_rest(
    known: Mapping[int, Frames], found: Iterable[Block], tids: Iterable[int]
) -> dict[int, Frames]:
    """Give the one block that no thread has to the one thread that has no block."""
    result = dict(known)
    used = list(result.values())
    rest = []
    for block in found:
        if block.frames in used:
            used.remove(block.frames)
        else:
            rest.append(block.frames)
    lacking = [tid for tid in tids if tid not in result]
    if len(rest) == 1 and len(lacking) == 1:
        result[lacking[0]] = rest[0]
    return result


def of_py_spy(data: bytes) -> dict[int, Frames]:
    """Return the frames by threads of what `py-spy dump --json` printed."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    threads = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    found = {}
    for one in threads[: bounds.THREADS]:
        tid, frames = one.get("os_thread_id"), one.get("frames")
        if is_whole(tid) and isinstance(frames, list):
            found[tid] = tuple(map(_of_py_spy, frames[: bounds.FRAMES]))
    return found


def _of_py_spy(told: Any) -> tuple[str, str, int]:
    one = told if isinstance(told, dict) else {}
    line = one.get("line")
    number = line if is_whole(line) and 0 <= line < 2**31 else 0
    return frame(str(one.get("name")), str(one.get("filename")), number)


def shown(threads: Mapping[int, Frames]) -> str:
    """Write frames for people, as faulthandler does."""
    lines = []
    for tid, frames in sorted(threads.items()):
        lines.append(f"Python's stack of thread {tid} (most recent call first):")
        lines += [f'  File "{file}", line {line} in {function}' for function, file, line in frames]
    return "\n".join(lines)
