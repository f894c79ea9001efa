"""The fence of runs in a bucket of the local cloud: races, faults and lost answers."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import requests
from emulator import Emulator

ROOT = Path(__file__).resolve().parents[3]
NAME = "digits/.tpu-fleet-attempt.digits"


@pytest.fixture
def bucket(cloud: Emulator) -> Emulator:
    made = {"name": "lab", "location": "US-CENTRAL1"}
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json=made, timeout=30).raise_for_status()
    return cloud


def agent(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "roles/training_run/files"))
    return importlib.import_module(f"run_agent.{name}")


def fence_in(cloud: Emulator) -> Any:
    place = {"storage": cloud.url.rstrip("/"), "metadata": "", "bucket": "lab", "name": NAME}
    return agent("act.fence_object").FenceObject(place)


def claim(owner: str, attempt: int = 1, is_new: bool = True) -> Any:
    decide = agent("decide.fence")
    return decide.Claim(decide.Mark(attempt, owner), is_new, is_sure=False)


def test_of_leaders_at_the_same_time_each_number_has_one(bucket: Emulator) -> None:
    found: dict[str, Any] = {}

    def take(owner: str) -> None:
        found[owner] = fence_in(bucket).claim(claim(owner))

    threads = [threading.Thread(target=take, args=(f"gang-{n}",)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [mark for owner, mark in found.items() if mark.owner == owner]
    assert len({mark.attempt for mark in won}) == len(won) >= 1
    assert sum(not mark.reserved for mark in won) == 1
    assert fence_in(bucket).read().attempt == max(mark.attempt for mark in won)


def test_the_numbers_go_on_where_another_slice_left_them(bucket: Emulator) -> None:
    fence_in(bucket).claim(claim("old"))
    fence_in(bucket).claim(claim("old", 7, is_new=False))
    heir = fence_in(bucket).claim(claim("new"))
    assert (heir.owner, heir.attempt, heir.reserved) == ("new", 8, True)
    # Who had it before takes nothing back by itself.
    assert fence_in(bucket).claim(claim("old", 8, is_new=False)).owner == "new"


def test_a_lost_answer_after_the_write(bucket: Emulator) -> None:
    bucket.fault("drop", match={"method": "objects.insert"}, count=1, options={"when": "after"})
    before = fence_in(bucket).claim(claim("me"))
    assert (before.owner, before.attempt) == ("me", 1)
    # It was not written once more.
    url = f"{bucket.url}storage/v1/b/lab/o/{requests.utils.quote(NAME, safe='')}"
    generation = requests.get(url, timeout=30).json()["generation"]
    assert fence_in(bucket).claim(claim("me")).attempt == 1
    assert requests.get(url, timeout=30).json()["generation"] == generation


def test_a_request_that_is_lost_before_the_write_is_no_claim(bucket: Emulator) -> None:
    bucket.fault("drop", match={"method": "objects.insert"}, count=1, options={"when": "before"})
    with pytest.raises(agent("act.bucket_requests").CannotLook):
        fence_in(bucket).claim(claim("me"))
    assert fence_in(bucket).read() is None
    assert fence_in(bucket).claim(claim("me")).owner == "me"


@pytest.mark.parametrize("kind", ["rate_limit", "unavailable", "iam_denied"])
def test_a_bucket_that_refuses_for_a_moment_and_for_long(
    bucket: Emulator, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent("act.fence_object"), "_PAUSE", 0.05)
    bucket.fault(kind, match={"method": "objects.get"}, count=2)
    assert fence_in(bucket).claim(claim("me")).owner == "me"
    bucket.fault(kind, match={"service": "storage"})
    with pytest.raises(agent("act.bucket_requests").CannotLook):
        fence_in(bucket).claim(claim("me", 2, is_new=False))
