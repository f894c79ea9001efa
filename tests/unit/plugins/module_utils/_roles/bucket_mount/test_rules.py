"""Rules for buckets in the fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.bucket_mount.rules import (
    check_bucket_mount,
)

FLEET: dict[str, Any] = {"fleet_slices": [{"name": "solo"}, {"name": "pair"}]}
GOOD = {"bucket": "lab-data", "path": "/mnt/data"}


def problems(*entries: dict[str, Any], **more: Any) -> list[str]:
    return [
        str(problem)
        for problem in check_bucket_mount(
            {**FLEET, "fleet_buckets": [{**GOOD, **entry} for entry in entries], **more}
        )
    ]


def test_a_good_one_has_no_problems() -> None:
    entry = {"only_dir": "a/b", "file_permissions": "0640", "cache_dir": "/c", "cache_size": "5MiB"}
    assert not problems({**entry, "slices": ["solo"]})


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"bucket": "gs://lab"}, ".bucket = 'gs://lab': is not the name of a bucket"),
        ({"path": "mnt"}, ".path = 'mnt': is not a whole path"),
        ({"path": "/"}, ".path = '/': is the whole machine"),
        ({"only_dir": "a,b"}, ".only_dir = 'a,b': has a comma or a blank"),
        ({"path": "/mnt//data"}, ".path = '/mnt//data': has two slashes"),
        ({"options": {"-suid": ""}}, ".options.-suid = '': would let what another machine"),
        ({"options": {"uid": "1,2"}}, ".options.uid = '1,2': has a comma or a blank"),
        ({"file_permissions": 420}, ".file_permissions = 420: are not permissions"),
        ({"cache_size": "5MiB"}, ".cache_size = '5MiB': needs cache_dir"),
        ({"slices": ["sole"]}, ".slices[0] = 'sole': is not a slice"),
    ],
)
def test_what_is_wrong_with_a_bucket(entry: dict[str, Any], says: str) -> None:
    found = problems(entry)
    assert len(found) == 1
    assert found[0].startswith(f"fleet_buckets[0]{says}")


def test_two_buckets_have_two_folders_unless_two_slices_have_one_each() -> None:
    assert "fleet_buckets[1].path = '/mnt/data': is used twice" in problems({}, {})[0]
    assert not problems({"slices": ["solo"]}, {"bucket": "other", "slices": ["pair"]})
    (problem,) = problems({"slices": ["solo"]}, {"bucket": "other", "slices": ["solo"]})
    assert "[1].path = '/mnt/data': is used twice on the same slice" in problem


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({"fleet_gcsfuse_apt_key": "KEY"}, "fleet_gcsfuse_apt_uri"),
        ({"fleet_gcsfuse_apt_uri": "https://x.example"}, "fleet_gcsfuse_apt_key"),
        ({"fleet_bucket_timeout": "0s"}, "fleet_bucket_timeout"),
    ],
)
def test_what_is_wrong_elsewhere(variables: dict[str, Any], field: str) -> None:
    found = problems({}, **variables)
    assert len(found) == 1
    assert found[0].startswith(field)
