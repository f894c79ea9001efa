"""A sweep over all slices of a Ray cluster: every slice trains one learning rate after the other.

    python sweep.py --rates 0.01 0.1 1

on a host of the cluster, as a run, or by `ray job submit`.

A trial has a whole slice. It runs on the slice's worker 0, which carries Ray's marker for it, and
gives each worker a share of the data; after every round the weights are averaged. The model is a
logistic regression in plain Python: put your own into `train`, where a worker has its chips.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

Example = tuple[list[float], int]


@dataclass(frozen=True)
class Slice:
    """One slice of the cluster, as its workers' resources show it."""

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


def join_cluster(seconds: float) -> list[Slice]:
    """Connect, and return the slices. After a reboot Ray may come up later than we do."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if not ray.is_initialized():
                ray.init(address="auto", log_to_driver=False)
            if found := slices_of(ray.nodes()):
                return found
            trouble = "No worker has the marker TPU-<type>-head: the cluster has no slice."
        except ConnectionError as error:
            trouble = str(error)
        if time.monotonic() > deadline:
            raise SystemExit(trouble)
        time.sleep(2)


def keep(results: list[dict[str, Any]], path: Path) -> None:
    """Write what there is, as a whole: we may be killed at any moment."""
    new = path.with_suffix(".new")
    new.write_text("".join(f"{json.dumps(result)}\n" for result in results))
    new.replace(path)


def main() -> None:
    """Try all rates that were not tried yet, as many at a time as there are slices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.001, 0.01, 0.1, 1.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait", type=float, default=300.0, help="seconds for Ray to come up")
    parser.add_argument("--dir", default=os.environ.get("TPU_FLEET_CHECKPOINT_DIR"))
    options = parser.parse_args()
    if os.environ.get("TPU_FLEET_WORKER", "0") != "0":
        return  # one program gives out the trials: that of the slice's first worker
    slices = join_cluster(options.wait)
    print(json.dumps({"slices": [asdict(one) for one in slices]}), flush=True)
    kept = Path(options.dir, "results.jsonl") if options.dir else None
    results = []
    if kept and kept.exists():
        results = [json.loads(line) for line in kept.read_text().splitlines()]
    tried = [result["rate"] for result in results]
    waiting = [rate for rate in options.rates if rate not in tried]
    running: dict[Any, Slice] = {}
    while waiting or running:
        busy = [place.name for place in running.values()]
        # Looked for each time: one that was away or came later takes part as soon as it is there.
        for place in slices_of(ray.nodes()):
            if waiting and place.name not in busy:
                # The marker and a little of the slice: worker 0 of it, and room for its share.
                where = {place.marker: 1, place.name: 0.05}
                task = trial.options(resources=where)
                running[task.remote(place, waiting.pop(0), options.rounds)] = place
        if not running:
            time.sleep(2)  # all slices are away
            continue
        for task in ray.wait(list(running), num_returns=1, timeout=10)[0]:
            del running[task]
            results.append(ray.get(task))
            print(json.dumps(results[-1]), flush=True)
            if kept:
                keep(results, kept)
    print(json.dumps({"best": min(results, key=lambda result: result["loss"])}), flush=True)


if __name__ == "__main__":
    main()
