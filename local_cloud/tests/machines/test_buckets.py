"""Buckets by their real name: on machines, by clients that know of no emulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from container_cloud import ContainerCloud, eventually

# In CI local_cloud/tests/api has the same server, and tests/unit how a machine comes to trust it.
pytestmark = pytest.mark.night

META = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
STORE = "https://storage.googleapis.com"
BARE = "env -i PATH=$PATH HOME=$HOME"
TOKEN = (
    f"token=$(curl -sf -H 'Metadata-Flavor: Google' {META}/token | cut -d'\"' -f4);"
    ' auth="Authorization: Bearer $token"'
)
SAME_IN_PYTHON = f"""
import json, urllib.request
def ask(url, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read()
token = json.loads(ask("{META}/token", **{{"Metadata-Flavor": "Google"}}))["access_token"]
print(ask("{STORE}/lab/by-curl", Authorization="Bearer " + token).decode())
"""
GOOGLES = """
from google.cloud import storage
blob = storage.Client().bucket("lab").blob("by-python")
blob.upload_from_string(b"x" * 9_000_000)  # in parts
assert blob.download_as_bytes() == b"x" * 9_000_000
print(sorted(one.name for one in storage.Client().list_blobs("lab")))
"""
TENSORSTORE = """
import tensorstore
store = tensorstore.KvStore.open("gs://lab/by-tensorstore/").result()
store.write("key", b"value").result()
assert store.read("key").result().value == b"value"
"""
OBSTORE = """
import obstore.store
store = obstore.store.GCSStore("lab")
store.put("by-obstore", b"value")
assert bytes(store.get("by-obstore").bytes()) == b"value"
"""
GCSFS = """
import gcsfs, time
begun = time.monotonic()
files = gcsfs.GCSFileSystem()
with files.open("lab/by-gcsfs", "w") as file:
    file.write("text")
assert files.cat("lab/by-gcsfs") == b"text"
print(time.monotonic() - begun)
"""


@pytest.fixture(scope="module")
def machine(container_cloud: ContainerCloud) -> Iterator[str]:
    """The address of a machine whose account may use the bucket."""
    asked = f"{container_cloud.endpoint}storage/v1/b"
    requests.post(asked, json={"name": "lab"}, timeout=30).raise_for_status()
    ((_, external),) = container_cloud.create("keeps")
    yield external
    container_cloud.delete("keeps")


def python(cloud: ContainerCloud, address: str, script: str, program: str = "python3") -> str:
    return cloud.ssh(address, f"{program} - <<'END'\n{script}\nEND")


def write_and_read(cloud: ContainerCloud, address: str) -> None:
    """Do both by programs without variables: they know the machine's own authorities."""
    url = f"{STORE}/upload/storage/v1/b/lab/o?uploadType=media\\&name=by-curl"
    cloud.ssh(address, f'{TOKEN}; {BARE} curl -sSf -H "$auth" --data-binary hello {url} >/dev/null')
    reading = f'{BARE} curl -sSf -H "$auth" {STORE}/storage/v1/b/lab/o/by-curl?alt=media'
    assert cloud.ssh(address, f"{TOKEN}; {reading}") == "hello"
    assert python(cloud, address, SAME_IN_PYTHON, f"{BARE} python3") == "hello"


def test_a_machine_writes_and_reads_by_the_real_name(
    container_cloud: ContainerCloud, machine: str
) -> None:
    write_and_read(container_cloud, machine)
    refused = f"curl -s -o /dev/null -w '%{{http_code}}' {STORE}/storage/v1/b/lab/o"
    assert container_cloud.ssh(machine, refused) == "401"


def test_the_roles_of_its_account_decide(container_cloud: ContainerCloud, machine: str) -> None:
    policy = f"{container_cloud.endpoint}storage/v1/b/lab/iam"
    before = requests.get(policy, timeout=30).json()
    requests.put(policy, json={"bindings": []}, timeout=30).raise_for_status()
    status = f"curl -s -o /dev/null -w '%{{http_code}}' -H \"$auth\" {STORE}/storage/v1/b/lab/o"
    assert container_cloud.ssh(machine, f"{TOKEN}; {status}") == "403"
    asked = {"bindings": before["bindings"]}
    requests.put(policy, json=asked, timeout=30).raise_for_status()
    assert container_cloud.ssh(machine, f"{TOKEN}; {status}") == "200"


def test_libraries_work_unmodified(container_cloud: ContainerCloud, machine: str) -> None:
    container_cloud.ssh(machine, "sudo apt-get update -qq")
    container_cloud.ssh(machine, "sudo apt-get install -qq --no-install-recommends python3-venv")
    container_cloud.ssh(machine, "python3 -m venv ~/venv && ~/venv/bin/pip install -q -U pip")
    container_cloud.ssh(machine, "~/venv/bin/pip install -q google-cloud-storage gcsfs")
    container_cloud.ssh(machine, "~/venv/bin/pip install -q tensorstore obstore")
    listed = python(container_cloud, machine, GOOGLES, "~/venv/bin/python")
    assert "by-python" in listed
    python(container_cloud, machine, TENSORSTORE, "~/venv/bin/python")
    python(container_cloud, machine, OBSTORE, "~/venv/bin/python")
    # Without an answer to its first question, by gRPC, it takes 150 seconds.
    assert float(python(container_cloud, machine, GCSFS, "~/venv/bin/python")) < 60


def test_a_reboot_and_an_update_of_its_authorities_change_nothing(
    container_cloud: ContainerCloud, machine: str
) -> None:
    name = container_cloud.ssh(machine, "cat /proc/sys/kernel/random/boot_id")
    container_cloud.try_ssh(machine, "sudo reboot")
    eventually(lambda: container_cloud.boot_id(machine) not in (None, name), 120)
    one = "cat /usr/local/share/ca-certificates/tpu-local-cloud.crt | sed -n 2p"
    for prepare in ("true", "sudo update-ca-certificates >/dev/null 2>&1"):
        container_cloud.ssh(machine, prepare)
        count = f'grep -cF -- "$({one})" /etc/ssl/certs/ca-certificates.crt'
        assert container_cloud.ssh(machine, count) == "1"
        write_and_read(container_cloud, machine)


@pytest.mark.parametrize(
    ("key", "value"), [("local-cloud-machine", "small"), ("local-cloud-kernel", "own")]
)
def test_machines_of_other_kinds_do_as_well(
    container_cloud: ContainerCloud, machine: str, key: str, value: str
) -> None:
    assert machine  # whose bucket it is
    ((_, external),) = container_cloud.create(value, **{key: value})
    write_and_read(container_cloud, external)
    assert "REQUESTS_CA_BUNDLE=/etc/ssl" in container_cloud.ssh(external, "env")
    container_cloud.delete(value)
