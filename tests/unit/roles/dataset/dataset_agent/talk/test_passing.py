"""What the first worker gives to the others, and what they take from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dataset_agent.act.shelf import Shelf, Whole
from dataset_agent.decide.config import Dataset
from dataset_agent.talk import passing, slice_proof
from dataset_agent.talk.passing import Offer

ID = "0123456789abcdef"
GOOD: dict[str, Any] = {
    "files": [["a/b", 3, "0" * 64]],
    "done": True,
    "state": "ready",
    "says": "",
    "files_of": 1,
    "bytes_of": 3,
}


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    shelf = Shelf(Dataset("set", ID, "gs://lab/a", str(tmp_path / "set"), 100), tmp_path)
    shelf.whole = [Whole("a/b", 3, "0" * 64)]
    return Offer("key", [shelf])


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        (f"/set/{ID}/list/0", True),
        (f"/set/{ID}/file/0", True),
        (f"/set/{ID}/file/1", False),
        (f"/other/{ID}/list/0", False),
        (f"/set/{'f' * 16}/list/0", False),
        (f"/set/{ID}/file/../../etc/passwd", False),
        ("/etc/passwd", False),
    ],
)
def test_only_files_of_a_data_set_can_be_asked_for(offer: Offer, path: str, is_found: bool) -> None:
    assert (offer.find(path, slice_proof.asking("key", path)) is not None) is is_found
    assert offer.find(path, slice_proof.asking("other", path)) is None
    assert offer.find(path, {}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"files": [["../b", 3, "0" * 64]]},
        {"files": [["/etc/passwd", 3, "0" * 64]]},
        {"files": [["b", -5, "0" * 64]]},
        {"files": [["b", "much", "0" * 64]]},
        {"files": [["b"]]},
        {"files": 7},
        {"bytes_of": "much"},
    ],
)
def test_an_odd_answer_is_refused(wrong: dict[str, Any]) -> None:
    assert passing._told(GOOD).files == [Whole("a/b", 3, "0" * 64)]
    with pytest.raises((TypeError, ValueError)):
        passing._told({**GOOD, **wrong})
