"""Buckets by their real name: on machines, by clients that know of no emulator."""

from __future__ import annotations

from collections.abc import Iterator

import bucket_python
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
# Each as a user writes it: nothing is set for an emulator.
LIBRARIES = {
    "google-cloud-storage": """
from google.cloud import storage
blob = storage.Client().bucket("lab").blob("by-python")
blob.upload_from_string(b"x" * 9_000_000)  # in parts
assert blob.download_as_bytes() == b"x" * 9_000_000
assert "by-python" in [one.name for one in storage.Client().list_blobs("lab")]
""",
    "gcsfs": """
import gcsfs
files = gcsfs.GCSFileSystem()
with files.open("lab/by-gcsfs", "w") as file:
    file.write("text")
assert files.cat("lab/by-gcsfs") == b"text"
""",
    "TensorStore": """
import tensorstore
store = tensorstore.KvStore.open("gs://lab/by-tensorstore/").result()
store.write("key", b"value").result()
assert store.read("key").result().value == b"value"
""",
    "obstore": """
import obstore.store
store = obstore.store.GCSStore("lab")
store.put("by-obstore", b"value")
assert bytes(store.get("by-obstore").bytes()) == b"value"
""",
    "Orbax": """
import jax.numpy as jnp, numpy as np, orbax.checkpoint as ocp
options = ocp.CheckpointManagerOptions(max_to_keep=2)
saved = {"w": jnp.arange(100_000, dtype=jnp.float32).reshape(100, 1000), "b": np.ones(5)}
with ocp.CheckpointManager("gs://lab/by-orbax", options=options) as manager:
    for step in (100, 200, 300):
        manager.save(step, args=ocp.args.StandardSave(saved))
    manager.wait_until_finished()
with ocp.CheckpointManager("gs://lab/by-orbax", options=options) as manager:
    assert manager.all_steps() == [200, 300], manager.all_steps()
    found = manager.restore(300, args=ocp.args.StandardRestore(saved))
assert all(np.array_equal(found[key], saved[key]) for key in saved)
""",
    # Its own writer cannot add to an object, so the file comes as a whole.
    "TensorBoard": """
import gcsfs, glob
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("curves")
for step in (1, 2, 3):
    value = Summary.Value(tag="loss", simple_value=1 / 2 ** step)
    writer.add_event(Event(step=step, summary=Summary(value=[value])))
writer.close()
gcsfs.GCSFileSystem().put(glob.glob("curves/*"), "lab/by-tensorboard/")
curves = EventAccumulator("gs://lab/by-tensorboard")
curves.Reload()
found = [(one.step, one.value) for one in curves.Scalars("loss")]
assert found == [(1, 0.5), (2, 0.25), (3, 0.125)], found
""",
}
FIRST_USE = f"""
import time
import gcsfs, google.cloud.storage_control_v2  # what takes long to import
begun = time.monotonic()
{LIBRARIES["gcsfs"].replace("import gcsfs", "").strip()}
print(time.monotonic() - begun)
"""
FIRST_USE_SECONDS = 2.0
"""Without an answer to its first question, by gRPC, it takes 150 seconds."""
PACKAGES, SDK = "/home/ubuntu/python", "/home/ubuntu/sdk"


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


@pytest.fixture(scope="module")
def libraries(container_cloud: ContainerCloud, machine: str) -> str:
    """Return the Python of the machine, with the libraries."""
    bucket_python.bring(container_cloud.ssh_words(machine), PACKAGES, "ubuntu")
    return f"PYTHONPATH={PACKAGES} JAX_PLATFORMS=cpu {bucket_python.PROGRAM}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_works_unmodified(
    container_cloud: ContainerCloud, machine: str, libraries: str, library: str
) -> None:
    python(container_cloud, machine, LIBRARIES[library], libraries)


def test_the_first_use_of_gcsfs_waits_for_nothing(
    container_cloud: ContainerCloud, machine: str, libraries: str
) -> None:
    took = float(python(container_cloud, machine, FIRST_USE, libraries))
    assert took <= FIRST_USE_SECONDS


def test_gcloud_storage_works_unmodified(container_cloud: ContainerCloud, machine: str) -> None:
    bucket_python.bring_gcloud(container_cloud.ssh_words(machine), SDK, "ubuntu")

    def gcloud(words: str) -> str:
        return container_cloud.ssh(machine, f"{SDK}/bin/gcloud storage {words}")

    container_cloud.ssh(machine, "seq 2000000 > numbers")
    gcloud("cp numbers gs://lab/by-gcloud/numbers")
    assert gcloud("ls gs://lab/by-gcloud/") == "gs://lab/by-gcloud/numbers"
    gcloud("cp gs://lab/by-gcloud/numbers back")
    container_cloud.ssh(machine, "cmp numbers back")
    assert gcloud("cat gs://lab/by-gcloud/numbers | tail -n 1") == "2000000"
    gcloud("rm -r gs://lab/by-gcloud")
    assert "by-gcloud" not in gcloud("ls gs://lab/")


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
