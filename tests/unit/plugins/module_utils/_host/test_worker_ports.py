"""Which ports the workers of a run need from each other, and what a test of them shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import worker_ports
from ansible_collections.tpu.fleet.plugins.module_utils._host.worker_ports import (
    ALL,
    FIRST,
    NO_ROUTE,
    OPEN,
    REFUSED,
    SLICE,
    TIMEOUT,
    Gang,
    Need,
    Tried,
    advice,
    blocked_lines,
    firewall_command,
    named,
    needed,
    targets,
)

ROOT = Path(__file__).resolve().parents[5]
DEFINITION = {
    "hosts": ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"],
    "worker": 1,
    "peer_port": 288,
    "coordinator_port": 21001,
    "megascale_port": 21500,
    "slices": [],
}
GANG = Gang.of(DEFINITION)
TWO_SLICES = Gang.of({**DEFINITION, "slices": [["10.0.0.2", "10.0.0.3"], ["10.0.0.4", "10.0.0.5"]]})
JAX = {"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.35"}


def ports(gang: Gang, versions: dict[str, str], chips: bool = True, **env: str) -> list[int]:
    return [need.port for need in needed(gang, versions, env, chips)]


@pytest.mark.parametrize(
    ("version", "port"), [("0.8.0", 8476), ("0.8.1", 8482), ("0.4.38", 8476), ("0.12.0.1", 8482)]
)
def test_the_coordinator_of_jax_has_the_port_of_its_version(version: str, port: int) -> None:
    assert ports(GANG, {"jax": version}) == [288, 21001, port]


def test_without_a_known_environment_it_is_the_newest_jax() -> None:
    assert ports(GANG, {}) == [288, 21001, 8482, 8471]


def test_torch_xla_has_ports_of_its_own() -> None:
    found = ports(GANG, {"torch_xla": "2.9.0", "libtpu": "0.0.21"})
    assert found == [288, 21001, 8471, 8476, 8477, 8478, 8479, 12355]


@pytest.mark.parametrize(
    ("env", "port"),
    [
        ({"JAX_COORDINATOR_PORT": "9000"}, 9000),
        ({"JAX_COORDINATOR_ADDRESS": "10.0.0.2:9001", "JAX_COORDINATOR_PORT": "9000"}, 9001),
        ({"JAX_COORDINATOR_ADDRESS": "10.0.0.2"}, 8482),
        ({"JAX_COORDINATOR_PORT": "99999"}, 8482),
    ],
)
def test_a_variable_chooses_another_port(env: dict[str, str], port: int) -> None:
    assert ports(GANG, {"jax": "0.10.2"}, **env) == [288, 21001, port]


def test_without_chips_a_framework_opens_only_what_a_variable_names() -> None:
    assert ports(GANG, JAX, chips=False) == [288, 21001]
    assert ports(GANG, JAX, chips=False, JAX_COORDINATOR_PORT="9000") == [288, 21001, 9000]
    # The same port for the same workers is one need.
    assert ports(GANG, JAX, chips=False, JAX_COORDINATOR_PORT="21001") == [288, 21001]


def test_several_slices_need_the_port_between_them() -> None:
    found = needed(TWO_SLICES, JAX, {}, True)
    assert Need(21500, "MEGASCALE_PORT", ALL) in found
    assert 9999 in ports(TWO_SLICES, JAX, MEGASCALE_PORT="9999")
    assert 21500 not in ports(GANG, JAX)


def test_one_worker_needs_no_port() -> None:
    assert ports(replace(GANG, hosts=("10.0.0.2",), worker=0), JAX) == []


def test_each_row_names_its_source() -> None:
    assert all(row.source and row.what and row.ports for row in worker_ports.TABLE)


def test_the_page_has_each_port_and_variable() -> None:
    page = (ROOT / "docs/gang.md").read_text()
    for row in worker_ports.TABLE:
        (line,) = [
            line
            for line in page.splitlines()
            if line.startswith("| ") and ", ".join(map(str, row.ports)) + " on " in line
        ]
        assert row.framework in line.lower()
        assert all(f"`{name}`" in line for name in row.variables)
        assert all(version in line for version in (row.since, row.before))


def test_a_worker_tries_worker_0_and_those_of_its_slice() -> None:
    needs = [Need(1, "", FIRST), Need(2, "", SLICE), Need(3, "", ALL)]
    of_2 = replace(TWO_SLICES, worker=2)
    found = [(one.worker, one.port) for one in targets(of_2, needs)]
    assert found == [(0, 1), (0, 3), (3, 2), (3, 3), (1, 3)]
    assert targets(of_2, needs)[0].address == "10.0.0.2"


def test_worker_0_tries_no_port_that_it_has_itself() -> None:
    of_0 = replace(GANG, worker=0)
    assert targets(of_0, [Need(1, "", FIRST)]) == []


def test_of_many_workers_each_is_tried_by_some() -> None:
    many = Gang(tuple(f"10.0.{n // 250}.{n % 250}" for n in range(300)), 0, (300,), 288, 1, 0)
    needs = [Need(8471, "", SLICE)]
    tried = {
        one.worker for me in range(300) for one in targets(replace(many, worker=me), needs, most=10)
    }
    assert tried == set(range(300))
    assert len(targets(replace(many, worker=7), needs, most=10)) == 10


def test_what_is_blocked_is_said_once_for_each_port() -> None:
    found = {
        1: [Tried(0, 8482, TIMEOUT, "JAX's coordinator"), Tried(0, 21001, REFUSED)],
        2: [Tried(0, 8482, TIMEOUT, "JAX's coordinator"), Tried(1, 8471, OPEN)],
        3: [Tried(2, 8471, NO_ROUTE)],
    }
    assert blocked_lines(found) == [
        "worker 3 cannot reach worker 2:8471: no route",
        "workers 1-2 cannot reach worker 0:8482 (JAX's coordinator): a firewall",
    ]
    assert blocked_lines({1: [Tried(0, 1, REFUSED), Tried(0, 2, OPEN)]}) == []


def test_a_port_that_is_blocked_everywhere_is_one_line() -> None:
    found = {me: [Tried(to, 8471, TIMEOUT) for to in range(3) if to != me] for me in range(3)}
    assert blocked_lines(found) == ["workers 0-2 cannot reach port 8471 of workers 0-2: a firewall"]


def test_the_advice_has_the_command() -> None:
    found = {1: [Tried(0, 8482, TIMEOUT), Tried(0, 8471, NO_ROUTE)], 2: [Tried(0, 1, OPEN)]}
    assert advice(found, ["10.0.0.2"], "lab") == (
        "worker 1 cannot reach worker 0:8471: no route; "
        "worker 1 cannot reach worker 0:8482: a firewall; open it: "
        "gcloud compute firewall-rules create tpu-fleet-workers --network=lab "
        "--allow=tcp:8482 --source-ranges=10.0.0.0/24"
    )
    assert advice({1: [Tried(0, 1, REFUSED)]}, ["10.0.0.2"]) == ""


def test_workers_are_named() -> None:
    assert named([2]) == "worker 2"
    assert named([3, 1]) == "workers 1 and 3"
    assert named([1, 2, 3, 7, 9]) == "workers 1-3, 7 and 9"


def test_the_command_opens_these_ports_to_the_workers_network() -> None:
    hosts = ["10.0.0.2", "10.0.0.3"]
    assert firewall_command([8482, 8471], hosts, "lab") == (
        "gcloud compute firewall-rules create tpu-fleet-workers --network=lab "
        "--allow=tcp:8471,tcp:8482 --source-ranges=10.0.0.0/24"
    )
    assert "--network=NETWORK" in firewall_command([1], hosts)
    assert firewall_command([1], ["10.0.0.2", "10.0.1.3"]).endswith("=10.0.0.0/23")
    assert firewall_command([1], ["w0.c.p.internal"]).endswith("=RANGES")
