"""Train a small network on handwritten digits, on all devices of all workers of a slice.

Whatever is killed or rebooted meanwhile, the final parameters are those of an undisturbed run, bit
for bit: the data of a step follows from the seed and the step's number alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import accelerator  # noqa: F401  first: it prepares what torch_xla reads when it is imported
import numpy as np
import torch
from checkpoints import Checkpoints
from gang import Gang
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils import _pytree as tree

STOPPED = 143  # what a shell says of a program that SIGTERM ended


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


def new_network(seed: int, hidden: int) -> torch.nn.Module:
    """Begin with random weights, the same on all workers."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(64, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )


class Stop:
    """Remembers the signal by which this worker's program must end."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def on_host(state: Any) -> Any:
    """Copy a state into the host's memory."""
    return tree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu(), state)


def hash_of(params: dict[str, torch.Tensor]) -> str:
    """Hash all parameters, bit for bit."""
    digest = hashlib.sha256()
    for name, tensor in params.items():
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def add_up_gradients(gang: Gang, network: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    """Make gradients and loss the means over all meshes."""
    gang.compute()
    means = [parameter.grad for parameter in network.parameters()] + [loss]
    summed = gang.add_up(torch.cat([mean.detach().reshape(-1).cpu() for mean in means]))
    parts = (summed / gang.meshes).split([mean.numel() for mean in means])
    for mean, part in zip(means[:-1], parts[:-1], strict=True):
        mean.copy_(part.reshape(mean.shape))
    return parts[-1]


def train(options: argparse.Namespace, gang: Gang, stop: Stop) -> dict[str, Any] | None:
    """Train to the last step, from wherever the last attempt came to.

    Return what has become of it; nothing when somebody asked to stop.
    """
    me = gang.worker
    print(f"worker {me}: process_count {gang.workers}, devices {gang.devices}", flush=True)

    digits = load_digits()
    images = (digits.images.reshape(-1, 64) / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int64)
    batch_size = -(-options.batch_size // gang.devices) * gang.devices

    network = new_network(options.seed, options.hidden)
    store = Checkpoints(options.checkpoint_dir, gang)
    first, state = store.restore_newest()
    if state:
        network.load_state_dict(state["network"])
    network = network.to(gang.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    if state:
        optimizer.load_state_dict(state["optimizer"])
    attempt = os.environ.get("TPU_FLEET_ATTEMPT", "1")
    print(f"worker {me}: attempt {attempt} begins at step {first}", flush=True)

    for step in range(first, options.steps):
        begun = time.monotonic()
        chosen = np.random.default_rng((options.seed, step)).integers(0, len(images), batch_size)
        optimizer.zero_grad()
        loss = cross_entropy(network(gang.share(images[chosen])), gang.share(labels[chosen]))
        loss.backward()
        if gang.meshes > 1:
            loss = add_up_gradients(gang, network, loss)
        optimizer.step()
        gang.compute()
        # All workers learn in the same step that one of them was asked to stop.
        stopping = bool(gang.add_up(torch.tensor(float(stop.asked))))
        done = step + 1
        if done % options.log_every == 0 or done == options.steps:
            print(f"worker {me}: step {done} loss {loss.item():.6f}", flush=True)
            tell(done, loss.item(), options.steps)
        if stopping or done % options.checkpoint_every == 0 or done == options.steps:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
            store.save(done, on_host(state))
        if stopping:
            print(f"worker {me}: asked to stop, saved step {done}", flush=True)
            return None
        time.sleep(max(0.0, options.step_seconds - (time.monotonic() - begun)))

    network = network.cpu().requires_grad_(False)
    final = {
        "sha256": hash_of(network.state_dict()),
        "loss": cross_entropy(network(torch.from_numpy(images)), torch.from_numpy(labels)).item(),
        "steps": options.steps,
        "seed": options.seed,
        "process_count": gang.workers,
    }
    store.write_final(final)
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
    gang = Gang()
    stop = Stop()  # after the runtime, which may have a handler of its own
    return STOPPED if train(options, gang, stop) is None else 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        # An ordinary exit would first wait for the other workers, which wait for this one.
        os._exit(1)
    sys.exit(code)
