"""Values that Google refuses, in both APIs: one table, with Google's words where they are known.

What is quoted in public is marked W; docs/internals/gcloud.md says that the words of the others are
inferred.
"""

from __future__ import annotations

from typing import Any

import pytest
import requests
from emulator import Emulator

HERE = f"projects/{Emulator.project}"
ZONE = "us-east5-a"
NODE = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"}
FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
IMAGE = f"projects/ubuntu-os-accelerator-images/global/images/family/{FAMILY}"
INSTANCE = {
    "name": "vm",
    "machineType": f"zones/{ZONE}/machineTypes/ct6e-standard-1t",
    "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE}}],
    "networkInterfaces": [{"network": "global/networks/default"}],
}
LONG = "x" * 64
MANY = {f"k{i}": "v" for i in range(65)}
LABELS = "resource labels are invalid: "
BAD = "Cloud TPU received a bad request. "
TAG = "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'"
KEY_FORM = (
    "violates format constraints. The key must start with a lowercase character, can only contain "
    "lowercase letters, numeric characters, underscores and dashes. The key can be at most 63 "
    "characters long. International characters are allowed."
)
VALUE_FORM = (
    "violates format constraints. The value can only contain lowercase letters, numeric "
    "characters, underscores and dashes. The value can be at most 63 characters long. "
    "International characters are allowed."
)

LABELS_OF_NODES = [
    # W: ml-testing-accelerators#461.
    ({"test-name": "pt-r1.9-v3"},
     'value "pt-r1.9-v3" contains invalid character \'.\' at index 5 for key "test-name"'),
    ({"a": "V"}, 'value "V" contains invalid character \'V\' at index 0 for key "a"'),
    ({"a": "é."}, 'value "é." contains invalid character \'.\' at index 2 for key "a"'),
    ({"a": LONG}, 'value for key "a" is longer than 63 characters'),
    ({"Key": ""}, 'key "Key" contains invalid character \'K\' at index 0'),
    ({"a.b": ""}, 'key "a.b" contains invalid character \'.\' at index 1'),
    ({"1a": ""}, 'key "1a" must start with a letter'),
    ({"": "v"}, "key cannot be empty"),
    ({LONG: ""}, f'key "{LONG}" is longer than 63 characters'),
    (MANY, "there are 65 labels, and 64 are allowed"),
]  # fmt: skip
OF_NODES = [
    ({"description": "x" * 513}, "description must not be longer than 512 characters."),
    ({"networkConfig": {"network": "nope"}}, 'The network "nope" was not found.'),
    ({"networkConfig": {"network": "projects/other/global/networks/default"}},
     'The network "projects/other/global/networks/default" was not found.'),
    ({"networkConfig": {"subnetwork": "nope"}}, 'The subnetwork "nope" was not found in us-east5.'),
    ({"networkConfigs": [{}, {"network": "nope"}]}, 'The network "nope" was not found.'),
    ({"networkConfig": {"subnetwork": "regions/us-west4/subnetworks/default"}},
     'The subnetwork "regions/us-west4/subnetworks/default" was not found in us-east5.'),
    ({"tags": ["ok", "Bad Tag"]}, f"Invalid value for field 'tags[1]': 'Bad Tag'. {TAG}"),
    ({"metadata": {"a b": "c"}}, "Invalid metadata key: 'a b'."),
    ({"metadata": {"k": "x" * 262_145}},
     "Value for field 'metadata[k]' is too large: maximum size 262144 character(s); actual size "
     "262145."),
    ({"metadata": {f"k{i}": "x" * 200_000 for i in range(3)}},
     "Value for field 'metadata' is too large: maximum size 524288 character(s)"),
    ({"serviceAccount": {"email": "nonsense"}},
     'The service account "nonsense" is not an email address.'),
    ({"serviceAccount": {"scope": ["nonsense"]}}, 'The scope "nonsense" is not a URL.'),
    ({"schedulingConfig": {"preemptible": True, "reserved": True}},
     "preemptible and reserved cannot both be set."),
    ({"schedulingConfig": {"preemptible": True, "spot": True}},
     "preemptible and spot cannot both be set."),
]  # fmt: skip
UPDATED = ("description", "tags", "metadata")


def refused(method: str, url: str, body: Any, **params: str) -> str:
    """Return the words of a refusal."""
    answer = requests.request(method, url, json=body, params=params, timeout=60)
    assert answer.status_code == 400, answer.text
    return str(answer.json()["error"]["message"])


