"""The environment of a program, alone and in a gang of several slices."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest
from run_agent.act import (
    as_user,
    environment,
    terminal,
)
from run_agent.decide import config
from run_definition import PUBLIC

ALICE = pwd.struct_passwd(("alice", "x", 1000, 1000, "", "/home/alice", "/bin/bash"))


def test_the_environment() -> None:
    several = {"coordinator": "10.0.0.2", "num_slices": 2, "slice_id": 1}
    given = config.parse({**PUBLIC, "multislice": several}, {"TPU_FLEET_RUN": "lie", "MINE": "1"})
    basis = as_user.environment_of(ALICE)
    found = environment.of_program(given, "demo-1", 4, basis)
    assert found["PATH"].startswith("/opt/venvs/jax/bin:")
    expected = {
        "TPU_FLEET_RUN": "demo",
        "TPU_FLEET_RUN_ID": "demo-1",
        "TPU_FLEET_ATTEMPT": "4",
        "TPU_FLEET_CHECKPOINT_DIR": "/ck",
        "TPU_FLEET_SLICE": "pair",
        "TPU_FLEET_WORKER": "1",
        "TPU_FLEET_WORKERS": "2",
        "TPU_FLEET_COORDINATOR": "10.0.0.2:21001",
        "WANDB_RUN_ID": "demo-1",
        "WANDB_RESUME": "allow",
        "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.2",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MINE": "1",
        "HOME": "/home/alice",
    }
    assert expected.items() <= found.items()
    alone = environment.of_program(config.parse(PUBLIC, {}), "demo-1", 1, basis)
    assert not [name for name in alone if name.startswith("MEGASCALE")]
    assert alone["TPU_FLEET_RESTORE_DIR"] == alone["TPU_FLEET_CHECKPOINT_DIR"]


def test_an_attempt_with_a_folder_of_its_own() -> None:
    place = {"checkpoint_dir": "gs://lab/d/", "attempt_folders": True}
    given = config.parse({**PUBLIC, **place}, {"TPU_FLEET_RESTORE_DIR": "lie"})
    found = environment.of_program(given, "demo-1", 4, as_user.environment_of(ALICE))
    assert found["TPU_FLEET_CHECKPOINT_DIR"] == "gs://lab/d/attempt-4"
    assert found["TPU_FLEET_RESTORE_DIR"] == ""


def test_the_paths_of_data_sets() -> None:
    sets = [{"name": "c4-en", "path": "/mnt/c4", "id": "0"}, {"name": "b", "path": "/b", "id": "1"}]
    given = config.parse({**PUBLIC, "datasets": sets}, {"TPU_FLEET_DATASET_B": "lie"})
    found = environment.of_program(given, "demo-1", 1, as_user.environment_of(ALICE))
    assert (found["TPU_FLEET_DATASET_C4_EN"], found["TPU_FLEET_DATASET_B"]) == ("/mnt/c4", "/b")


SEVERAL = {"slices": [["10.0.0.2", "10.0.0.3"], ["10.1.0.2", "10.1.0.3"]], "megascale_port": 25001}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a root folder with two chips, a lock file and one process."""
    for name in ("dev/accel0", "dev/vfio/0", "tmp/libtpu_lockfile", "proc/77/comm"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("python\n")
    (tmp_path / "proc/77/fd").mkdir()
    (tmp_path / "proc/self").mkdir()
    return tmp_path


@pytest.mark.parametrize(("worker", "place"), [(0, (0, 0)), (1, (0, 1)), (2, (1, 0)), (3, (1, 1))])
def test_a_gang_of_several_slices(worker: int, place: tuple[int, int]) -> None:
    hosts = [host for one in SEVERAL["slices"] for host in one]
    given = config.parse({**PUBLIC, **SEVERAL, "hosts": hosts, "worker": worker}, {})
    assert (given.place, given.workers, given.leader) == (place, 4, worker == 0)
    found = environment.of_program(given, "demo-1", 4, {"PATH": "/bin"})
    expected = {
        "TPU_FLEET_WORKER": str(worker),
        "TPU_FLEET_WORKERS": "4",
        "TPU_FLEET_COORDINATOR": "10.0.0.2:21001",
        "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.2:25001",
        "MEGASCALE_PORT": "25001",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": str(place[0]),
    }
    assert expected.items() <= found.items()
    # Other addresses leave the run what it is; another number of slices does not.
    same = config.definition_of({**PUBLIC, **SEVERAL, "worker": worker}, {})
    assert same == config.definition_of(PUBLIC, {})
    assert same != config.definition_of({**PUBLIC, "multislice": {"num_slices": 3}}, {})


def test_the_machines_authorities_are_passed_on_and_nothing_else() -> None:
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    text = f"""
# SSL_CERT_DIR=/commented
PATH="/opt/bin"
LD_PRELOAD=/usr/lib/libtcmalloc.so
REQUESTS_CA_BUNDLE={bundle}
  export SSL_CERT_DIR="/etc/ssl/certs:/opt/certs"
CURL_CA_BUNDLE='{bundle}'
SSL_CERT_FILE=company.pem
SSL_CERT_FILE="/a
GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/old
GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/new
"""
    assert environment.authorities(text) == {
        "REQUESTS_CA_BUNDLE": bundle,
        "SSL_CERT_DIR": "/etc/ssl/certs:/opt/certs",
        "CURL_CA_BUNDLE": bundle,
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "/new",
    }


def test_a_run_names_other_authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SYSTEM", tmp_path / "environment")
    monkeypatch.setattr(terminal, "account_of", lambda _user: ALICE)
    assert "SSL_CERT_FILE" not in terminal.user_environment("alice")
    environment.SYSTEM.write_text("SSL_CERT_FILE=/company.pem\nCURL_CA_BUNDLE=/company.pem\n")
    given = config.parse(PUBLIC, {"SSL_CERT_FILE": "/run.pem"})
    found = environment.of_program(given, "demo-1", 1, terminal.user_environment("alice"))
    assert (found["SSL_CERT_FILE"], found["CURL_CA_BUNDLE"]) == ("/run.pem", "/company.pem")
    assert found["HOME"] == "/home/alice"
