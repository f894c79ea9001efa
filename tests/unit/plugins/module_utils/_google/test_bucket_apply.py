"""A bucket, made and corrected by an API whose answers get lost and which others use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import Refused, TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_apply import BucketApplier
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_plan import BucketSpec
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    Answer,
    Call,
    FakeSession,
    client_with,
    error,
)

SPEC = BucketSpec("lab", "us-central2", accounts=("default",), owner="managed")
LIST, BUCKET, POLICY = "storage/v1/b", "storage/v1/b/lab", "storage/v1/b/lab/iam"
MEMBER = "serviceAccount:42-compute@developer.gserviceaccount.com"
CONFLICT = Answer(409, {"error": {"code": 409, "errors": [{"reason": "conflict"}]}})
OUTDATED = Answer(412, {"error": {"code": 412, "errors": [{"reason": "conditionNotMet"}]}})
LOST = error(503, "UNAVAILABLE")


class Storage:
    """One bucket, or none; `first` answers the first request of its kind instead."""

    def __init__(self, bucket: dict[str, Any] | None = None, elsewhere: Any = None) -> None:
        self.bucket = bucket
        self.elsewhere = elsewhere
        self.policy: dict[str, Any] = {"etag": "1", "bindings": []}
        self.objects: list[Any] = []
        self.first: dict[tuple[str, str], Callable[[], Any]] = {}
        self.session = FakeSession(answer=self.answer)

    def answer(self, call: Call) -> Any:
        early = self.first.pop((call.method, call.path), None)
        found = early() if early else None
        return found or self.usual(call)

    def usual(self, call: Call) -> Any:
        if call.method == "POST":
            self.create(call.body)
        elif call.method == "PATCH":
            return self.patch(call)
        elif call.method == "DELETE":
            self.bucket = None
            return Answer(204, b"")
        elif call.method == "PUT":
            if call.body["etag"] != self.policy["etag"]:
                return OUTDATED
            self.policy = {**call.body, "etag": self.policy["etag"] + "+"}
        return self.read(call.path)

    def read(self, path: str) -> Any:
        if path == LIST:
            others = [{"name": "lab-2"}]
            return {"items": [*others, *([self.bucket] if self.bucket else [])]}
        if path.endswith("/o"):
            return {"items": self.objects}
        if path == POLICY:
            return dict(self.policy)
        return self.bucket or self.elsewhere or error(404, "NOT_FOUND")

    def create(self, body: dict[str, Any]) -> None:
        self.bucket = {**body, "metageneration": "1", "projectNumber": "42"}

    def patch(self, call: Call) -> Any:
        assert self.bucket is not None
        if call.params["ifMetagenerationMatch"] != self.bucket["metageneration"]:
            return OUTDATED
        number = str(int(self.bucket["metageneration"]) + 1)
        self.bucket = {**self.bucket, **call.body, "metageneration": number}
        return self.bucket

    @property
    def changing(self) -> list[str]:
        return [method for method in self.session.methods if method != "GET"]

    def applier(self, spec: BucketSpec = SPEC, adopt: bool = False) -> BucketApplier:
        client, _clock = client_with(self.session)
        return BucketApplier(GoogleApis(client), spec, adopt)

    def apply(self, **options: Any) -> list[str]:
        changes = self.applier(**options).plan_present()
        for change in changes:
            change.apply()
        return [change.kind for change in changes]


def existing(**rest: Any) -> dict[str, Any]:
    """Return a bucket of this fleet as it should be."""
    ours = {**SPEC.body(), "metageneration": "1", "projectNumber": "42"}
    return {**ours, **rest}


def test_a_new_bucket_is_made_once_and_its_account_gets_access() -> None:
    storage = Storage()
    assert storage.apply() == ["create", "grant"]
    roles = {item["role"] for item in storage.policy["bindings"] if MEMBER in item["members"]}
    assert roles == {"roles/storage.objectUser", "roles/storage.legacyBucketReader"}
    assert storage.apply() == []
    assert storage.changing == ["POST", "PUT"]


def test_a_plan_sends_nothing_that_changes() -> None:
    for bucket in (None, existing(), existing(storageClass="NEARLINE")):
        storage = Storage(bucket)
        storage.applier().plan_present()
        assert storage.changing == []


@pytest.mark.parametrize("elsewhere", [error(403, "PERMISSION_DENIED"), {"name": "lab"}])
def test_a_bucket_of_another_project_is_not_touched(elsewhere: Any) -> None:
    storage = Storage(elsewhere=elsewhere)
    with pytest.raises(Refused) as raised:
        storage.applier().plan_present()
    assert "name = 'lab'" in str(raised.value)
    assert "p-lab" in raised.value.remedy
    assert storage.applier().plan_absent() == []
    assert storage.changing == []


def test_a_lost_answer_makes_no_second_bucket() -> None:
    storage = Storage()

    def lost() -> Any:
        storage.create(SPEC.body())
        return LOST

    storage.first["POST", LIST] = lost
    assert storage.apply() == ["create", "grant"]
    assert storage.changing == ["POST", "PUT"]


def test_a_name_that_another_project_takes_at_the_same_moment() -> None:
    storage = Storage()
    storage.first["POST", LIST] = lambda: CONFLICT
    with pytest.raises(Refused, match="another project"):
        storage.apply()
    assert storage.changing == ["POST"]


def test_a_bucket_that_another_caller_makes_at_the_same_moment_is_taken() -> None:
    storage = Storage()

    def theirs() -> Any:
        storage.create(SPEC.body())
        return CONFLICT

    storage.first["POST", LIST] = theirs
    storage.apply()
    assert storage.changing == ["POST", "PUT"]


def test_a_change_of_others_between_look_and_correction_stays() -> None:
    storage = Storage(existing(storageClass="NEARLINE"))

    def theirs() -> None:
        assert storage.bucket is not None
        labels = {**storage.bucket["labels"], "team": "vision"}
        storage.bucket = {**storage.bucket, "labels": labels, "metageneration": "2"}

    storage.first["PATCH", BUCKET] = theirs
    assert storage.apply() == ["update", "grant"]
    assert storage.bucket is not None
    assert storage.bucket["storageClass"] == "STANDARD"
    assert storage.bucket["labels"] == {"tpu-fleet": "managed", "team": "vision"}
    assert storage.changing == ["PATCH", "PATCH", "PUT"]


def test_a_lost_answer_to_a_correction_is_settled_by_a_look() -> None:
    storage = Storage(existing(storageClass="NEARLINE"))

    def lost() -> Any:
        assert storage.bucket is not None
        storage.bucket = {**storage.bucket, "storageClass": "STANDARD", "metageneration": "2"}
        return LOST

    storage.first["PATCH", BUCKET] = lost
    storage.apply()
    assert storage.changing == ["PATCH", "PUT"]


def test_access_that_others_give_meanwhile_stays() -> None:
    storage = Storage(existing())
    theirs = {"role": "roles/storage.admin", "members": ["user:b@lab.example"]}

    def other() -> None:
        storage.policy = {"etag": "theirs", "bindings": [theirs]}

    storage.first["PUT", POLICY] = other
    assert storage.apply() == ["grant"]
    assert theirs in storage.policy["bindings"]
    assert len(storage.policy["bindings"]) == 3


def test_a_bucket_without_a_label_keeps_its_settings_and_gets_access() -> None:
    theirs = existing(labels={"team": "vision"}, softDeletePolicy={})
    theirs["softDeletePolicy"] = {"retentionDurationSeconds": "604800"}
    storage = Storage(theirs)
    applier = storage.applier()
    assert [change.kind for change in applier.plan_present()] == ["grant"]
    (warning,) = applier.warnings
    assert "soft_delete is 7d, not 0s" in warning
    assert "adopt: true" in warning
    assert storage.apply(adopt=True) == ["update", "grant"]
    assert storage.bucket is not None
    assert storage.bucket["labels"] == {"tpu-fleet": "managed"}
    assert storage.apply(adopt=False) == []


def test_a_bucket_of_another_fleet_is_left_alone() -> None:
    storage = Storage(existing(labels={"tpu-fleet": "speech"}))
    with pytest.raises(Refused, match="speech"):
        storage.apply()
    with pytest.raises(Refused, match="speech"):
        storage.applier().plan_absent()


def test_a_bucket_elsewhere_is_an_error() -> None:
    storage = Storage(existing(location="EUROPE-WEST4"))
    with pytest.raises(Refused) as raised:
        storage.apply()
    assert "location = 'us-central2'" in str(raised.value)
    assert "europe-west4" in str(raised.value)


def test_only_an_empty_bucket_is_deleted() -> None:
    storage = Storage(existing())
    storage.objects = [{"name": "100/commit_success.txt"}]
    with pytest.raises(Refused, match="has contents"):
        storage.applier().plan_absent()
    assert storage.changing == []
    storage.objects = []
    (change,) = storage.applier().plan_absent()
    change.apply()
    assert storage.changing == ["DELETE"]
    assert storage.applier().plan_absent() == []


@pytest.mark.parametrize(("answer", "words"), [(OUTDATED, "changed"), (CONFLICT, "has contents")])
def test_a_bucket_that_is_used_before_its_deletion_stays(answer: Any, words: str) -> None:
    storage = Storage(existing())
    (change,) = storage.applier().plan_absent()
    storage.first["DELETE", BUCKET] = lambda: answer
    with pytest.raises(TpuError, match=words):
        change.apply()
    assert storage.bucket is not None


USED = replace(SPEC, writers=("user:alice@lab.example",))


def used(storage: Storage, spec: BucketSpec = USED) -> tuple[list[str], list[str]]:
    """Return what is done for a bucket that is used, and the warnings."""
    applier = storage.applier(spec)
    changes = applier.plan_used()
    for change in changes:
        change.apply()
    return [change.kind for change in changes], applier.warnings


def test_a_bucket_that_is_used_is_made_like_any_other() -> None:
    storage = Storage()
    assert used(storage) == (["create", "grant"], [])
    members = {name for item in storage.policy["bindings"] for name in item["members"]}
    assert members == {MEMBER, "user:alice@lab.example"}
    assert used(storage) == ([], [])
    assert storage.changing == ["POST", "PUT"]


def test_a_bucket_that_is_used_keeps_its_settings_and_may_be_elsewhere() -> None:
    storage = Storage(existing(labels={}, storageClass="NEARLINE", location="EUROPE-WEST4"))
    assert used(storage) == (["grant"], [])
    assert storage.changing == ["PUT"]


@pytest.mark.parametrize(
    ("storage", "refuses", "words"),
    [
        (Storage(existing(labels={"tpu-fleet": "speech"})), None, "bucket of the fleet speech"),
        (Storage(elsewhere=error(403, "PERMISSION_DENIED")), None, "bucket of another project"),
        (Storage(existing()), POLICY, "PERMISSION_DENIED"),
        (Storage(existing()), LIST, "PERMISSION_DENIED"),
    ],
)
def test_what_cannot_be_seen_of_it_is_a_warning_with_the_roles(
    storage: Storage, refuses: str | None, words: str
) -> None:
    denied = error(403, "PERMISSION_DENIED", "PERMISSION_DENIED")
    if refuses:
        storage.first["GET", refuses] = lambda: denied
    done, (warning,) = used(storage)
    assert (done, storage.changing) == ([], [])
    assert warning.startswith("name = 'lab': who has access to the bucket was neither seen nor")
    assert words in warning
    assert "user:alice@lab.example: roles/storage.objectUser and roles/storage.legacy" in warning


def test_without_a_region_only_a_bucket_that_is_there_is_used() -> None:
    nowhere = replace(USED, location="")
    assert used(Storage(existing()), nowhere) == (["grant"], [])
    with pytest.raises(Refused, match="there is no such bucket") as raised:
        used(Storage(), nowhere)
    assert "fleet_checkpoint_buckets" in raised.value.remedy
