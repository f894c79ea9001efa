from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import responses
from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, is_trusted_as_template

ENDPOINT = "http://127.0.0.1:9/"
# It prints PWNED, but only if somebody evaluates it.
EVIL = """{{ lookup('pipe', "echo PW''NED") }}"""
BLOB = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", b"k" * 32))
KEY = base64.b64encode(BLOB).decode()


def node(name: str, workers: int = 1, zone: str = "us-central2-b", **fields: Any) -> dict[str, Any]:
    return {
        # Answers may carry the project's number where its id was sent.
        "name": f"projects/123456789012/locations/{zone}/nodes/{name}",
        "id": f"1{len(name)}{workers}",
        "acceleratorType": "v4-8",
        "state": "READY",
        "networkEndpoints": [
            {"ipAddress": f"10.0.0.{k}", "accessConfig": {"externalIp": f"192.0.2.{k}"}}
            for k in range(workers)
        ],
        **fields,
    }


def keys(workers: int, **extra: str) -> dict[str, Any]:
    items = [{"namespace": "hostkeys", "key": "ssh-ed25519", "value": KEY}]
    items += [{"namespace": "guest", "key": key, "value": value} for key, value in extra.items()]
    return {"guestAttributes": [{"queryValue": {"items": items}} for _worker in range(workers)]}


class Api:
    """The few answers of the API that a test wants."""

    def __init__(self, mock: responses.RequestsMock) -> None:
        self.mock = mock
        # Compute Engine has no TPUs.
        mock.get(re.compile(f"{ENDPOINT}compute/v1/projects/[^/]+/aggregated/"), json={})

    def nodes(
        self, *nodes: dict[str, Any], project: str = "p", zone: str = "-", **page: Any
    ) -> None:
        self.mock.get(
            f"{ENDPOINT}v2/projects/{project}/locations/{zone}/nodes",
            json={**({"nodes": list(nodes)} if nodes else {}), **page},
        )

    def attributes(
        self, name: str, answer: dict[str, Any], status: int = 200, zone: str = "us-central2-b"
    ) -> None:
        path = f"v2/projects/p/locations/{zone}/nodes/{name}:getGuestAttributes"
        self.mock.post(f"{ENDPOINT}{path}", json=answer, status=status)

    @property
    def calls(self) -> int:
        return sum("/compute/" not in str(call.request.url) for call in self.mock.calls)


@pytest.fixture
def api() -> Any:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield Api(mock)