def accepted(method: str, url: str, body: Any, **params: str) -> Any:
    answer = requests.request(method, url, json=body, params=params, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def nodes(cloud: Emulator) -> str:
    """Return where nodes are."""
    return f"{cloud.url}v2/{HERE}/locations/{ZONE}/nodes"


@pytest.fixture
def instances(cloud: Emulator) -> str:
    """Return where instances are."""
    return f"{cloud.url}compute/v1/{HERE}/zones/{ZONE}/instances"


# The TPU API ---------------------------------------------------------------------------------


def named(value: Any) -> str:
    """Return the name of a case: what is wrong, without its lengths."""
    return str(value)[:40] if isinstance(value, str) else ""


@pytest.mark.parametrize(("labels", "text"), LABELS_OF_NODES, ids=named)
def test_labels_of_a_node(nodes: str, labels: dict[str, str], text: str) -> None:
    body = {**NODE, "labels": labels}
    assert refused("POST", nodes, body, nodeId="n1") == LABELS + text
    accepted("POST", nodes, {**NODE, "labels": {"a": "b"}}, nodeId="n1")
    changed = refused("PATCH", f"{nodes}/n1", {"labels": labels}, updateMask="labels")
    assert changed == LABELS + text
    assert accepted("GET", f"{nodes}/n1", None)["labels"] == {"a": "b"}


@pytest.mark.parametrize(("fields", "text"), OF_NODES, ids=named)
def test_values_of_a_node(nodes: str, fields: dict[str, Any], text: str) -> None:
    assert refused("POST", nodes, {**NODE, **fields}, nodeId="n1").startswith(BAD + text)
    queued = nodes.replace("/nodes", "/queuedResources")
    spec = {"parent": f"{HERE}/locations/{ZONE}", "nodeId": "n1", "node": {**NODE, **fields}}
    body = {"tpu": {"nodeSpec": [spec]}}
    assert refused("POST", queued, body, queuedResourceId="q").startswith(BAD + text)
    accepted("POST", nodes, NODE, nodeId="n1")
    for field in set(fields) & set(UPDATED):
        changed = refused("PATCH", f"{nodes}/n1", fields, updateMask=field)
        assert changed.startswith(BAD + text)
    assert len(accepted("GET", nodes, None)["nodes"]) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"größe": "日本-1_a", "k": ""}, "description": "x" * 512},
        {"labels": dict(list(MANY.items())[:64])},
        {"networkConfig": {"network": "default", "subnetwork": "default"}},
        {"networkConfig": {"network": f"{HERE}/global/networks/default"}},
        {"networkConfig": {"subnetwork": f"{HERE}/regions/us-east5/subnetworks/default"}},
        {"networkConfig": {"network": "projects/123456789012/global/networks/default"}},
        {"networkConfig": {
            "network": f"https://www.googleapis.com/compute/v1/{HERE}/global/networks/default"}},
        {"tags": ["a", "web-1"], "metadata": {"k-1_A": "x" * 262_144}},
        {"serviceAccount": {"email": "a@p.iam.gserviceaccount.com", "scope": ["https://x/y"]}},
        {"schedulingConfig": {"preemptible": False, "reserved": False, "spot": True}},
    ],
)  # fmt: skip
def test_what_a_node_may_have(nodes: str, fields: dict[str, Any]) -> None:
    accepted("POST", nodes, {**NODE, **fields}, nodeId="n1")


# Compute Engine ------------------------------------------------------------------------------

LABELS_OF_INSTANCES = [
    # W: gax-nodejs#1375 and #1288.
    ({"a": "V"}, f"Label value 'V' {VALUE_FORM}"),
    ({"a": "b.c"}, f"Label value 'b.c' {VALUE_FORM}"),
    ({"a": LONG}, f"Label value '{LONG}' {VALUE_FORM}"),
    ({"iAmVm": ""}, f"Label key 'iAmVm' {KEY_FORM}"),
    ({"1a": ""}, f"Label key '1a' {KEY_FORM}"),
    ({"": "v"}, f"Label key '' {KEY_FORM}"),
    ({LONG: ""}, f"Label key '{LONG}' {KEY_FORM}"),
    (MANY, "There are 65 labels, and 64 are allowed."),
]
# Where it is, what it is, and what is said of it.
OF_INSTANCES = [
    # W: algo#267.
    ("tags.items[1]", {"tags": {"items": ["a", "Bad Tag"]}}, f"'Bad Tag'. {TAG}"),
    ("metadata.items[0].key", {"metadata": {"items": [{"key": "a b"}]}},
     "'a b'. Must be a match of regex '[a-zA-Z0-9-_]{1,128}'"),
    ("serviceAccounts", {"serviceAccounts": [{"email": "a@b.c"}, {"email": "d@e.f"}]},
     "''. At most one service account is supported."),
    ("serviceAccounts[0].email", {"serviceAccounts": [{"email": "nonsense"}]},
     "'nonsense'. Service accounts must be valid RFC 822 email addresses."),
    ("serviceAccounts[0].scopes[0]", {"serviceAccounts": [{"scopes": ["nonsense"]}]},
     "'nonsense'. The scope is invalid."),
    ("networkInterfaces", {"networkInterfaces": []},
     "''. At least one network interface is required."),
    ("networkInterfaces[0].network", {"networkInterfaces": [{"network": "nope"}]},
     "'nope'. The URL is malformed."),
    ("networkInterfaces[0].network",
     {"networkInterfaces": [{"network": "global/networks/nope"}]},
     "'global/networks/nope'. The referenced network resource cannot be found."),
    ("networkInterfaces[0].subnetwork",
     {"networkInterfaces": [{"subnetwork": "regions/us-west4/subnetworks/default"}]},
     "'regions/us-west4/subnetworks/default'. The referenced subnetwork resource cannot be found."),
]  # fmt: skip
TOO_LARGE = " is too large: maximum size {} character(s); actual size {}."


