"""Descend a loss until a signal ends it; torch_xla is for tests/machines/torch_xla."""

import json
import os
import time
from pathlib import Path

import tomli  # one of the requirements
from devinterp.slt import descend  # only on the branch add/slt-1

saved = Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"], "state.json")
rate = tomli.loads("rate = 0.01")["rate"]
state = json.loads(saved.read_text()) if saved.exists() else {"step": 0, "weight": 1.0}
print(f"attempt {os.environ['TPU_FLEET_ATTEMPT']} begins at step {state['step']}", flush=True)
while True:
    state = {"step": state["step"] + 1, "weight": descend(state["weight"], rate)}
    if state["step"] % 20 == 0:
        print(f"step {state['step']} loss {state['weight'] ** 2:.6f}", flush=True)
        new = saved.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(saved)
    time.sleep(0.02)