class Inventory:
    """Reads an inventory file as ansible-playbook does."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tpu.yml"
        self.known_hosts = folder / "known_hosts"

    def read(self, **options: Any) -> InventoryManager:
        options = {
            "plugin": "tpu.fleet.tpu",
            "projects": ["p"],
            "api_endpoint": ENDPOINT,
            "known_hosts_dir": str(self.known_hosts),
            **options,
        }
        self.file.write_text(json.dumps(options))
        return InventoryManager(loader=DataLoader(), sources=[str(self.file)])

    def failure(self, **options: Any) -> str:
        """Return why the plugin refuses."""
        with pytest.raises(SystemExit) as raised:
            self.read(**options)
        return str(raised.value).removeprefix("[ERROR]: ")

    def variables(self, host: str, **options: Any) -> dict[str, Any]:
        found = self.read(**options).get_host(host)
        assert found is not None
        return dict(found.get_vars())


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    monkeypatch.setattr(constants, "INVENTORY_ENABLED", ["tpu.fleet.tpu"])
    # Ansible's manager reads the constant, and the plugin the setting: ansible.cfg has it in this
    # repository, and ansible-test reads no ansible.cfg.
    monkeypatch.setattr(constants, "INVENTORY_ANY_UNPARSED_IS_FAILED", True)
    monkeypatch.setenv("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "true")
    for name in ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "CLOUDSDK_AUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return Inventory(tmp_path)


def members(manager: InventoryManager, group: str) -> list[str]:
    return [host.name for host in manager.groups[group].get_hosts()]


def everything(manager: InventoryManager) -> dict[str, Any]:
    hosts = {host.name: host.get_vars() for host in manager.get_hosts()}
    return {"hosts": hosts, "groups": manager.get_groups_dict()}


def test_hosts_groups_and_connection(api: Api, inventory: Inventory) -> None:
    api.nodes(node("pod", 2), node("solo"), node("gone", state="PREEMPTED"))
    api.attributes("pod", keys(2))
    api.attributes("solo", keys(1))
    manager = inventory.read(user="ops")
    assert members(manager, "tpu") == ["pod-w0", "pod-w1", "solo"]
    assert members(manager, "tpu_leaders") == ["pod-w0", "solo"]
    assert members(manager, "tpu_unavailable") == ["gone"]
    assert members(manager, "tpu_slice_pod") == ["pod-w0", "pod-w1"]
    host = manager.get_host("pod-w1")
    assert host is not None
    variables = host.get_vars()
    assert variables["ansible_host"] == "192.0.2.1"
    templar = Templar(
        loader=DataLoader(), variables={**manager.groups["all"].get_vars(), **variables}
    )
    assert templar.template(manager.groups["tpu"].get_vars()["ansible_user"]) == "ops"
    assert variables["tpu_vm_project"] == "p"
    arguments = variables["ansible_ssh_common_args"]
    assert "HostKeyAlias=tpu.132.1" in arguments
    assert "StrictHostKeyChecking=yes" in arguments
    assert (inventory.known_hosts / "132").read_text().splitlines() == [
        f"tpu.132.0 ssh-ed25519 {KEY}",
        f"tpu.132.1 ssh-ed25519 {KEY}",
    ]


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ({}, 200, "host keys not published yet"),
        ({"guestAttributes": [{}]}, 200, "host keys not published yet"),
        ({"error": {"code": 404, "message": "not here", "status": "NOT_FOUND"}}, 404, "not here"),
    ],
)
def test_without_host_keys_a_worker_is_not_usable(
    api: Api, inventory: Inventory, answer: dict[str, Any], status: int, reason: str
) -> None:
    api.nodes(node("solo"))
    api.attributes("solo", answer, status)
    manager = inventory.read()
    assert members(manager, "tpu") == []
    assert members(manager, "tpu_unavailable") == ["solo"]
    host = manager.get_host("solo")
    assert host is not None
    assert reason in host.get_vars()["tpu_vm_unavailable_reason"]
    assert "StrictHostKeyChecking=yes" in host.get_vars()["ansible_ssh_common_args"]


def test_one_worker_without_keys_leaves_the_others(api: Api, inventory: Inventory) -> None:
    api.nodes(node("pod", 2))
    api.attributes("pod", {"guestAttributes": [{}, keys(1)["guestAttributes"][0]]})
    manager = inventory.read()
    assert members(manager, "tpu") == ["pod-w1"]
    assert members(manager, "tpu_unavailable") == ["pod-w0"]


def test_accept_new_asks_for_no_keys_and_keeps_what_ssh_learnt(
    api: Api, inventory: Inventory
) -> None:
    api.nodes(node("solo"))
    inventory.known_hosts.mkdir()
    (inventory.known_hosts / "141").write_text("learnt\n")
    variables = inventory.variables("solo", host_key_policy="accept_new")
    assert "StrictHostKeyChecking=accept-new" in variables["ansible_ssh_common_args"]
    assert (inventory.known_hosts / "141").read_text() == "learnt\n"
    assert api.calls == 1


def test_how_ssh_connects_is_the_same_for_ansible_and_for_ssh_itself(
    api: Api, inventory: Inventory
) -> None:
    api.nodes(node("solo"))
    api.attributes("solo", keys(1))
    for choice, algorithms in (("default", None), ("cheap", "curve25519-sha256")):
        variables = inventory.variables("solo", key_exchange=choice)
        options = variables["tpu_vm_ssh_options"]
        told = options.get("KexAlgorithms", "").split(",")[0] or None
        assert told == algorithms
        for name, value in options.items():
            assert f"{name}={value}" in variables["ansible_ssh_common_args"]


def test_the_sockets_have_a_folder_of_their_own(
    api: Api, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    api.nodes(node("solo"))
    api.attributes("solo", keys(1))
    found = inventory.read()
    assert found.groups["tpu"].get_vars()["ansible_control_path_dir"] == "/c/tpu-fleet/ssh"


def test_no_policy_switches_verification_off(inventory: Inventory) -> None:
    assert "host_key_policy" in inventory.failure(host_key_policy="no")


def test_iap(api: Api, inventory: Inventory) -> None:
    api.nodes(node("pod", 2), node("solo"))
    api.attributes("pod", keys(2, hostname="t1v-n-1-w-0"))
    api.attributes("solo", keys(1))
    manager = inventory.read(connect_with="iap")
    assert members(manager, "tpu") == ["pod-w0", "pod-w1"]
    host = manager.get_host("pod-w1")
    assert host is not None
    assert host.get_vars()["ansible_host"] == "t1v-n-1-w-0"
    arguments = host.get_vars()["ansible_ssh_common_args"]
    assert "gcloud alpha compute start-iap-tunnel t1v-n-1-w-0 %p --listen-on-stdin" in arguments
    assert "--project=p --zone=us-central2-b" in arguments


@pytest.mark.parametrize("cache", [False, True])
def test_data_of_the_api_is_never_a_template(
    api: Api, inventory: Inventory, tmp_path: Path, cache: bool
) -> None:
    evil = node("solo", state=EVIL, labels={"evil": EVIL}, health=EVIL, description=EVIL)
    api.nodes(evil)
    options: dict[str, Any] = {
        "cache": cache,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "compose": {"composed": "tpu_vm_labels.evil ~ '!'"},
        "keyed_groups": [{"key": "tpu_vm_labels.evil", "prefix": "label"}],
    }
    inventory.read(**options)
    manager = inventory.read(**options)
    assert api.calls == (1 if cache else 2)
    host = manager.get_host("solo")
    assert host is not None
    variables = host.get_vars()
    assert variables["tpu_vm_labels"]["evil"] == EVIL
    assert variables["composed"] == f"{EVIL}!"
    templar = Templar(loader=DataLoader(), variables=variables)
    for name in ("tpu_vm_state", "tpu_vm_unavailable_reason", "composed"):
        assert not is_trusted_as_template(variables[name])
        assert EVIL in templar.template(variables[name])
    assert "PWNED" not in json.dumps(everything(manager), default=str)


def test_the_cache_answers_like_the_api(api: Api, inventory: Inventory, tmp_path: Path) -> None:
    api.nodes(node("pod", 2, labels={"a": "1"}), node("solo", state="STOPPED"))
    api.attributes("pod", keys(2))
    cached = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "keyed_groups": [{"key": "tpu_vm_labels.a | default('none')", "prefix": "a"}],
    }
    fresh = everything(inventory.read(**cached))
    calls = api.calls
    again = everything(inventory.read(**cached))
    assert api.calls == calls
    assert again == fresh
    # Another question is not answered from the cache.
    everything(inventory.read(**{**cached, "states": ["READY"]}))
    assert api.calls > calls


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["big", "old", "solo"]),
        ({"states": ["ready"]}, ["big", "solo"]),
        ({"accelerator_types": ["v6e-8"]}, ["big"]),
        ({"labels": {"team": "x"}}, ["big", "old"]),
        ({"labels": {"team": "x", "run": 7}}, ["old"]),
        ({"owner": "me"}, ["solo"]),
        ({"owner": "me", "labels": {"team": "x"}}, []),
    ],
)
def test_filters(
    api: Api, inventory: Inventory, options: dict[str, Any], expected: list[str]
) -> None:
    api.nodes(
        node("big", acceleratorType="v6e-8", labels={"team": "x"}),
        node("old", state="STOPPED", labels={"team": "x", "run": "7"}),
        node("solo", labels={"tpu-fleet": "me"}),
        node("ancient", apiVersion="V1"),
    )
    manager = inventory.read(host_key_policy="accept_new", **options)
    assert sorted(host.name for host in manager.get_hosts()) == expected


def test_pages_and_an_empty_one_in_between(api: Api, inventory: Inventory) -> None:
    url = f"{ENDPOINT}v2/projects/p/locations/-/nodes"
    match = responses.matchers.query_param_matcher
    api.mock.get(url, json={"nodes": [node("a")], "nextPageToken": "t1"}, match=[match({})])
    api.mock.get(url, json={"nextPageToken": "t2"}, match=[match({"pageToken": "t1"})])
    api.mock.get(url, json={"nodes": [node("b")]}, match=[match({"pageToken": "t2"})])
    manager = inventory.read(host_key_policy="accept_new")
    assert members(manager, "tpu") == ["a", "b"]


def test_several_projects_and_zones(api: Api, inventory: Inventory) -> None:
    for project in ("p", "q"):
        for zone in ("us-central2-b", "us-east1-d"):
            api.nodes(node("same", zone=zone), project=project, zone=zone)
    manager = inventory.read(
        host_key_policy="accept_new", projects=["p", "q"], zones=["us-central2-b", "us-east1-d"]
    )
    assert members(manager, "tpu") == [
        "same.us-central2-b.p",
        "same.us-central2-b.q",
        "same.us-east1-d.p",
        "same.us-east1-d.q",
    ]


def test_unreachable_zones_are_told(
    api: Api, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.nodes(node("a"), unreachable=["projects/p/locations/us-east5-a"])
    warnings: list[str] = []
    monkeypatch.setattr(
        "ansible.utils.display.Display.warning", lambda _self, text, **_more: warnings.append(text)
    )
    manager = inventory.read(host_key_policy="accept_new")
    assert members(manager, "tpu") == ["a"]
    assert [text for text in warnings if "p/us-east5-a" in text and "not mean" in text]
    failure = inventory.failure(host_key_policy="accept_new", unreachable_zones="fail")
    assert "us-east5-a" in failure


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (401, {"code": 401, "message": "no", "status": "UNAUTHENTICATED"}, "gcloud auth"),
        (400, {"code": 400, "message": "odd", "status": "INVALID_ARGUMENT"}, "Project p: odd"),
    ],
)
def test_errors_carry_their_remedy(
    api: Api, inventory: Inventory, status: int, error: dict[str, Any], expected: str
) -> None:
    url = f"{ENDPOINT}v2/projects/p/locations/-/nodes"
    api.mock.get(url, json={"error": error}, status=status)
    assert expected in inventory.failure()


def test_a_project_without_the_api_has_no_hosts_yet(
    api: Api, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "Cloud TPU API has not been used in project 1 before or it is disabled."
    error = {"code": 403, "message": message, "status": "PERMISSION_DENIED"}
    url = f"{ENDPOINT}v2/projects/p/locations/-/nodes"
    api.mock.get(url, json={"error": error}, status=403)
    warnings: list[str] = []
    monkeypatch.setattr(
        "ansible.utils.display.Display.warning", lambda _self, text, **_more: warnings.append(text)
    )
    manager = inventory.read(host_key_policy="accept_new")
    assert members(manager, "tpu") == []
    assert any("gcloud services enable tpu.googleapis.com" in text for text in warnings)
    assert manager.groups["all"].get_vars()["fleet_project"] == "p"


def test_a_local_cloud_that_is_not_up_is_said_once(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    failure = inventory.failure(api_endpoint="http://127.0.0.1:9/")
    assert failure.count("http://127.0.0.1:9/ does not answer") == 1
    assert failure.endswith("Start the local cloud: tpu-fleet cloud up --port 9")


def test_the_project_is_needed(inventory: Inventory) -> None:
    assert "GOOGLE_CLOUD_PROJECT" in inventory.failure(projects=[])


@pytest.mark.parametrize(
    "options",
    [
        {"project": "named"},
        {"projects": "named"},
        {"projects": ["{{ lookup('ansible.builtin.env', 'MY_PROJECT') }}"]},
    ],
)
def test_ways_to_name_the_project(
    api: Api, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setenv("MY_PROJECT", "named")
    api.nodes(node("a"), project="named")
    common = {"plugin": "tpu.fleet.tpu", "api_endpoint": ENDPOINT, "host_key_policy": "accept_new"}
    inventory.file.write_text(json.dumps({**common, **options}))
    manager = InventoryManager(loader=DataLoader(), sources=[str(inventory.file)])
    assert members(manager, "tpu") == ["a"]


def test_the_project_may_come_from_the_environment(
    api: Api, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.nodes(node("a"), project="from-env")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-env")
    options = {"plugin": "tpu.fleet.tpu", "api_endpoint": ENDPOINT, "host_key_policy": "accept_new"}
    inventory.file.write_text(json.dumps(options))
    manager = InventoryManager(loader=DataLoader(), sources=[str(inventory.file)])
    assert members(manager, "tpu") == ["a"]


def test_other_files_are_left_to_other_plugins(inventory: Inventory) -> None:
    other = inventory.file.with_name("hosts.yml")
    other.write_text(json.dumps({"plugin": "tpu.fleet.tpu", "projects": ["p"]}))
    with pytest.raises(AnsibleError, match="Completely failed to parse"):
        InventoryManager(loader=DataLoader(), sources=[str(other)])


def test_the_key_that_ansible_is_told_of_is_the_fleets(
    api: Api, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.nodes(node("solo"))
    api.attributes("solo", keys(1))

    def key() -> Any:
        return inventory.read().groups["all"].get_vars()["fleet_ssh_private_key_file"]

    for name in ("TPU_FLEET_SSH_KEY", "ANSIBLE_PRIVATE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert key() == "~/.ssh/tpu_fleet"
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", "/keys/configured")
    assert key() == "/keys/configured"
    monkeypatch.setattr("ansible.context.CLIARGS", {"private_key_file": "/keys/given"})
    assert key() == "/keys/given"
    monkeypatch.setenv("TPU_FLEET_SSH_KEY", "/keys/ours")
    assert key() == "/keys/ours"
