from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import checkpoints
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import (
    UNFINISHED,
    UNMARKED,
    WHOLE,
    Thing,
)

ORBAX, LEVANTER = "commit_success.txt", "metadata.json"


def states(*things: tuple[str, float]) -> dict[str, str]:
    found = checkpoints.judged(checkpoints.units_of(Thing(name, 1, at) for name, at in things))
    return {one.name: one.state for one in found}


def left(*things: tuple[str, float]) -> list[str]:
    units = checkpoints.units_of(Thing(name, 1, at) for name, at in things)
    return [one.name for one in checkpoints.leftovers(checkpoints.judged(units))]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("100", 100), ("000100", 100), ("step_100", 100), ("ckpt-100.npz", 100), ("0", 0),
        ("digits-step=7.ckpt", 7), ("checkpoint_5.pt.gz", 5), ("iter20", 20),
        ("model_v2", None), ("rank0.pt", None), ("model-00001-of-00005.safetensors", None),
        ("latest", None), ("epoch3", None), ("9" * 16, None),
    ],
)  # fmt: skip
def test_the_step_in_the_name_of_a_checkpoint(name: str, step: int | None) -> None:
    assert checkpoints.step_of(name) == step


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("100", 100), ("step-100", 100), ("model_100", 100), ("checkpoint-100", 100),
        ("100.orbax-checkpoint-tmp-1732", 100), ("model_7.orbax-checkpoint-tmp", 7),
        ("checkpoints", None), ("tensorboard", None), ("run-2", None), ("v5p-8", None),
    ],
)  # fmt: skip
def test_the_step_of_a_folder_in_a_bucket(name: str, step: int | None) -> None:
    assert checkpoints.step_of_folder(name) == step
    assert checkpoints.is_of_step(f"a/{name}") is (step is not None)


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        # Orbax and MaxText.
        ([(f"100/{ORBAX}", 2), ("100/d/0", 1)], {"100": WHOLE}),
        ([("100/_CHECKPOINT_METADATA", 1), ("100/d/0", 2)], {"100": UNFINISHED}),
        ([(f"100/d/{ORBAX}", 1), ("100/_CHECKPOINT_METADATA", 1)], {"100": UNFINISHED}),
        ([(f"a/1/{ORBAX}", 1), ("a/2/d/0", 2)], {"a/1": WHOLE, "a/2": UNFINISHED}),
        ([(f"a/1/{ORBAX}", 1), ("b/2/d/0", 2)], {"a/1": WHOLE, "b/2": UNMARKED}),
        ([(f"5.orbax-checkpoint-tmp-1/{ORBAX}", 1)], {"5.orbax-checkpoint-tmp-1": UNFINISHED}),
        # Levanter.
        ([(f"step-7/{LEVANTER}", 2), ("step-7/m", 1)], {"step-7": WHOLE}),
        ([("step-7/m", 1)], {"step-7": UNFINISHED}),
        # Others have no mark.
        ([("checkpoint-5/m.safetensors", 1)], {"checkpoint-5": UNMARKED}),
        ([("1.pt", 1), ("2.pt.tmp", 2), ("x.log", 3), (".tmp/4.pt", 4)], {"1.pt": WHOLE}),
        # Beside marks a file is none.
        ([(f"100/{ORBAX}", 2), ("config.json", 9)], {"100": WHOLE}),
        ([], {}),
    ],
)
def test_which_checkpoints_are_whole(
    things: list[tuple[str, float]], expected: dict[str, str]
) -> None:
    assert states(*things) == expected