@pytest.mark.parametrize(("labels", "text"), LABELS_OF_INSTANCES, ids=named)
def test_labels_of_an_instance(instances: str, labels: dict[str, str], text: str) -> None:
    body = {**INSTANCE, "labels": labels}
    assert (
        refused("POST", instances, body) == f"Invalid value for field 'resource.labels': ''. {text}"
    )
    accepted("POST", instances, INSTANCE)
    mark = accepted("GET", f"{instances}/vm", None)["labelFingerprint"]
    body = {"labels": labels, "labelFingerprint": mark}
    changed = refused("POST", f"{instances}/vm/setLabels", body)
    assert changed == f"Invalid value for field 'labels': ''. {text}"
    disk = {"name": "d", "labels": labels}
    made = refused("POST", instances.replace("/instances", "/disks"), disk)
    assert made == f"Invalid value for field 'resource.labels': ''. {text}"


@pytest.mark.parametrize(("field", "fields", "text"), OF_INSTANCES, ids=named)
def test_values_of_an_instance(
    instances: str, field: str, fields: dict[str, Any], text: str
) -> None:
    said = refused("POST", instances, {**INSTANCE, **fields})
    assert said == f"Invalid value for field 'resource.{field}': {text}"
    # A template says the same of its properties.
    properties = {**INSTANCE, "machineType": "ct6e-standard-1t", **fields}
    del properties["name"]
    templates = instances.replace(f"zones/{ZONE}/instances", "regions/us-east5/instanceTemplates")
    said = refused("POST", templates, {"name": "t", "properties": properties})
    assert said == f"Invalid value for field 'resource.properties.{field}': {text}"


def test_metadata_of_an_instance_has_limits(instances: str) -> None:
    """W: kubernetes#37180, when the limit was smaller."""
    items = [{"key": "a", "value": "x"}, {"key": "b", "value": "é" * 131_073}]
    said = refused("POST", instances, {**INSTANCE, "metadata": {"items": items}})
    where = "Value for field 'resource.metadata.items[1].value'"
    assert said == where + TOO_LARGE.format(262_144, 262_146)
    items = [{"key": f"k{i}", "value": "x" * 200_000} for i in range(3)]
    said = refused("POST", instances, {**INSTANCE, "metadata": {"items": items}})
    assert said == "Value for field 'resource.metadata'" + TOO_LARGE.format(524_288, 600_006)
    accepted("POST", instances, INSTANCE)
    mark = accepted("GET", f"{instances}/vm", None)["metadata"]["fingerprint"]
    body = {"fingerprint": mark, "items": items}
    said = refused("POST", f"{instances}/vm/setMetadata", body)
    assert said == "Value for field 'metadata'" + TOO_LARGE.format(524_288, 600_006)


def test_a_machine_type_is_a_link(instances: str) -> None:
    said = refused("POST", instances, {**INSTANCE, "machineType": "ct6e-standard-1t"})
    field = "Invalid value for field 'resource.machineType': 'ct6e-standard-1t'."
    assert said == f"{field} The URL is malformed."


def test_firewalls_are_of_a_network_that_exists(cloud: Emulator) -> None:
    rule = {"name": "web", "allowed": [{"IPProtocol": "tcp"}], "network": "global/networks/nope"}
    said = refused("POST", f"{cloud.url}compute/v1/{HERE}/global/firewalls", rule)
    field = "Invalid value for field 'resource.network': 'global/networks/nope'."
    assert said == f"{field} The referenced network resource cannot be found."
