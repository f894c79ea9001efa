"""The look at a bucket, against a server on loopback."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from object_server import Objects
from run_agent.act import bucket_look, bucket_requests
from run_agent.decide import program_words

AT = 1_700_000_000.0


def look(objects: Objects, known: Any = None, **more: str) -> dict[str, Any]:
    asked = {
        "storage": objects.url, "metadata": objects.url, "bucket": "lab", "prefix": "digits/",
        "known": known or {}, **more,
    }  # fmt: skip
    return bucket_look.look(json.loads(json.dumps(asked)))


def saved(answer: dict[str, Any]) -> float | None:
    return program_words.saved_at(answer["saved"])


def test_the_newest_whole_checkpoint_of_orbax(lab: Objects) -> None:
    for step in (100, 200):
        lab.step(f"digits/{step}", AT + step)
    lab.step("digits/300", AT + 300, mark="")
    found = look(lab)
    assert (found["error"], found["note"], saved(found)) == ("", "", AT + 200)
    assert found["checkpoint"] == {"name": "200", "step": 200, "bytes": 310}
    assert program_words.saved_steps(found["steps"]) == [(100, AT + 100), (200, AT + 200)]
    # What is written into the unfinished one is a sign of life.
    lab.put("digits/300/d/1", AT + 310)
    assert look(lab)["newest"] != found["newest"]
    lab.put("digits/300/commit_success.txt", AT + 320)
    assert saved(look(lab)) == AT + 320


@pytest.mark.parametrize(
    ("folder", "mark"),
    [
        ("digits/checkpoints/{}", "commit_success.txt"),  # MaxText
        ("digits/run-a/checkpoints/step_{}", "commit_success.txt"),
        ("digits/model_{}", "commit_success.txt"),  # step_prefix of Orbax
        ("digits/step-{}", "metadata.json"),  # Levanter
    ],
)
def test_the_folders_of_other_writers(lab: Objects, folder: str, mark: str) -> None:
    lab.step(folder.format(1000), AT, mark)
    lab.step(folder.format(2000), AT + 60, "")
    lab.put("digits/tensorboard/events.out.tfevents.1", AT + 99)
    found = look(lab)
    assert (saved(found), found["checkpoint"]["step"]) == (AT, 1000)


def test_files_are_whole_by_themselves_and_folders_without_marks_by_their_newest(
    lab: Objects,
) -> None:
    lab.put("digits/step_1.pt", AT, 500)
    lab.put("digits/train.log", AT + 50)
    lab.put("digits/last.pt.tmp", AT + 60)
    found = look(lab)
    assert (saved(found), found["checkpoint"]["bytes"], found["note"]) == (AT, 500, "")
    for step in (500, 1000):  # Hugging Face
        lab.put(f"digits/checkpoint-{step}/model.safetensors", AT + step)
        lab.put(f"digits/checkpoint-{step}/trainer_state.json", AT + step + 1)
    found = look(lab)
    assert (saved(found), found["checkpoint"]["step"]) == (AT + 1001, 1000)
    assert "no mark" in found["note"]


def test_a_bucket_without_checkpoints_says_that_there_are_none(lab: Objects) -> None:
    assert saved(look(lab)) == 0
    lab.put("digits/", AT)  # a folder that a console made
    lab.step("digits/100", AT, mark="")
    found = look(lab)
    assert (saved(found), found["steps"], found["checkpoint"]) == (0, [], None)


def test_marks_that_are_known_are_not_asked_for_again(lab: Objects) -> None:
    for step in range(0, 1000, 100):
        lab.step(f"digits/{step}", AT + step)
    first = look(lab)
    again = look(lab, first["known"])
    assert (first["gets"], again["gets"], again["lists"]) == (10, 1, 1)
    assert {**again, "gets": 0, "lists": 0} == {**first, "gets": 0, "lists": 0}
    # The newest is asked for each time, as its mark may be gone.
    del lab.items["digits/900/commit_success.txt"]
    assert saved(look(lab, first["known"])) == AT + 800


def test_a_crash_loop_that_leaves_unfinished_ones_hides_no_whole_one(lab: Objects) -> None:
    lab.step("digits/100", AT)
    for step in range(200, 800, 100):
        lab.step(f"digits/{step}", AT + step, mark="")
    assert saved(look(lab)) == AT


def test_what_a_bucket_refuses_has_a_remedy(lab: Objects) -> None:
    lab.step("digits/100", AT)
    lab.refusal = (403, "nope\x1b[31m")
    error = look(lab)["error"]
    assert error.startswith("gs://lab/digits/: the bucket refuses (403)")
    assert "roles/storage.objectViewer" in error
    lab.refusal = (503, "slow down \x1b[31m")
    assert look(lab)["error"].endswith("the bucket answers 503 slow down [31m")
    lab.refusal = None
    assert "no such bucket" in look(lab, bucket="gone")["error"]
    lab.has_account = False
    assert "service_account" in look(lab)["error"]


def test_endless_and_huge_lists_are_cut_off(lab: Objects) -> None:
    for step in range(40):
        lab.step(f"digits/{step}", AT + step)
    lab.is_endless = True
    found = look(lab)
    assert found["lists"] <= 20
    assert "more folders or objects" in found["note"] or "lists" in found["error"]
    lab.is_endless = False
    lab.page_size = 3
    found = look(lab)
    assert (found["error"], found["lists"] <= 20) == ("", True)
    assert "more folders or objects" in found["note"]


def test_hostile_objects_are_refused_one_by_one(lab: Objects) -> None:
    lab.put("digits/100/d/0", AT)
    lab.put("digits/100/commit_success.txt", AT)
    lab.put("digits/\x1b[2J9.pt", AT + 900)
    lab.put("digits/..", AT + 900)
    lab.put("digits/8.pt", AT + 900, 10**19)
    lab.items["digits/7.pt"] = {"name": "digits/7.pt", "size": {}, "updated": "9999-99-99T"}
    lab.items["digits/6.pt"] = {"name": "elsewhere/6.pt", "size": "1", "updated": "x"}
    lab.put("digits/" + "a/" * 40 + "5.pt", AT + 900)
    found = look(lab)
    assert (saved(found), found["error"]) == (AT, "")
    assert "5 objects have names, sizes or times that are refused" in found["note"]


def test_a_server_that_is_away_or_silent(lab: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not answer" in look(lab, storage="http://127.0.0.1:9")["error"]
    monkeypatch.setattr(bucket_requests, "_SILENCE", 0.2)
    lab.delay = 1.0
    begun = time.monotonic()
    assert "does not answer" in look(lab)["error"]
    assert time.monotonic() - begun < 0.9
    lab.delay = 0.1
    monkeypatch.setattr(bucket_look, "SECONDS", 0.0)
    assert "too slow" in look(lab, metadata="")["error"]


def test_the_helper_prints_what_it_found(lab: Objects, capsys: Any) -> None:
    lab.step("digits/100", AT)
    asked = {"storage": lab.url, "metadata": "", "bucket": "lab", "prefix": "", "known": {}}
    bucket_look.main([json.dumps(asked)])
    printed = json.loads(capsys.readouterr().out)
    assert (saved(printed), printed["checkpoint"]["name"]) == (AT, "digits/100")
    assert lab.tokens == [None] * len(lab.tokens)
