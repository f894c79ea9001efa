"""Checkpoints in a bucket, as the controller sees and deletes them, against a server."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google import checkpoints
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.checkpoints import (
    CheckpointFolder,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from object_server import Objects

AT = 1_700_000_000.0


def folder_of(objects: Objects, bucket: str = "lab", prefix: str = "digits/") -> CheckpointFolder:
    return CheckpointFolder(GoogleApis(Client("lab-1", endpoint=objects.url)), bucket, prefix)


def test_what_a_folder_holds(lab: Objects) -> None:
    lab.step("digits/100", AT, mark="")
    lab.step("digits/200", AT + 60)
    lab.step("digits/300", AT + 120, mark="")
    lab.put("digits/\x1b", AT)
    lab.put("digits-of-others/1.pt", AT)
    lab.page_size = 2
    found = folder_of(lab).contents()
    assert [(one.name, one.state, one.size) for one in found.checkpoints] == [
        ("100", "unfinished", 300), ("200", "whole", 310), ("300", "unfinished", 300),
    ]  # fmt: skip
    assert [one.name for one in found.leftovers] == ["100"]
    assert (found.refused, found.is_cut, found.usd_per_gb_month) == (1, False, 0.02)


def test_an_archive_beside_checkpoints_is_none(lab: Objects) -> None:
    lab.step("100", AT)
    lab.put("tpu-fleet-archive/digits/solo/solo/x/parts/0000000000-0000000000", AT + 9)
    found = folder_of(lab, prefix="").contents()
    assert ([one.name for one in found.checkpoints], found.refused) == (["100"], 0)


def test_only_the_leftover_is_deleted(lab: Objects) -> None:
    lab.step("digits/100", AT, mark="")
    lab.step("digits/1000", AT, mark="")  # begins with the same letters
    lab.step("digits/200", AT + 60)
    folder = folder_of(lab)
    (one,) = (one for one in folder.contents().leftovers if one.name == "100")
    before = set(lab.items)
    assert folder.delete(one) == 3
    assert before - set(lab.items) == {name for name in before if name.startswith("digits/100/")}
    assert folder.delete(one) == 0


@pytest.mark.parametrize("name", ["digits/100/commit_success.txt", "digits/100/d/9"])
def test_a_checkpoint_that_is_written_to_meanwhile_stays(lab: Objects, name: str) -> None:
    lab.step("digits/100", AT, mark="")
    lab.step("digits/200", AT + 60)
    folder = folder_of(lab)
    (left,) = folder.contents().leftovers
    lab.put(name, AT + 90)
    before = dict(lab.items)
    with pytest.raises(TpuError, match="written to meanwhile"):
        folder.delete(left)
    assert lab.items == before


def test_an_object_that_is_replaced_between_list_and_deletion_stays(
    lab: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.step("digits/100", AT, mark="")
    lab.step("digits/200", AT + 60)
    folder = folder_of(lab)
    (left,) = folder.contents().leftovers
    listed = lab.listed

    def replaced(query: dict[str, str]) -> object:
        answer = listed(query)
        lab.put("digits/100/d/0", AT + 90)
        return answer

    monkeypatch.setattr(lab, "listed", replaced)
    with pytest.raises(TpuError):
        folder.delete(left)
    assert "digits/100/d/0" in lab.items


def test_what_is_not_seen_whole_has_no_leftovers(
    lab: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.step("digits/100", AT, mark="")
    lab.step("digits/200", AT + 60)
    lab.step("digits/300", AT + 60)
    lab.page_size = 3
    assert folder_of(lab).contents().leftovers
    monkeypatch.setattr(checkpoints, "PAGES", 3)
    found = folder_of(lab).contents()
    assert (found.is_cut, found.leftovers) == (True, [])


def test_a_bucket_that_is_not_there_or_refuses(lab: Objects) -> None:
    with pytest.raises(TpuError, match="no bucket gone"):
        folder_of(lab, "gone").contents()
    lab.bucket_refusal = (403, "does not have storage.buckets.get access")
    lab.put("digits/1.pt", AT)
    found = folder_of(lab).contents()
    assert ([one.name for one in found.checkpoints], found.usd_per_gb_month) == (["1.pt"], None)
    lab.refusal = (403, "does not have storage.objects.list access")
    with pytest.raises(TpuError, match=r"storage\.objects\.list"):
        folder_of(lab).contents()
