"""`ansible-inventory` and `ansible-playbook` as a person runs them, against the local cloud."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from warm_ansible import run_ansible

if TYPE_CHECKING:
    from emulator import Emulator

PUBLISHED = "host keys not published yet"


@dataclass
class Shell:
    """Runs commands with an inventory file in a folder of their own."""

    cloud: Emulator
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, **options: Any) -> Path:
        path = self.folder / "fleet.tpu.yml"
        path.write_text(json.dumps({"plugin": "tpu.fleet.tpu", **options}))
        return path

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        environment = self.cloud.env(
            ANSIBLE_INVENTORY_ENABLED="tpu.fleet.tpu",
            ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true",
            ANSIBLE_HOME=str(self.folder / "ansible"),
            # What README asks of every ansible.cfg; fleet_check refuses to go on without it.
            ANSIBLE_INJECT_FACT_VARS="false",
            TPU_FLEET_STATE_DIR=str(self.folder / "state"),
        )
        return run_ansible(argv, {**environment, **self.environment}, self.folder)

    def listing(self, **options: Any) -> dict[str, Any]:
        done = self.run("ansible-inventory", "-i", str(self.write(**options)), "--list")
        assert done.returncode == 0, done.stderr
        self.said = done.stderr
        data: dict[str, Any] = json.loads(done.stdout)
        return data

    def failure(self, **options: Any) -> str:
        done = self.run("ansible-inventory", "-i", str(self.write(**options)), "--list")
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())


@pytest.fixture
def shell(cloud: Emulator, tmp_path: Path) -> Shell:
    return Shell(cloud, tmp_path)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def variables(listing: dict[str, Any], host: str) -> dict[str, Any]:
    found: dict[str, Any] = plain(listing["_meta"]["hostvars"][host])
    return found


def hosts(listing: dict[str, Any], group: str = "tpu") -> list[str]:
    found: list[str] = listing.get(group, {}).get("hosts", [])
    return found


def test_a_fleet_is_listed(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(1, "solo")
    cloud.populate(1, "pod", acceleratorType="v4-32", labels={"team": "vision"})
    listing = shell.listing()
    workers = ["pod-0-w0", "pod-0-w1", "pod-0-w2", "pod-0-w3"]
    assert hosts(listing) == [*workers, "solo-0"]
    assert hosts(listing, "tpu_leaders") == ["pod-0-w0", "solo-0"]
    assert hosts(listing, "tpu_slice_pod_0") == workers
    assert hosts(listing, "tpu_zone_us_central2_b") == [*workers, "solo-0"]
    assert hosts(listing, "tpu_type_v4_32") == workers
    assert hosts(listing, "tpu_generation_v4") == [*workers, "solo-0"]
    state = cloud.control("state", method="GET")
    (pod,) = (node for node in state["nodes"] if node["node"] == "pod-0")
    for worker in pod["workers"]:
        found = variables(listing, f"pod-0-w{worker['worker']}")
        assert found["ansible_host"] == worker["external_ip"]
        assert found["tpu_vm_internal_ip"] == worker["internal_ip"]
        assert found["tpu_vm_uid"] == pod["uid"]
        assert found["tpu_vm_labels"] == {"team": "vision"}
        assert found["tpu_vm_slice_hosts"] == [item["internal_ip"] for item in pod["workers"]]
        alias = f"HostKeyAlias=tpu.{pod['uid']}.{worker['worker']}"
        assert alias in found["ansible_ssh_common_args"]
    file = shell.folder / "state" / "known_hosts" / pod["uid"]
    lines = file.read_text().splitlines()
    assert [line.split()[0] for line in lines] == [f"tpu.{pod['uid']}.{k}" for k in range(4)]


def test_what_cannot_be_used_has_a_reason(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(3, "n")
    place = f"nodes/{cloud.project}/{cloud.zone}"
    cloud.control(f"{place}/n-0:preempt", {})
    cloud.control(f"{place}/n-1:set", {"health": "UNHEALTHY_MAINTENANCE"})
    listing = shell.listing()
    assert hosts(listing) == ["n-2"]
    assert hosts(listing, "tpu_unavailable") == ["n-0", "n-1"]
    assert "preempted" in variables(listing, "n-0")["tpu_vm_unavailable_reason"]
    assert "maintenance" in variables(listing, "n-1")["tpu_vm_unavailable_reason"]
    assert hosts(listing, "tpu_state_preempted") == ["n-0"]


def test_an_address_moves_and_the_identity_stays(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(2, "n")
    before = shell.listing()
    first, second = (variables(before, name) for name in ("n-0", "n-1"))
    body = {"worker_ids": [0], "new_external_ip": True}
    for name in ("n-0", "n-1"):
        cloud.control(f"nodes/{cloud.project}/{cloud.zone}/{name}:maintain", body)
    after = shell.listing()
    for name, old in (("n-0", first), ("n-1", second)):
        new = variables(after, name)
        assert new["ansible_host"] != old["ansible_host"]
        assert new["ansible_ssh_common_args"] == old["ansible_ssh_common_args"]
        # A connection that is still open to the old address is not used again.
        assert new["ansible_control_path"] != old["ansible_control_path"]


def test_host_keys_that_are_missing(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(1, "n")
    cloud.fault("guest_attributes_missing")
    listing = shell.listing()
    assert hosts(listing) == []
    assert variables(listing, "n-0")["tpu_vm_unavailable_reason"] == PUBLISHED
    assert hosts(shell.listing(host_key_policy="accept_new")) == ["n-0"]


def test_internal_addresses_and_tunnels(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(1, "n", networkConfig={"enableExternalIps": False})
    assert hosts(shell.listing()) == []
    internal = variables(shell.listing(connect_with="internal_ip"), "n-0")
    assert internal["ansible_host"] == internal["tpu_vm_internal_ip"]
    listing = shell.listing(connect_with="iap")
    assert hosts(listing) == ["n-0"]
    machine = cloud.control("state", method="GET")["nodes"][0]["workers"][0]["machine"]
    assert f"start-iap-tunnel {machine} %p" in variables(listing, "n-0")["ansible_ssh_common_args"]


def test_clashes_paging_and_project_numbers(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(600, "n")
    cloud.populate(1, "n", zone="europe-west4-b", acceleratorType="v5litepod-8")
    cloud.fault("project_number")
    listing = shell.listing(host_key_policy="accept_new")
    assert len(hosts(listing)) == 601
    assert {"n-0.us-central2-b", "n-0.europe-west4-b", "n-1"} <= set(hosts(listing))
    assert "n-0" not in hosts(listing)
    assert variables(listing, "n-1")["tpu_vm_project"] == cloud.project
    assert hosts(listing, "tpu_slice_n_0_europe_west4_b") == ["n-0.europe-west4-b"]
    one = shell.listing(host_key_policy="accept_new", zones=["europe-west4-b"])
    assert hosts(one) == ["n-0"]


def test_a_zone_that_nobody_could_ask(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(1, "n")
    cloud.fault("unreachable", match={"zone": "europe-west4-b"})
    assert hosts(shell.listing()) == ["n-0"]
    assert "europe-west4-b" in shell.said
    assert "not mean that they are gone" in " ".join(shell.said.split())
    assert "europe-west4-b" in shell.failure(unreachable_zones="fail")


def test_cached_is_what_fresh_was(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(2, "n", acceleratorType="v4-16")
    cache = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(shell.folder / "cache"),
    }
    fresh = shell.listing(**cache)
    cloud.fault("unavailable")
    cached = shell.listing(**cache)
    # By which playbooks know that it may not be as it is now.
    said = [
        variables.pop("tpu_vm_from_cache") for variables in cached["_meta"]["hostvars"].values()
    ]
    assert said == [True] * 4
    assert cached == fresh


EVIL = """{{ lookup('pipe', "echo PW''NED") }}"""


@pytest.mark.parametrize("cached", [False, True])
def test_metadata_and_states_are_no_templates(cloud: Emulator, shell: Shell, cached: bool) -> None:
    cloud.populate(1, "n", description=EVIL)
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/n-0:set", {"state": EVIL})
    options = {
        "cache": cached,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(shell.folder / "cache"),
        "keyed_groups": [{"key": "tpu_vm_state", "prefix": "state"}],
    }
    shell.listing(**options)
    listing = shell.listing(**options)
    assert variables(listing, "n-0")["tpu_vm_state"] == EVIL
    play = shell.folder / "play.yml"
    task = {"ansible.builtin.debug": {"msg": "{{ tpu_vm_state }} {{ tpu_vm_unavailable_reason }}"}}
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    done = shell.run("ansible-playbook", "-i", str(shell.folder / "fleet.tpu.yml"), str(play))
    assert done.returncode == 0, done.stdout
    assert "lookup('pipe'" in done.stdout
    assert "PWNED" not in done.stdout + json.dumps(listing)


def test_the_wrong_project(shell: Shell) -> None:
    failure = shell.failure(projects=["other-project"])
    assert "Project other-project: " in failure
    assert "gcloud projects" in failure


def test_an_unknown_zone(shell: Shell) -> None:
    failure = shell.failure(zones=["us-moon1-a"])
    assert "us-moon1-a" in failure
    assert "gcloud compute tpus locations list" in failure


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        ("iam_denied", "gcloud projects add-iam-policy-binding"),
        ("billing_disabled", "gcloud billing projects link"),
        ("unauthenticated", "gcloud auth application-default login"),
    ],
)
def test_a_closed_door_names_its_key(
    cloud: Emulator, shell: Shell, fault: str, remedy: str
) -> None:
    cloud.fault(fault)
    assert remedy in shell.failure()


def test_compute_engine_alone_needs_no_tpu_api(cloud: Emulator, shell: Shell) -> None:
    image = "projects/ubuntu-os-accelerator-images/global/images/family"
    disk = {
        "boot": True,
        "initializeParams": {
            "sourceImage": f"{image}/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e",
            "diskType": "zones/us-east5-a/diskTypes/hyperdisk-balanced",
        },
    }
    cloud.control(
        "populate",
        {
            "api": "compute",
            "zone": "us-east5-a",
            "machineType": "zones/us-east5-a/machineTypes/ct6e-standard-1t",
            "disks": [disk],
            "networkInterfaces": [{"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
            "scheduling": {"onHostMaintenance": "TERMINATE"},
        },
    )
    cloud.fault("api_disabled", match={"service": "tpu"})
    listing = shell.listing(host_key_policy="accept_new")
    assert hosts(listing) == ["node-0"]
    assert hosts(listing, "tpu_type_v6e_1") == ["node-0"]


def test_a_project_without_the_api_has_no_hosts_yet(cloud: Emulator, shell: Shell) -> None:
    """So that tpu.fleet.enable_api can run, and every other playbook says what is missing."""
    cloud.fault("api_disabled", match={"service": "tpu"})
    assert hosts(shell.listing(apis=["tpu"])) == []
    assert "gcloud services enable tpu.googleapis.com" in " ".join(shell.said.split())


def test_no_credentials(shell: Shell) -> None:
    """Google's own endpoint, and nothing to show there: no request is sent."""
    shell.environment = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": "",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "",
        "CLOUDSDK_CONFIG": str(shell.folder / "gcloud"),
        "HOME": str(shell.folder),
        "NO_GCE_CHECK": "true",
        # Whatever would be sent after all ends here.
        "HTTPS_PROXY": "http://127.0.0.1:9/",
    }
    failure = shell.failure()
    assert "There are no credentials" in failure
    assert "gcloud auth application-default login" in failure


