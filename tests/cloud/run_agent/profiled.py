"""A program that trains on CPUs with all workers of its run, and knows nothing of profiles."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

STEPS = 100_000


def batches(rows: int):
    """Yield one after the other, each slowly."""
    while True:
        time.sleep(0.03)
        yield np.random.default_rng().random((rows, 256), np.float32)


@jax.jit
def updated(weights, batch):
    """Return the weights after a step."""
    gradient = jax.grad(lambda weights: jnp.mean(jnp.tanh(batch @ weights) ** 2))(weights)
    return weights - 0.1 * gradient


def main() -> None:
    """Train until the run is stopped."""
    workers, worker = int(os.environ["TPU_FLEET_WORKERS"]), int(os.environ["TPU_FLEET_WORKER"])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(os.environ["TPU_FLEET_COORDINATOR"], workers, worker)
    mesh = jax.make_mesh((workers,), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    weights = jax.device_put(np.ones((256, 256), np.float32), NamedSharding(mesh, PartitionSpec()))
    progress = Path(os.environ["TPU_FLEET_PROGRESS"])
    for step, rows in zip(range(STEPS), batches(32), strict=False):
        batch = jax.make_array_from_process_local_data(split, rows)
        weights = updated(weights, batch)
        weights.block_until_ready()
        half = progress.with_suffix(".half")
        half.write_text(json.dumps({"step": step}))
        half.replace(progress)
        print(f"step {step}", flush=True)


main()
