"""A sweep over all slices of a Ray cluster: every slice trains one learning rate after the other.

    ray job submit --working-dir examples/ray_sweep -- python sweep.py --rates 0.01 0.1 1

A trial has a whole slice. It runs on the slice's worker 0, which carries Ray's marker for it, and
gives each worker a share of the data; after every round the weights are averaged. The model is a
logistic regression in plain Python: put your own into `train`, where a worker has its chips.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import socket
from dataclasses import asdict, dataclass
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

Example = tuple[list[float], int]


@dataclass(frozen=True)
class Slice:
    """One slice of the cluster, as its workers' resources tell it."""

    name: str
    marker: str
    workers: int
    chips: int


def slices_of(nodes: list[dict[str, Any]]) -> list[Slice]:
    """Find the slices: all workers have their slice's name, worker 0 also TPU-<type>-head."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    labels = [node.get("Labels", {}) for node in nodes if node["Alive"]]
    found = []
    for resources, label in zip(alive, labels, strict=True):
        markers = [name for name in resources if re.fullmatch(r"TPU-.+-head", name)]
        if markers:
            name = label["ray.io/tpu-slice-name"]
            workers = sum(name in other for other in alive)
            found.append(Slice(name, markers[0], workers, int(resources.get("TPU", 0))))
    return sorted(found, key=lambda one: one.name)


def examples(count: int, seed: int) -> list[Example]:
    """Make points on two sides of a plane, some of them on the wrong one."""
    source = random.Random(seed)  # noqa: S311 - no secret depends on it
    plane = [1.0, -2.0, 0.5, 0.25]
    made = []
    for _number in range(count):
        point = [source.gauss(0, 1) for _axis in plane]
        side = sum(a * b for a, b in zip(point, plane, strict=True)) + source.gauss(0, 0.3)
        made.append((point, int(side > 0)))
    return made


def probability(weights: list[float], point: list[float]) -> float:
    """Say how probable the model finds it that a point is on the right side."""
    score = sum(a * b for a, b in zip(weights, point, strict=True))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


def loss(weights: list[float], data: list[Example]) -> float:
    """Return the mean cross entropy."""
    right = [probability(weights, p) if label else 1 - probability(weights, p) for p, label in data]
    return -sum(math.log(max(value, 1e-9)) for value in right) / len(right)


@ray.remote(max_retries=3)
def train(weights: list[float], rate: float, share: int, shares: int) -> tuple[str, list[float]]:
    """Go once over this worker's share of the data."""
    for point, label in examples(1200, seed=7)[share::shares]:
        error = probability(weights, point) - label
        weights = [w - rate * error * x for w, x in zip(weights, point, strict=True)]
    return socket.gethostname(), weights


@ray.remote(num_cpus=0, max_retries=3)
def trial(place: Slice, rate: float, rounds: int) -> dict[str, Any]:
    """Train with one learning rate on all workers of one slice."""
    weights = [0.0] * 4
    hosts: set[str] = set()
    # Nine tenths of each worker: a share never waits for the worker that another one has.
    needs = {place.name: 0.9, **({"TPU": place.chips} if place.chips else {})}
    group = placement_group([{"CPU": 1, **needs}] * place.workers, strategy="STRICT_SPREAD")
    workers = [
        train.options(
            num_cpus=1,
            resources=needs,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=number
            ),
        )
        for number in range(place.workers)
    ]
    try:
        for _round in range(rounds):
            shares = [
                worker.remote(weights, rate, number, place.workers)
                for number, worker in enumerate(workers)
            ]
            done = ray.get(shares)
            hosts |= {host for host, _weights in done}
            columns = zip(*(w for _host, w in done), strict=True)
            weights = [sum(column) / len(done) for column in columns]
    finally:
        remove_placement_group(group)
    return {
        "slice": place.name,
        "hosts": sorted(hosts),
        "rate": rate,
        "loss": round(loss(weights, examples(400, seed=8)), 4),
    }


def main() -> None:
    """Try all rates, as many at a time as there are slices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.001, 0.01, 0.1, 1.0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ray.init(address="auto", log_to_driver=False)
    free = slices_of(ray.nodes())
    print(json.dumps({"slices": [asdict(one) for one in free]}), flush=True)
    if not free:
        raise SystemExit("No worker has the marker TPU-<type>-head: the cluster has no slice.")
    waiting, running, results = list(options.rates), {}, []
    while waiting or running:
        while waiting and free:
            place = free.pop(0)
            # The marker and a little of the slice: worker 0 of this one, and room for its share.
            where = {place.marker: 1, place.name: 0.05}
            task = trial.options(resources=where).remote(place, waiting.pop(0), options.rounds)
            running[task] = place
        for task in ray.wait(list(running), num_returns=1)[0]:
            free.append(running.pop(task))
            results.append(ray.get(task))
            print(json.dumps(results[-1]), flush=True)
    print(json.dumps({"best": min(results, key=lambda result: result["loss"])}), flush=True)


if __name__ == "__main__":
    main()