def test_old_names_are_refused_before_a_request(shell: Shell) -> None:
    """All at once, in the files of all groups and hosts, and by everything that reads the fleet."""
    files = {
        "group_vars/all/fleet.yml": "training_run_runs",
        "host_vars/solo.yml": "tpu_metrics_port",
    }
    for name, variable in files.items():
        path = shell.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{variable}: []\n")
    told = shell.failure(projects=["nobody-has-this"])
    assert "The fleet file has 2 old names. Nothing was changed." in told
    for name, old, new in (
        ("group_vars/all/fleet.yml", "training_run_runs", "fleet_runs"),
        ("host_vars/solo.yml", "tpu_metrics_port", "fleet_metrics_port"),
    ):
        assert f"{old}: is no variable of the fleet file, in {name}. Rename it to {new}." in told
    assert "nobody-has-this" not in told


def test_no_project(shell: Shell) -> None:
    shell.environment = {"GOOGLE_CLOUD_PROJECT": "", "CLOUDSDK_CORE_PROJECT": ""}
    assert "GOOGLE_CLOUD_PROJECT" in shell.failure()


def test_a_private_folder_that_cannot_be_written(cloud: Emulator, shell: Shell) -> None:
    cloud.populate(1, "n")
    (shell.folder / "file").write_text("")
    failure = shell.failure(known_hosts_dir=str(shell.folder / "file" / "below"))
    assert "TPU_FLEET_STATE_DIR" in failure


