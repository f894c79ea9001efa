"""What is wanted, and the request that it becomes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import (
    NodeSpec,
    disk_path,
    merge_keys,
)

KEY = "ubuntu:ssh-ed25519 AAAAC3NzaC1 ubuntu"


def spec(**params: Any) -> NodeSpec:
    base = {"name": "n", "zone": "us-central2-b", "accelerator_type": "v4-8"}
    return NodeSpec.from_params({**base, **params}, "p")


def test_smallest_request() -> None:
    body = spec().create_body()
    assert body.pop("labels")["tpu-fleet"] == "managed"
    assert body == {
        "acceleratorType": "v4-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "networkConfig": {"network": "default", "enableExternalIps": True},
        "metadata": {"enable-guest-attributes": "TRUE"},
    }


def test_fullest_request() -> None:
    body = spec(
        accelerator_type=None,
        accelerator_config={"type": "v4", "topology": "2x2x2"},
        runtime_version="tpu-ubuntu2204-base",
        tier="spot",
        network="net",
        subnetwork="sub",
        external_ips=False,
        service_account="a@b",
        description="d",
        labels={"team": "x", "count": 3, "on": True},
        metadata={"k": True, "n": 1, "empty": None},
        tags=["t"],
        data_disks=[{"source_disk": "d1", "read_only": True}],
        ssh_keys=[KEY],
        startup_script="echo",
        owner="alice",
    ).create_body()
    digest = body["labels"].pop("tpu-fleet-spec")
    assert len(digest) == 16
    assert body == {
        "acceleratorConfig": {"type": "V4", "topology": "2x2x2"},
        "runtimeVersion": "tpu-ubuntu2204-base",
        "networkConfig": {"network": "net", "subnetwork": "sub", "enableExternalIps": False},
        "schedulingConfig": {"spot": True},
        "serviceAccount": {"email": "a@b"},
        "description": "d",
        "labels": {"team": "x", "count": "3", "on": "true", "tpu-fleet": "alice"},
        "metadata": {
            "enable-guest-attributes": "TRUE",
            "k": "TRUE",
            "n": "1",
            "empty": "",
            "startup-script": "echo",
            "ssh-keys": KEY,
        },
        "tags": ["t"],
        "dataDisks": [
            {"sourceDisk": "projects/p/zones/us-central2-b/disks/d1", "mode": "READ_ONLY"}
        ],
    }


def test_request_with_what_only_v2alpha1_knows() -> None:
    disk = {"source_disk": "d1", "read_only": False, "workers": [1]}
    wanted = spec(boot_disk_size="200GiB", data_disks=[disk])
    body = wanted.create_body()
    assert body["bootDiskConfig"] == {"diskSizeGb": "200"}
    assert body["dataDisks"][0]["workerIds"] == ["1"]
    assert wanted.api_version == "v2alpha1"
    assert spec().api_version == "v2"
    assert wanted.digest() != spec().digest()
    with pytest.raises(BadRequest, match="boot_disk_size = 200 is not a size"):
        spec(boot_disk_size=200)


@pytest.mark.parametrize(
    ("kind", "runtime"),
    [
        ("v4-8", "tpu-ubuntu2204-base"),
        ("v5litepod-16", "v2-alpha-tpuv5-lite"),
        ("v5p-8", "v2-alpha-tpuv5"),
        ("v6e-8", "v2-alpha-tpuv6e"),
    ],
)
def test_runtime_follows_the_generation(kind: str, runtime: str) -> None:
    assert spec(accelerator_type=kind).create_body()["runtimeVersion"] == runtime


def test_runtime_follows_the_generation_of_a_shape() -> None:
    wanted = spec(accelerator_type=None, accelerator_config={"type": "V6E", "topology": "2x4"})
    assert wanted.effective_runtime == "v2-alpha-tpuv6e"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "Upper"}, "'Upper' is no name for a TPU node"),
        ({"name": "a" * 64}, "is no name"),
        ({"name": "a-"}, "is no name"),
        ({"labels": {"Team": "x"}}, "The label Team=x is not valid"),
        ({"labels": {"team": "X"}}, "The label team=X is not valid"),
        ({"labels": {"tpu-fleet": "x"}}, "use the option owner"),
        ({"labels": {"a": {"b": 1}}}, "labels.a is a dict"),
        ({"metadata": {"a": [1]}}, "metadata.a is a list"),
        ({"owner": "Alice B"}, "The owner 'Alice B'"),
        ({"owner": ""}, "The owner ''"),
        ({"ssh_keys": ["ssh-ed25519 AAAA"]}, "is not of the form USER:TYPE"),
        ({"runtime_version": "v2-alpha-tpuv6e"}, "does not fit the accelerator type v4-8"),
        (
            {
                "accelerator_type": None,
                "accelerator_config": {"type": "V6E", "topology": "2x4"},
                "runtime_version": "tpu-ubuntu2204-base",
            },
            "does not fit the accelerator type V6E",
        ),
    ],
)
def test_what_no_zone_would_accept(params: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words.replace("(", r"\(")):
        spec(**params)


def test_wrong_runtime_names_the_right_one() -> None:
    with pytest.raises(BadRequest, match="Use tpu-ubuntu2204-base"):
        spec(runtime_version="v2-alpha-tpuv6e")


@pytest.mark.parametrize(
    "params",
    [
        {"accelerator_type": "v9-8", "runtime_version": "v2-alpha-tpuv6e"},
        {"runtime_version": "an-image-of-the-future"},
    ],
)
def test_what_is_unknown_is_not_wrong(params: dict[str, Any]) -> None:
    spec(**params)


def test_digest_is_of_what_cannot_be_changed() -> None:
    assert spec().digest() == spec(labels={"a": "b"}, metadata={"a": "b"}, owner="x").digest()
    assert spec().digest() == spec(tier="on_demand", network="default").digest()
    others = [
        {"accelerator_type": "v4-16"},
        {"tier": "spot"},
        {"network": "other"},
        {"service_account": "a@b"},
    ]
    assert len({spec(**other).digest() for other in [{}, *others]}) == 5


OLD = f"{KEY}\nalice:ssh-rsa BBBB alice"


@pytest.mark.parametrize(
    ("have", "params", "want"),
    [
        ({"a": "1"}, {}, {"a": "1"}),
        ({"a": "1"}, {"metadata": {"b": "2"}}, {"a": "1", "b": "2"}),
        ({"a": "1"}, {"metadata": {"a": "2"}}, {"a": "2"}),
        ({"a": "1", "ssh-keys": OLD}, {"metadata": {}, "purge": ["metadata"]}, {"ssh-keys": OLD}),
        (
            {"a": "1", "enable-guest-attributes": "TRUE"},
            {"metadata": {"b": "2"}, "purge": ["metadata"]},
            {"b": "2", "enable-guest-attributes": "TRUE"},
        ),
        ({}, {"startup_script": "echo"}, {"startup-script": "echo"}),
        ({}, {"ssh_keys": [KEY]}, {"ssh-keys": KEY}),
        ({"ssh-keys": OLD}, {"ssh_keys": [KEY]}, {"ssh-keys": OLD}),
        ({"ssh-keys": OLD}, {"ssh_keys": [KEY], "purge": ["ssh_keys"]}, {"ssh-keys": KEY}),
        ({"ssh-keys": OLD}, {"ssh_keys": ["eve:a b"]}, {"ssh-keys": f"{OLD}\neve:a b"}),
    ],
)
def test_metadata(have: dict[str, str], params: dict[str, Any], want: dict[str, str]) -> None:
    assert spec(**params).wanted_metadata(have) == want


def test_key_is_the_same_with_another_comment() -> None:
    expiring = 'ubuntu:ssh-ed25519 AAAAC3NzaC1 google-ssh {"userName":"u","expireOn":"2026"}'
    assert merge_keys([expiring, ""], [KEY]) == [expiring]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("d1", "projects/p/zones/z/disks/d1"),
        ("projects/q/zones/y/disks/d", "projects/q/zones/y/disks/d"),
        ("https://compute/v1/projects/q/zones/y/disks/d", "projects/q/zones/y/disks/d"),
    ],
)
def test_disk_path(source: str, path: str) -> None:
    assert disk_path(source, "p", "z") == path
