"""What a group uses cannot be deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from clouds import a_cloud

from tpu_local_cloud.compute_api.policies import POLICIES
from tpu_local_cloud.compute_api.templates import TEMPLATES
from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.google.answers import Call
from tpu_local_cloud.model.cloud import Cloud

REGION = "us-central1"
USED = {
    f"regions/{REGION}/resourcePolicies/wp": POLICIES,
    "global/instanceTemplates/it": TEMPLATES,
    f"regions/{REGION}/instanceTemplates/it": TEMPLATES,
}


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    cloud = a_cloud(project="p")
    shelves = cloud.around.resource_policies, cloud.around.instance_templates
    document: dict[str, Any] = {"id": "1", "properties": {}}
    shelves[0].put(f"regions/{REGION}/wp", {**document, "name": "wp", "scope": f"regions/{REGION}"})
    for scope in ("global", f"regions/{REGION}"):
        shelves[1].put(f"{scope}/it", {**document, "name": "it", "scope": scope})
    group = ["projects/p/zones/us-central1-c/instanceGroupManagers/s1"]

    def users(what: str, tail: str) -> list[str]:
        assert tail in USED
        assert what == ("policy" if "Policies" in tail else "template")
        return group

    groups = SimpleNamespace(users_of=users, group=group)
    monkeypatch.setattr(cloud, "compute", groups)
    return cloud


@pytest.mark.parametrize("tail", USED)
def test_in_use(cloud: Cloud, tail: str) -> None:
    scope, collection, name = tail.rsplit("/", 2)
    what = "resource_policy" if collection == "resourcePolicies" else "instance_template"
    groups = {"region": REGION} if scope != "global" else {}
    call = Call("DELETE", {**groups, "id": name}, {}, b"")
    with pytest.raises(ComputeError) as refused:
        USED[tail].delete(cloud, call)
    assert refused.value.message == (
        f"The {what} resource 'projects/p/{tail}' is already being used by "
        "'projects/p/zones/us-central1-c/instanceGroupManagers/s1'"
    )
    assert (refused.value.code, refused.value.reason) == (400, "resourceInUseByAnotherResource")
    assert USED[tail].find(cloud, f"projects/p/{tail}")
    # The stand-in has it, not the cloud.
    cloud.compute.group.clear()  # type: ignore[attr-defined]
    USED[tail].delete(cloud, call)
    assert USED[tail].find(cloud, f"projects/p/{tail}") is None
