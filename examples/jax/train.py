"""Train a small network on handwritten digits, on all devices of all workers of a slice.

Whatever is killed or rebooted meanwhile, the final parameters are those of an undisturbed run, bit
for bit: the data of a step follows from the seed and the step's number alone.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import accelerator  # first: it prepares what JAX reads when it is imported
import jax
import jax.numpy as jnp
import numpy as np
import optax
from checkpoints import Checkpoints
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits

STOPPED = 143  # what a shell says of a program that SIGTERM ended

Params = dict[str, Any]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128, help="units of the first layer")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--checkpoint-every", type=int, default=100)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="least time for a step")
    parser.add_argument(
        "--checkpoint-dir", default=os.environ.get("TPU_FLEET_CHECKPOINT_DIR") or "checkpoints"
    )
    return parser.parse_args(arguments)


def join_the_others() -> None:
    """Make one job of the programs on all workers."""
    workers = int(os.environ.get("TPU_FLEET_WORKERS", "1"))
    if accelerator.tpu_chips():
        if workers > 1:
            jax.distributed.initialize()  # the TPU knows its slice
    elif workers > 1:
        jax.distributed.initialize(
            coordinator_address=os.environ["TPU_FLEET_COORDINATOR"],
            num_processes=workers,
            process_id=int(os.environ["TPU_FLEET_WORKER"]),
        )


def new_params(seed: int, sizes: tuple[int, ...]) -> Params:
    """Begin with random weights, the same on all workers."""
    random = np.random.default_rng(seed)
    return {
        f"layer{index}": {
            "w": random.normal(0, (2 / fan_in) ** 0.5, (fan_in, fan_out)).astype(np.float32),
            "b": np.zeros(fan_out, np.float32),
        }
        for index, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes))
    }


def loss_of(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy."""
    x = images
    for index in range(len(params)):
        layer = params[f"layer{index}"]
        x = x @ layer["w"] + layer["b"]
        if index + 1 < len(params):
            x = jax.nn.relu(x)
    return optax.softmax_cross_entropy_with_integer_labels(x, labels).mean()


class Stop:
    """Remembers the signal by which this worker's program must end."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def hash_of(params: Params) -> str:
    """Hash all parameters, bit for bit."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        digest.update(jax.tree_util.keystr(path).encode())
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def train(
    options: argparse.Namespace,
    stop: Stop,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> dict[str, Any] | None:
    """Train to the last step, from wherever the last attempt came to.

    Return what has become of it; nothing when somebody asked to stop.
    """
    me, processes = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    print(f"worker {me}: process_count {processes}, devices {jax.device_count()}", flush=True)

    digits = load_digits()
    images = (digits.images.reshape(-1, 64) / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    batch_size = -(-options.batch_size // mesh.size) * mesh.size

    def spread(value: np.ndarray, sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    optimizer = optax.adam(options.learning_rate)

    @jax.jit
    def train_step(state: Any, x: jax.Array, y: jax.Array, stops: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, optimizer_state = optimizer.update(gradients, state["optimizer"])
        params = optax.apply_updates(state["params"], updates)
        # All workers learn in the same step that one of them was asked to stop.
        return {"params": params, "optimizer": optimizer_state}, loss, jnp.max(stops)

    params = new_params(options.seed, (64, options.hidden, 64, 10))
    state = jax.device_get({"params": params, "optimizer": jax.jit(optimizer.init)(params)})
    store = Checkpoints(options.checkpoint_dir)
    first, state = store.restore_newest(state)
    attempt = os.environ.get("TPU_FLEET_ATTEMPT", "1")
    print(f"worker {me}: attempt {attempt} begins at step {first}", flush=True)
    state = jax.tree.map(lambda leaf: spread(np.asarray(leaf), everywhere), state)

    for step in range(first, options.steps):
        begun = time.monotonic()
        chosen = np.random.default_rng((options.seed, step)).integers(0, len(images), batch_size)
        asked = np.full(mesh.size, stop.asked, np.int32)
        state, loss, stopping = train_step(
            state,
            spread(images[chosen], split),
            spread(labels[chosen], split),
            spread(asked, split),
        )
        done = step + 1
        if done % options.log_every == 0 or done == options.steps:
            print(f"worker {me}: step {done} loss {float(loss):.6f}", flush=True)
            report(done, float(loss))
        if int(stopping) or done % options.checkpoint_every == 0 or done == options.steps:
            store.save(done, state)
        if int(stopping):
            print(f"worker {me}: asked to stop, saved step {done}", flush=True)
            store.close()
            return None
        time.sleep(max(0.0, options.step_seconds - (time.monotonic() - begun)))

    params = jax.device_get(state["params"])
    final = {
        "sha256": hash_of(params),
        "loss": float(jax.jit(loss_of)(params, images, labels)),
        "steps": options.steps,
        "seed": options.seed,
        "process_count": processes,
    }
    store.write_final(final)
    store.close()
    print(f"worker {me}: final {json.dumps(final)}", flush=True)
    return final


def tell(step: int, loss: float, steps: int) -> None:
    """Report the progress to the run agent: `tpu-fleet runs` and the fleet's page show it."""
    place = os.environ.get("TPU_FLEET_PROGRESS")
    if place:
        new = Path(f"{place}.new")
        new.write_text(json.dumps({"step": step, "loss": loss, "total_steps": steps}))
        new.replace(place)


def main(arguments: list[str]) -> int:
    """Train as the command line says."""
    options = parse(arguments)
    join_the_others()
    stop = Stop()  # after JAX, which has a handler of its own
    return STOPPED if train(options, stop, partial(tell, steps=options.steps)) is None else 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        # An ordinary exit would first wait for the other workers, which wait for this one.
        os._exit(1)
    sys.exit(code)
