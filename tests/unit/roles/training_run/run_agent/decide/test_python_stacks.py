"""Stacks as faulthandler and py-spy write them."""

from __future__ import annotations

import json

from run_agent.decide import bounds, python_stacks

TEXT = """Thread 0x00007f0000003000 [pool_0] (most recent call first):
  File "/usr/lib/python3.12/queue.py", line 171 in get
  File "/srv/data.py", line 88 in load ahead

Thread 0x00007f0000007000 (most recent call first):
  <no Python frame>

Current thread 0x00007fff00000001 (most recent call first):
  File "train.py", line 5 in <module>
"""
LOADS = (("get", "/usr/lib/python3.12/queue.py", 171), ("load ahead", "/srv/data.py", 88))
MAIN = (("<module>", "train.py", 5),)
AREAS = [(0x7F0000001000, 0x7F0000004000), (0x7F0000005000, 0x7F0000008000)]


def test_blocks_of_faulthandler() -> None:
    found = python_stacks.blocks(TEXT)
    assert [one.frames for one in found] == [LOADS, (), MAIN]
    assert [one.current for one in found] == [False, False, True]


def test_a_thread_is_the_one_whose_stack_is_in_its_area() -> None:
    found = python_stacks.blocks(TEXT)
    # 12 is a thread without Python; its stack is elsewhere.
    pointers = {10: 0x7FFF0000F000, 11: 0x7F0000002F00, 12: 0x7E0000000000, 13: 0x7F0000006000}
    known = python_stacks.by_thread(found, 10, pointers, AREAS)
    assert known == {10: MAIN, 11: LOADS, 13: ()}


def test_the_only_thread_that_runs_has_the_only_stack_that_is_left() -> None:
    found = python_stacks.blocks(TEXT)
    known = python_stacks.by_thread(found, 10, {13: 0x7F0000006000}, AREAS)
    assert python_stacks.with_the_rest(known, found, [10, 11, 13])[11] == LOADS
    # Of two nothing is guessed.
    assert 11 not in python_stacks.with_the_rest(known, found, [10, 11, 12, 13])


def test_what_py_spy_prints() -> None:
    frame = {"name": "put", "filename": "/q.py", "short_filename": "q.py", "line": 3}
    told = [{"os_thread_id": 7, "frames": [frame, {"name": 3}]}, {"os_thread_id": "x"}, 5]
    found = python_stacks.of_py_spy(json.dumps(told).encode())
    assert found == {7: (("put", "/q.py", 3), ("3", "None", 0))}
    assert python_stacks.of_py_spy(b"Error: no") == {}


def test_a_deep_stack_keeps_its_innermost_frames() -> None:
    lines = [f'  File "x.py", line {n} in f' for n in range(500)]
    text = "\n".join(["Current thread 0x1 (most recent call first):", *lines])
    (block,) = python_stacks.blocks(text)
    assert len(block.frames) == bounds.FRAMES
    assert block.frames[0][2] == 0
