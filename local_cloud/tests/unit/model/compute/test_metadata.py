"""The metadata that Compute Engine writes into instances with TPUs."""

from __future__ import annotations

import pytest

from tpu_local_cloud.model.compute.metadata import host_bounds, tpu_env, written


def lines(text: str) -> dict[str, str]:
    pairs = (line.split(": ") for line in text.splitlines())
    return {key: value.strip("'") for key, value in pairs}


def test_a_single_instance_is_worker_0_of_itself() -> None:
    compute = {"machineType": "ct6e-standard-1t", "topology": "1x1"}
    [own] = written("p", "us-east5-a", compute, ["one"])
    assert own["accelerator-type"] == "v6e-1"
    assert own["agent-worker-number"] == "0"
    assert own["worker-network-endpoints"] == "one"
    assert lines(own["tpu-env"]) == {
        "TPU_WORKER_ID": "0",
        "CONSUMER_PROJECT_ID": "p",
        "ZONE": "us-east5-a",
        "NODE_ID": "0",
        "TPU_RUNTIME_METRICS_PORTS": "8431",
        "ENABLE_ICI_RESILIENCY": "false",
        "TPU_ACCELERATOR_TYPE": "v6e-1",
        "TOPOLOGY": "1x1",
        "WRAP": "false,false,false",
        "ALT": "false",
        "HOST_BOUNDS": "1,1,1",
        "CHIPS_PER_HOST_BOUNDS": "1,1,1",
    }


@pytest.mark.parametrize(
    ("kind", "topology", "names", "accelerator_type", "bounds"),
    [
        ("ct6e-standard-4t", "2x4", 2, "v6e-8", "1,2,1"),
        ("ct6e-standard-4t", "4x4", 4, "v6e-16", "2,2,1"),
        ("tpu7x-standard-4t", "2x2x2", 2, "v7x-16", "1,1,2"),
        ("ct5p-hightpu-4t", "2x2x4", 4, "v5p-32", "1,1,4"),
    ],
)
def test_workers_of_a_slice_know_all_names(
    kind: str, topology: str, names: int, accelerator_type: str, bounds: str
) -> None:
    all_names = [f"s-{number}" for number in range(names)]
    found = written("p", "z", {"machineType": kind, "topology": topology}, all_names)
    assert [each["agent-worker-number"] for each in found] == [str(n) for n in range(names)]
    for worker, each in enumerate(found):
        env = lines(each["tpu-env"])
        assert each["worker-network-endpoints"] == ",".join(all_names)
        assert each["accelerator-type"] == env["TPU_ACCELERATOR_TYPE"] == accelerator_type
        assert (env["TPU_WORKER_ID"], env["HOST_BOUNDS"]) == (str(worker), bounds)


@pytest.mark.parametrize(
    ("topology", "wrap"),
    [
        ("4x4x4", "true,true,true"),
        ("2x2x4", "false,false,false"),
        ("8x8", "false,false,false"),
        ("16x16", "true,true,false"),
    ],
)
def test_whole_cubes_and_pods_are_rings(topology: str, wrap: str) -> None:
    kind = "tpu7x-standard-4t" if topology.count("x") == 2 else "ct6e-standard-4t"
    assert lines(tpu_env("p", "z", kind, topology, 0))["WRAP"] == wrap


def test_host_bounds_of_a_vm_with_eight_chips() -> None:
    assert host_bounds("2x4", 8) == "1,1,1"