SLICE = {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"}
GRANT = {"zone": "us-central2-b", "generation": "v4", "tier": "on_demand"}
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"fleet_slices": "solo"}, ["fleet_slices = 'solo'", "must be a list"]),
    (
        {"fleet_slices": [{**SLICE, "teir": "spot"}]},
        ["fleet_slices[0].teir = 'spot'", "Did you mean tier?"],
    ),
    ({"fleet_slices": [SLICE, SLICE]}, ["fleet_slices[1].name = 'solo'", "is used twice"]),
    (
        {"fleet_slices": [{**SLICE, "accelerator_type": "v4-9"}]},
        ["fleet_slices[0].accelerator_type = 'v4-9'", "not a known accelerator type"],
    ),
    (
        {"fleet_slices": [{**SLICE, "runtime_version": "v2-alpha-tpuv6e"}]},
        ["fleet_slices[0].runtime_version = 'v2-alpha-tpuv6e'", "tpu-ubuntu2204-base"],
    ),
    (
        {"fleet_users": [{"name": "Über", "uid": 2001}]},
        ["fleet_users[0].name = 'Über'", "not a user name that Linux takes"],
    ),
    (
        {"fleet_users": [{"name": "alice", "uid": 2001, "keys": ["ssh-ed25519 AAAA"]}]},
        ["fleet_users[0].keys[0] = 'ssh-ed25519 AAAA'", ".pub"],
    ),
    (
        {"fleet_slices": [SLICE], "fleet_allocations": None},
        ["fleet_allocations: is missing", "fleet_allocations: unrestricted"],
    ),
    (
        {"fleet_slices": [SLICE], "fleet_allocations": [{**GRANT, "chips": 2}]},
        ["fleet_slices[0] = 'solo'", "the grant holds 2 v4 chips", "v4-8 needs 4"],
    ),
    ({"fleet_slcies": []}, ["fleet_slcies", "Did you mean fleet_slices?"]),
]


