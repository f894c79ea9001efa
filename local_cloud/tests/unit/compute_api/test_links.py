"""Whole and partial links to resources."""

from __future__ import annotations

import pytest
from clouds import a_cloud

from tpu_local_cloud.compute_api import links


@pytest.mark.parametrize(
    ("url", "key"),
    [
        (
            "https://www.googleapis.com/compute/v1/projects/p/regions/r/resourcePolicies/n",
            "regions/r/n",
        ),
        (
            "http://127.0.0.1:8470/compute/beta/projects/p/regions/r/resourcePolicies/n",
            "regions/r/n",
        ),
        ("projects/p/regions/r/resourcePolicies/n", "regions/r/n"),
        ("projects/123/regions/r/resourcePolicies/n", "regions/r/n"),
        ("regions/r/resourcePolicies/n", "regions/r/n"),
        ("n", None),
        ("", None),
        ("resourcePolicies/n", None),
        ("projects/other/regions/r/resourcePolicies/n", None),
        ("projects/p/regions/r/instanceTemplates/n", None),
        ("projects/p/regions/r/resourcePolicies/n/more", None),
    ],
)
def test_a_link_leads_to_one_resource(url: str, key: str | None) -> None:
    cloud = a_cloud(project="p", number="123")
    assert links.key(cloud, url, "resourcePolicies") == key


def test_a_bare_name_is_malformed() -> None:
    assert links.malformed("resourcePolicies.workloadPolicy", "n").message == (
        "Invalid value for field 'resource.resourcePolicies.workloadPolicy': 'n'. "
        "The URL is malformed."
    )
