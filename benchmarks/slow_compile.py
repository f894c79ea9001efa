"""A program of JAX that compiles for long: what benchmarks/fast_start.py starts on each worker.

It says each step, and goes on until it is killed. Each step is one program of all workers.
"""

# Of JAX the checkout has none.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jax._src import cache_key
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SIZE = 64
# The topology of a slice is the same for all its workers. That of CPUs has those of one process
# alone, so no worker could use what another has compiled: here it counts by the kinds of devices,
# as JAX does where a backend describes no topology.
cache_key._hash_accelerator_config = cache_key._hash_devices


def values_of_all() -> jax.Array:
    """Return an array of which each device has a part."""
    mesh = Mesh(jax.devices(), ("all",))
    spread = NamedSharding(mesh, PartitionSpec("all"))
    return jax.jit(lambda: jnp.ones((SIZE, SIZE)), out_shardings=spread)()


@partial(jax.jit, static_argnums=1)
def step(values: jax.Array, layers: int) -> jax.Array:
    """Do so much that the compiler needs long for it; no layer is like another."""
    for number in range(layers):
        mixed = jnp.tanh(values * 0.1 + number) * jnp.sin(values * (number + 1))
        values = values + jax.nn.softmax(mixed, axis=number % 2) / (number + 1)
    return values


def main() -> None:
    """Do steps until the end."""
    layers, workers = int(sys.argv[1]), int(os.environ["TPU_FLEET_WORKERS"])
    if workers > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        address, worker = os.environ["TPU_FLEET_COORDINATOR"], os.environ["TPU_FLEET_WORKER"]
        jax.distributed.initialize(address, workers, int(worker))
    values = values_of_all()
    told = Path(os.environ["TPU_FLEET_PROGRESS"])
    for number in range(1, 10**9):
        values = step(values, layers).block_until_ready()
        new = told.with_suffix(".new")
        new.write_text(json.dumps({"step": number}))
        new.replace(told)
        time.sleep(1)


if __name__ == "__main__":
    main()
