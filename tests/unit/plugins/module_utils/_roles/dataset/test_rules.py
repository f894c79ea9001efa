"""Rules for data sets in the fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.dataset.rules import (
    check_dataset,
    check_datasets_of,
)

FLEET: dict[str, Any] = {
    "fleet_slices": [{"name": "solo"}, {"name": "pair"}],
    "fleet_users": [{"name": "alice"}],
    "fleet_secrets": [{"name": "hf"}, {"name": "bobs", "user": "bob"}],
    "fleet_disks": [
        {"name": "fast", "slices": ["solo"], "path": "/mnt/fast", "user": "alice"},
        {"name": "big", "slices": ["pair"], "path": "/mnt/big", "read_only": True},
    ],
}
GOOD = {"name": "set", "from": "gs://lab-data/set", "size": "1GiB"}
WEB = {"from": "https://example.org/words.txt"}
HUB = {"from": "hf://datasets/lab/set@v1/data"}


def problems(*entries: dict[str, Any], **more: Any) -> list[str]:
    declared = [{**GOOD, **entry} for entry in entries]
    return [str(one) for one in check_dataset({**FLEET, "fleet_datasets": declared, **more})]


@pytest.mark.parametrize(
    "entry",
    [
        {"from": "gs://lab-{region}/set", "path": "/srv/set", "slices": ["solo"]},
        {**WEB, "sha256": "0" * 64},
        {**HUB, "secrets": ["hf"], "user": "alice", "include": ["*.parquet"]},
        {"from": "hf://lab/model"},
        {"path": "/mnt/fast/set", "slices": ["pair"]},
        {"from": "http://127.0.0.1:8000/set.bin"},
    ],
)
def test_good_ones_have_no_problems(entry: dict[str, Any]) -> None:
    assert problems(entry) == []


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"name": "a b"}, ".name = 'a b': is not a name for a data set"),
        ({"from": "s3://lab/set"}, ".from = 's3://lab/set': is no address of a data set. Write gs"),
        ({"from": "gs://LAB"}, ".from = 'gs://LAB': is not the address of a bucket"),
        ({"from": "gs://l"}, ".from = 'gs://l': is not the address of a bucket"),
        ({"from": "gs://lab-{rack}/a"}, ".from = 'gs://lab-{rack}/a': has {rack}, which is"),
        ({"from": "hf://set"}, ".from = 'hf://set': is not the address of a repository"),
        ({"from": "http://example.org/a"}, ".from = 'http://example.org/a': is not protected"),
        ({"from": "https://example.org/"}, ".from = 'https://example.org/': names no file"),
        ({"from": "https://a:secret@example.org/a"}, ".from: has a login, which all could read"),
        ({"sha256": "0" * 64}, ".sha256 = '00"),
        ({**WEB, "sha256": "abc"}, ".sha256 = 'abc': is no SHA-256"),
        ({**WEB, "include": ["*"]}, ".include: chooses among files"),
        ({"secrets": ["hf"]}, ".secrets: are for hf:// alone"),
        ({**HUB, "secrets": ["hg"]}, ".secrets[0] = 'hg': is not a set of secrets"),
        ({**HUB, "secrets": ["bobs"], "user": "alice"}, ".secrets[0] = 'bobs': belongs to bob"),
        ({"path": "data"}, ".path = 'data': is not a whole path"),
        ({"path": "/data/../etc"}, ".path = '/data/../etc': is no folder of its own"),
        ({"path": "/mnt/fast/set"}, ".path = '/mnt/fast/set': is on the disk fast of alice"),
        ({"path": "/mnt/big/set"}, ".path = '/mnt/big/set': is on the disk big, which is read-o"),
        ({"slices": ["sole"]}, ".slices[0] = 'sole': is not a slice"),
        ({"user": "bob"}, ".user = 'bob': is not a user"),
    ],
)
def test_what_is_wrong_with_a_data_set(entry: dict[str, Any], says: str) -> None:
    found = problems(entry)
    assert len(found) == 1
    assert found[0].startswith(f"fleet_datasets[0]{says}")
    assert "secret@" not in found[0]


def test_two_have_names_and_places_of_their_own() -> None:
    (same, variable) = (problems({}, {}), problems({"name": "a-b"}, {"name": "a_b"}))
    assert "fleet_datasets[1].name = 'set'" in same[0]
    assert "would both be in the variable TPU_FLEET_DATASET_A_B" in variable[0]
    inner = problems({"path": "/data/a"}, {"name": "b", "path": "/data/a/b"})
    assert inner == [
        "fleet_datasets[1].path = '/data/a/b': is inside of the data set set. Put it beside that."
    ]
    twice = problems({"path": "/data/a"}, {"name": "b", "path": "/data/a"})
    assert "is used twice on the same slice" in twice[0]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"fleet_hugging_face_url": "http://mirror.lab"}, "is no address of a hub"),
        ({"fleet_hugging_face_url": "https://u:p@mirror.lab"}, "is no address of a hub"),
        ({"fleet_dataset_port": 8000}, "is not a privileged port"),
    ],
)
def test_where_the_hub_is_and_who_answers(more: dict[str, Any], says: str) -> None:
    assert says in problems({}, **more)[0]
    assert (
        problems({}, fleet_hugging_face_url="http://127.0.0.1:80/hf", fleet_dataset_port=99) == []
    )


def test_a_run_names_data_sets_of_all_its_slices() -> None:
    data = {**FLEET, "fleet_datasets": [{**GOOD, "slices": ["solo"]}]}
    run = {"slices": ["solo", "pair"], "datasets": ["set", "sat"]}
    assert [str(one) for one in check_datasets_of(data, "fleet_runs[0]", run)] == [
        "fleet_runs[0].datasets[0] = 'set': is not on pair. Add that to the slices of set.",
        "fleet_runs[0].datasets[1] = 'sat': is not a data set of this fleet file. "
        "Did you mean set?",
    ]
    assert check_datasets_of(data, "f", {"slices": ["solo"], "datasets": ["set"]}) == []
