"""Filters, order and pages of lists; scopes that cannot be reached."""

from __future__ import annotations

from typing import Any

import pytest
from clouds import a_cloud

from tpu_local_cloud.compute_api import lists
from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.google.answers import Call
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.faults import Fault

ITEMS = [
    {"name": "a", "creationTimestamp": "1", "labels": {"owner": "lab"}, "on": True},
    {"name": "ab", "creationTimestamp": "3", "labels": {"owner": "me"}, "on": False},
    {"name": "c", "creationTimestamp": "2"},
]
HERE, THERE = "zones/us-central1-c", "zones/us-east5-a"


@pytest.fixture
def cloud() -> Cloud:
    return a_cloud()


def call(**query: str) -> Call:
    return Call("GET", {}, query, b"", base="disks.list")


def names(cloud: Cloud, **query: str) -> list[str]:
    answer = lists.page(cloud, call(**query), "global/things", ITEMS)
    return [item["name"] for item in answer.get("items", [])]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["a", "ab", "c"]),
        ("name = a", ["a"]),
        ('name="a*"', ["a", "ab"]),
        ("labels.owner=lab", ["a"]),
        ("labels.owner:*", ["a", "ab"]),
        ("(name=a) OR (name=c)", ["a", "c"]),
        ("on=true", ["a"]),
        # The old syntax: regular expressions that fit as a whole.
        ("name eq a", ["a"]),
        ('name eq "a.*"', ["a", "ab"]),
        ("name ne a.*", ["c"]),
        ('(name eq "a.*") (labels.owner ne lab)', ["ab"]),
        ('targetLink eq ".*(e1).*"', []),
    ],
)
def test_filters(cloud: Cloud, text: str, found: list[str]) -> None:
    assert names(cloud, filter=text) == found


@pytest.mark.parametrize(
    "text", ["name eq", "name eq (", "name = ", "a eq b OR c eq d", "name ne *"]
)
def test_a_filter_that_cannot_be_read(cloud: Cloud, text: str) -> None:
    with pytest.raises(ComputeError, match="Invalid list filter expression") as refused:
        names(cloud, filter=text)
    assert refused.value.http == 400


def test_order(cloud: Cloud) -> None:
    assert names(cloud, orderBy="creationTimestamp desc") == ["ab", "c", "a"]
    with pytest.raises(ComputeError, match="orderBy"):
        names(cloud, orderBy="labels")


def test_pages(cloud: Cloud) -> None:
    answer = lists.page(cloud, call(maxResults="2"), "global/things", ITEMS)
    assert [item["name"] for item in answer["items"]] == ["a", "ab"]
    assert names(cloud, maxResults="2", pageToken=answer["nextPageToken"]) == ["c"]
    with pytest.raises(ComputeError, match="maxResults"):
        names(cloud, maxResults="501")


def everything(cloud: Cloud, **query: str) -> dict[str, Any]:
    shown: list[tuple[str, lists.Document]] = [(HERE, {"name": "a"}), (THERE, {"name": "b"})]
    scopes = [HERE, THERE, "zones/us-east1-d"]
    return lists.aggregated(cloud, call(**query), "things", shown, scopes)


def test_all_scopes_at_once(cloud: Cloud) -> None:
    items = everything(cloud)["items"]
    assert set(items) == {HERE, THERE, "zones/us-east1-d"}
    assert items[HERE] == {"things": [{"name": "a"}]}
    assert items["zones/us-east1-d"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"
    assert "regions/us-central1" in everything(cloud, includeAllScopes="true")["items"]


def test_a_page_of_all_scopes(cloud: Cloud) -> None:
    first = everything(cloud, maxResults="1")
    assert first["items"][HERE]["things"] == [{"name": "a"}]
    assert first["items"][THERE]["warning"]["code"] == "NO_RESULTS_ON_PAGE"
    second = everything(cloud, maxResults="1", pageToken=first["nextPageToken"])
    assert second["items"][THERE]["things"] == [{"name": "b"}]
    assert "nextPageToken" not in second


def test_a_zone_that_cannot_be_reached(cloud: Cloud) -> None:
    cloud.faults.add(Fault("unreachable", {"zone": "us-central1-c"}))
    with pytest.raises(ComputeError, match="us-central1-c") as refused:
        everything(cloud)
    assert refused.value.http == 503
    answer = everything(cloud, returnPartialSuccess="True")
    assert answer["items"][HERE] == {"warning": lists.not_reached(HERE)}
    assert answer["items"][HERE]["warning"]["code"] == "UNREACHABLE"
    assert answer["items"][THERE]["things"] == [{"name": "b"}]
    assert answer["unreachables"] == [HERE]
