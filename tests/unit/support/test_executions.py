"""Executions are counted where they belong."""

from __future__ import annotations

from executions import Count, count


def test_calls_belong_to_the_task_that_began_last() -> None:
    tasks: list[dict[str, object]] = [
        {"time": 1.0, "host": "a", "role": "base", "task": "one"},
        {"time": 1.1, "host": "b", "role": "base", "task": "one"},
        {"time": 2.0, "host": "a", "role": "base", "task": "two"},
        {"time": 3.0, "host": "a", "role": "users", "task": "three"},
    ]
    calls = [(1.2, "10.0.0.1"), (1.3, "10.0.0.2"), (2.1, "10.0.0.1"), (3.5, "10.0.0.1")]
    assert count(tasks, calls) == [
        Count("base", 2, 2),
        Count("users", 1, 1),
        Count("all", 3, 3),
    ]


def test_nothing_is_executed_without_a_call() -> None:
    tasks: list[dict[str, object]] = [{"time": 1.0, "host": "a", "role": "base", "task": "one"}]
    assert count(tasks, []) == [Count("base", 1, 0), Count("all", 1, 0)]
