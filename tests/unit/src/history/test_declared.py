"""What is kept of declarations, and what of two of them differs."""

from __future__ import annotations

import json

from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Definition

from tpu_fleet.history.declared import declared_by, differing, submitted

TREES = [
    {"name": "toy", "repo": "https://example.org/toy.git", "version": "main"},
    {"name": "mine", "local_path": "code"},
]
SLICES = [
    {"name": "pair", "accelerator_type": "v4-16"},
    {"name": "solo", "accelerator_type": "v4-8"},
]
RUN = {
    "name": "digits",
    "slices": ["pair", "solo"],
    "user": "alice",
    "command": "python train.py\n",
    "code": "toy",
    "env": {"LR": 0.1, "WANDB_API_KEY": "hunter2"},
    "retries": None,
}


def test_each_slice_of_a_run_has_its_own() -> None:
    found = declared_by([RUN], TREES, SLICES)
    assert list(found) == ["pair/digits", "solo/digits"]
    pair = found["pair/digits"]
    assert pair["code"] == "toy version main of https://example.org/toy.git"
    assert (pair["slice type"], pair["command"], pair["env LR"]) == (
        "v4-16", "python train.py", "0.1",
    )  # fmt: skip
    assert "retries" not in pair
    assert differing(list(found.values())) == [("slice type", ["v4-16", "v4-8"])]


def test_of_a_submitted_run_it_is_what_was_signed() -> None:
    one = Definition(
        "lr-1", "alice", "lab", ("python", "a b.py"), "", 1.0, code="ab" * 32, checkpoint_dir=None,
        secrets=("wandb",), options={"hang_after": "1h"},
    )  # fmt: skip
    assert submitted(one, "v4-8") == {
        "command": "python 'a b.py'", "code": "abababab", "slice type": "v4-8", "user": "lab",
        "retries": "3", "secrets": "wandb", "hang_after": "1h",
    }  # fmt: skip


def test_a_secret_is_not_kept_and_yet_differs() -> None:
    other = {**RUN, "env": {**RUN["env"], "WANDB_API_KEY": "other"}}  # type: ignore[dict-item]
    one, two = (declared_by([run], TREES, SLICES)["pair/digits"] for run in (RUN, other))
    assert "hunter2" not in json.dumps(one)
    [(key, values)] = differing([one, two])
    assert key == "env WANDB_API_KEY"
    assert all(value.startswith("a secret (") for value in values)
    assert differing([one, dict(one)]) == []


def test_what_matters_most_stands_first_and_what_is_missing_is_a_dash() -> None:
    one = declared_by([RUN], TREES, SLICES)["pair/digits"]
    other = {**RUN, "code": "mine", "command": "python other.py", "env": {}, "venv": "jax"}
    two = declared_by([other], TREES, SLICES)["solo/digits"]
    rows = dict(differing([one, two, None]))
    assert list(rows)[:4] == ["command", "code", "venv", "slice type"]
    assert rows["venv"] == ["-", "jax", "not known"]
    assert rows["code"][1] == "mine of code"


def test_wrong_input_is_no_declaration() -> None:
    found = declared_by([{"name": "x", "slices": None, "env": "no"}, {**RUN, "env": "no"}], [], [])
    assert set(found) == {"pair/digits", "solo/digits"}
    assert found["pair/digits"]["code"] == "toy"