def test_the_newest_is_the_one_that_became_whole_last() -> None:
    def newest(*things: tuple[str, float]) -> Any:
        units = checkpoints.units_of(Thing(name, 5, at) for name, at in things)
        return checkpoints.newest_of(checkpoints.judged(units))

    found = newest((f"200/{ORBAX}", 5.5), (f"100/{ORBAX}", 9.0), ("300/d/0", 20.0))
    assert (found.step, found.at, found.size, found.objects) == (100, 9.0, 5, 1)
    assert newest(("300/_CHECKPOINT_METADATA", 20.0)) is None
    assert newest() is None


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([(f"200/{ORBAX}", 9), ("100/d/0", 5)], ["100"]),
        # One that is being written.
        ([(f"200/{ORBAX}", 9), ("300/d/0", 10)], []),
        ([(f"200/{ORBAX}", 9), ("300/d/0", 9)], []),
        # A later file in it shows that the writer goes on.
        ([(f"200/{ORBAX}", 9), ("100/d/0", 5), ("100/d/1", 10)], []),
        # Another folder may be another writer's.
        ([(f"a/200/{ORBAX}", 9), ("b/100/_CHECKPOINT_METADATA", 5)], []),
        # Without a mark nothing proves that a later one is whole.
        ([("checkpoint-5/m", 1), ("checkpoint-6/m", 2)], []),
        ([("1.pt", 9), ("0.pt.tmp", 1)], []),
        ([("step-1/_CHECKPOINT_METADATA", 1), ("9.pt", 9)], []),
        ([(f"200/{ORBAX}", 9), ("5.orbax-checkpoint-tmp-1/d", 3)], ["5.orbax-checkpoint-tmp-1"]),
        # What lies beside steps is none of them.
        ([(f"200/{ORBAX}", 9), ("tensorboard/x", 3), ("config.json", 1), (".hidden", 1)], []),
    ],
)
def test_what_is_left_over(things: list[tuple[str, float]], expected: list[str]) -> None:
    assert left(*things) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("gs://lab-ckpt/digits", ("lab-ckpt", "digits/")),
        ("gs://lab-ckpt/a/b/", ("lab-ckpt", "a/b/")),
        ("gs://lab-ckpt", ("lab-ckpt", "")),
        ("gs://", None), ("gs:///x", None), ("gs://Lab/x", None), ("/mnt/x", None), ("", None),
        ("gs://lab@evil/x", None), ("gs://lab?x=/y", None),
    ],
)  # fmt: skip
def test_bucket_and_folder(address: str, expected: tuple[str, str] | None) -> None:
    assert checkpoints.bucket_and_folder(address) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-28T01:32:26.778Z", 1795829546.778), ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:00+00:00", 0.0), ("2026-13-01T00:00:00Z", None),
        ("2026-11-28", None), ("", None), (None, None), (5, None), ("9" * 100, None),
        ("0000-01-01T00:00:00Z", None), ("2026-11-28T25:00:00Z", None),
    ],
)  # fmt: skip
def test_times(text: Any, expected: float | None) -> None:
    found = checkpoints.time_of(text)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))


GOOD = {"name": "p/1/d", "size": "5", "updated": "2026-11-28T01:32:26Z", "generation": "17"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": None}, {"name": "q/1/d"}, {"name": "p/\x1b[31m"}, {"name": "p/\u202e"},
        {"name": "p/" + "x" * 2000}, {"name": "p/" + "x/" * 40 + "y"}, {"name": "p/../x"},
        {"name": "p//x"}, {"name": "p/./x"}, {"name": ["p/1"]}, {"name": "p/"},
        {"size": "-1"}, {"size": "1e3"}, {"size": "9" * 19}, {"size": "9" * 5000}, {"size": None},
        {"size": True}, {"size": 1.5}, {"size": "\u0661"}, {"updated": "now"}, {"updated": 7},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_refused_of_a_list(change: dict[str, Any]) -> None:
    assert checkpoints.thing_of({**GOOD, **change}, "p/") is None


def test_what_is_read_of_a_list() -> None:
    at = checkpoints.time_of(GOOD["updated"])
    assert checkpoints.thing_of(GOOD, "p/") == Thing("1/d", 5, at or 0, 17)
    assert checkpoints.thing_of({**GOOD, "generation": "x"}, "p/") == Thing("1/d", 5, at or 0, 0)
    for item in (None, "p/1", 5, []):
        assert checkpoints.thing_of(item, "p/") is None


def test_objects_of_a_thousand_steps() -> None:
    def things() -> Any:
        for step in range(1000):
            for part in range(100):
                yield Thing(f"{step}/d/{part}", 1, float(step))
            yield Thing(f"{step}/{ORBAX}", 1, step + 0.5)

    found = checkpoints.judged(checkpoints.units_of(things()))
    assert (len(found), {one.state for one in found}) == (1000, {WHOLE})
