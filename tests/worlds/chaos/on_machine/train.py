"""The program of the chaos test: JAX on all workers of a slice, with a step that all make together.

What the parameters are after N steps follows from N alone, bit for bit, whatever happened before.
It saves every --every steps and never when it is asked to end, so that each attempt that ends costs
what a power cut would. It goes on until somebody writes a number of steps to `until` beside its
checkpoints, and stands still for good in an attempt whose number is in `still` there. In `ledger`,
each process of each attempt has a file of its own: when it lived, and when it began and saved which
step, by the clock of who keeps the file. The checker reads it; no fault sets that clock.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import diary  # first: it begins to note, and prepares what JAX reads when it is imported
import jax
import jax.numpy as jnp
import numpy as np
from diary import ATTEMPT, FOLDER, RUN, SAVED, WORKER, WORKERS
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SIZES = (16, 64, 32, 4)
BATCH = 64
KEPT = 3
ENDLESS = 2**30

State = dict[str, Any]


class FolderCheckpoints:
    """Files that are there whole or not at all; worker 0 keeps them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)

    def _all(self) -> list[Path]:
        return sorted(self._folder.glob("step-*.npz"))

    def newest(self, blank: State) -> tuple[int, State]:
        """Return the newest step and its state, spread over the workers as the blank is."""
        step, state = 0, jax.device_get(blank)
        if WORKER == 0:
            for left in self._folder.glob(".new-*"):
                left.unlink()
            found = self._all()
            if found:
                step = int(found[-1].stem.partition("-")[2])
                with np.load(found[-1]) as saved:
                    leaves = [saved[f"arr_{index}"] for index in range(len(saved.files))]
                state = jax.tree.unflatten(jax.tree.structure(blank), leaves)
        if WORKERS > 1:
            step, state = multihost_utils.broadcast_one_to_all((np.int32(step), state))
        return int(step), jax.tree.map(lambda new, old: spread(new, old.sharding), state, blank)

    def save(self, step: int, state: State) -> None:
        """Save a step."""
        if WORKER:
            return
        new = self._folder / f".new-{os.getpid()}"
        with new.open("wb") as stream:
            np.savez(stream, *jax.tree.leaves(jax.device_get(state)))
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(self._folder / f"step-{step:08d}.npz")
        for old in self._all()[:-KEPT]:
            old.unlink()


def spread(value: Any, sharding: NamedSharding) -> jax.Array:
    """Give each device its part of what every worker has."""
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def asked(name: str) -> int:
    """Return a number that was written to a file beside the checkpoints; 0 without one."""
    with contextlib.suppress(OSError, ValueError):
        return int((FOLDER / name).read_text())
    return 0


def new_state(seed: int) -> State:
    """Begin with random weights."""
    random = np.random.default_rng(seed)
    shapes = list(itertools.pairwise(SIZES))
    params = {
        f"w{index}": random.normal(0, shape[0] ** -0.5, shape).astype(np.float32)
        for index, shape in enumerate(shapes)
    }
    return {"params": params, "moved": {key: np.zeros_like(w) for key, w in params.items()}}


def loss_of(params: State, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    for index in range(len(SIZES) - 1):
        x = x @ params[f"w{index}"]
        if index + 2 < len(SIZES):
            x = jnp.tanh(x)
    return jnp.mean((x - y) ** 2)


def train_step(state: State, x: jax.Array, y: jax.Array, told: jax.Array) -> Any:
    """Make a step; by it all workers learn what worker 0 has read."""
    loss, gradients = jax.value_and_grad(loss_of)(state["params"], x, y)
    moved = jax.tree.map(lambda m, g: 0.9 * m + g, state["moved"], gradients)
    params = jax.tree.map(lambda w, m: w - 0.01 * m, state["params"], moved)
    return {"params": params, "moved": moved}, loss, jnp.max(told, axis=0)


def batch(seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Make the data of a step, from its number alone."""
    random = np.random.default_rng((seed, step))
    x = random.normal(size=(BATCH, SIZES[0])).astype(np.float32)
    return x, np.sin(x[:, : SIZES[-1]] * 2).astype(np.float32)


def hash_of(params: State) -> str:
    """Hash all parameters, bit for bit."""
    digest = hashlib.sha256()
    for key in sorted(params):
        digest.update(np.asarray(params[key]).tobytes())
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    """Train from where the last attempt came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", type=int, default=0, help="end there, whatever `until` says")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="least time for a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orbax", action="store_true", help="each worker keeps and saves a part")
    parser.add_argument("--quiet", action="store_true", help="print no line for each step")
    options = parser.parse_args(arguments)
    if WORKERS > 1:
        jax.distributed.initialize(
            coordinator_address=os.environ["TPU_FLEET_COORDINATOR"],
            num_processes=WORKERS,
            process_id=WORKER,
        )
    # JAX has a handler of its own by now, with which it would not end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    kept = split if options.orbax else everywhere
    # It comes out as it went in: an attempt that goes on computes as the one before did.
    make_step = jax.jit(train_step, out_shardings=(kept, everywhere, everywhere))

    store = store_of(options.orbax)
    blank = jax.tree.map(lambda leaf: spread(leaf, kept), new_state(options.seed))
    step, state = store.newest(blank)
    print(f"run {RUN} attempt {ATTEMPT} worker {WORKER} begins after step {step}", flush=True)
    known = options.steps
    end = options.steps or ENDLESS
    while step < end:
        begun = time.monotonic()
        diary.LEDGER.step(step + 1)
        still = 0
        if not options.steps and WORKER == 0:
            known, still = known or asked("until"), int(asked("still") == ATTEMPT)
        x, y = batch(options.seed, step)
        told = np.tile(np.int32([known, still]), (mesh.size, 1))
        state, loss, heard = make_step(
            state, spread(x, split), spread(y, split), spread(told, split)
        )
        step += 1
        until, stands_still = map(int, np.asarray(heard))
        if not options.quiet:
            shown = f"run {RUN} attempt {ATTEMPT} worker {WORKER} step {step}"
            print(f"{shown} loss {float(loss):.6f}", flush=True)
        end = until or ENDLESS
        if step % options.every == 0 or step >= end:
            store.save(step, state)
            diary.LEDGER.saved(step)
        while stands_still:
            time.sleep(1)
        if not options.steps:
            time.sleep(max(0.0, options.step_seconds - (time.monotonic() - begun)))
    whole = jax.jit(lambda params: params, out_shardings=everywhere)(state["params"])
    if WORKER == 0:
        final = {"sha256": hash_of(jax.device_get(whole)), "steps": step}
        (FOLDER / "final.json").write_text(json.dumps(final))
        print(f"final {json.dumps(final)}", flush=True)
    return 0


def store_of(orbax: bool) -> Any:
    """Return where checkpoints are kept."""
    if orbax:
        # It takes seconds to import.
        from orbax_checkpoints import OrbaxCheckpoints

        return OrbaxCheckpoints(SAVED)
    return FolderCheckpoints(FOLDER)


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        # An ordinary exit would first wait for the other workers, which wait for this one.
        os._exit(1)
    sys.exit(code)
