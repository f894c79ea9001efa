"""Requests to a bucket, against a server on loopback."""

from __future__ import annotations

import threading
import time

import pytest
from object_server import TOKEN, Objects
from run_agent.act import bucket_requests
from run_agent.act.bucket_requests import Bucket, CannotLook

NAME = "digits/.tpu-fleet-attempt.digits"


def bucket_of(lab: Objects, storage: str = "", name: str = "lab") -> Bucket:
    return Bucket(storage or lab.url, lab.url, name, seconds=30.0)


def test_an_object_is_read_with_the_generation_that_it_is_written_over_with(lab: Objects) -> None:
    bucket = bucket_of(lab)
    assert bucket.read(NAME) is None
    assert bucket.write(NAME, b"1", 0)
    found = bucket.read(NAME)
    assert found is not None
    assert found[0] == b"1"
    assert bucket.write(NAME, b"2", found[1])
    # Each writes over what it has seen, and nothing else.
    assert not bucket.write(NAME, b"3", found[1])
    assert not bucket.write(NAME, b"3", 0)
    assert lab.contents[NAME] == b"2"
    assert bucket.write(NAME, b"4")
    assert lab.contents[NAME] == b"4"
    assert {f"Bearer {TOKEN}", None} == set(lab.tokens)


def test_of_many_writers_one_wins(lab: Objects) -> None:
    won: list[bool] = []

    def write() -> None:
        won.append(bucket_of(lab).write(NAME, b"x", 0))

    threads = [threading.Thread(target=write) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 19 + [True]


def test_a_lost_answer_is_no_refusal(lab: Objects) -> None:
    lab.loses_answers = 1
    bucket = bucket_of(lab)
    with pytest.raises(CannotLook, match="does not answer"):
        bucket.write(NAME, b"1", 0)
    # The connection is made again.
    found = bucket.read(NAME)
    assert found is not None
    assert found[0] == b"1"


def test_a_silent_server_is_waited_for_no_longer_than_all_requests_may_take(lab: Objects) -> None:
    bucket = Bucket(lab.url, "", "lab", seconds=1.0)
    assert bucket.read(NAME) is None  # the connection is there
    lab.delay = 8.0
    begun = time.monotonic()
    with pytest.raises(CannotLook, match="does not answer"):
        bucket.read(NAME)
    with pytest.raises(CannotLook):
        Bucket(lab.url, "", "lab", seconds=0.5).read(NAME)
    assert time.monotonic() - begun < 6


def test_what_a_bucket_refuses_has_a_remedy(lab: Objects) -> None:
    lab.refusal = (403, "nope")
    with pytest.raises(CannotLook, match="objectViewer"):
        bucket_of(lab).read(NAME)
    with pytest.raises(CannotLook, match="objectUser"):
        bucket_of(lab).write(NAME, b"1")
    lab.refusal = (429, "one write a second")
    with pytest.raises(CannotLook, match="the bucket answers 429 one write a second"):
        bucket_of(lab).write(NAME, b"1")
    lab.refusal = None
    with pytest.raises(CannotLook, match="no such bucket"):
        bucket_of(lab, name="gone").write(NAME, b"1")


def test_the_token_goes_to_cloud_storage_alone(lab: Objects) -> None:
    for address in ("http://storage.googleapis.com", "https://storage.googleapis.com.evil.org"):
        with pytest.raises(CannotLook, match="no token is sent"):
            bucket_of(lab, address).read(NAME)
    # The metadata server needs to be asked for none of them.
    assert lab.tokens == []
    assert bucket_requests.may_have_token("https://storage.googleapis.com")
    assert not bucket_requests.may_have_token("https://user@evil.org#storage.googleapis.com")