# Each starts Ansible. In CI the next test has most of them at once, and
# tests/cloud/playbooks/test_mistakes.py thirty others.
@pytest.mark.night
@pytest.mark.parametrize(("fleet", "expected"), WRONG, ids=[words[0] for _, words in WRONG])
def test_a_wrong_fleet_file_is_refused(
    shell: Shell, fleet: dict[str, Any], expected: list[str]
) -> None:
    done = check_fleet_file(shell, fleet, [])
    assert done.returncode == 2
    for words in expected:
        assert words in done.stdout


def test_all_mistakes_are_told_at_once_in_check_mode_too(shell: Shell) -> None:
    together: dict[str, Any] = {}
    for fleet, _ in WRONG[2:]:
        for variable, entries in fleet.items():
            together[variable] = together.get(variable, []) + (entries or [])
    done = check_fleet_file(shell, together, ["--check", "--diff"])
    assert done.returncode == 2
    for problem in (
        "used twice",
        "accelerator type",
        "not a runtime",
        "Linux",
        "cut",
        "fleet_slcies",
    ):
        assert problem in done.stdout


def test_a_right_fleet_file_passes(shell: Shell) -> None:
    fleet = {
        "fleet_slices": [SLICE],
        "fleet_users": [{"name": "alice", "uid": 2001}],
        "fleet_runs": [{"name": "run", "slices": ["solo"], "user": "alice", "command": "true"}],
    }
    done = check_fleet_file(shell, fleet, [])
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout


def check_fleet_file(
    shell: Shell, fleet: dict[str, Any], mode: list[str]
) -> subprocess.CompletedProcess[str]:
    """Check a fleet file with the very tasks that the playbooks begin with."""
    tasks = Path(__file__).parents[3] / "playbooks" / "tasks" / "check_fleet.yml"
    play = shell.folder / "play.yml"
    include = {"ansible.builtin.include_tasks": str(tasks)}
    plays = [{"hosts": "localhost", "connection": "local", "gather_facts": False}]
    play.write_text(json.dumps([{**plays[0], "tasks": [include]}]))
    fleet = {"fleet_allocations": "unrestricted", **fleet}
    (shell.folder / "fleet.yml").write_text(json.dumps(fleet))
    shell.environment = {
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.host_list",
        "LC_ALL": "C.UTF-8",
    }
    return shell.run("ansible-playbook", "-i", "localhost,", "-e", "@fleet.yml", *mode, str(play))
