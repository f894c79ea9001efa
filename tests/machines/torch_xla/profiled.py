"""A program of torch_xla on a CPU, which knows nothing of profiles."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch_xla
import torch_xla.core.xla_model as xm

weights = torch.ones(256, 256, device=torch_xla.device())
progress, step = Path(os.environ["TPU_FLEET_PROGRESS"]), 0
while True:
    batch = torch.rand(64, 256).to(weights.device)
    weights = weights - 0.01 * (batch.t() @ torch.tanh(batch @ weights))
    torch_xla.sync()
    xm.wait_device_ops()
    step += 1
    half = progress.with_suffix(".half")
    half.write_text(json.dumps({"step": step}))
    half.replace(progress)
    time.sleep(0.02)
