"""Distinguish two kinds of tweets; torch_xla is for tests/machines/torch_xla."""

import os
import time
from pathlib import Path

import numpy as np

random = np.random.default_rng(0)
tweets = random.normal(size=(256, 16))
informative = tweets[:, 0] > 0
saved = Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"], "weights.npz")
step, weights = 0, np.zeros(16)
if saved.exists():
    with np.load(saved) as found:
        step, weights = int(found["step"]), found["weights"]
print(f"attempt {os.environ['TPU_FLEET_ATTEMPT']} begins at step {step}", flush=True)
while True:
    guesses = 1 / (1 + np.exp(-tweets @ weights))
    weights = weights - 0.1 * tweets.T @ (guesses - informative) / len(tweets)
    step += 1
    if step % 20 == 0:
        print(f"step {step} loss {np.abs(guesses - informative).mean():.6f}", flush=True)
        np.savez(saved.with_suffix(".new.npz"), step=step, weights=weights)
        saved.with_suffix(".new.npz").replace(saved)
    time.sleep(0.02)
