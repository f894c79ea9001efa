"""Count down a loss; torch_xla is for tests/machines/torch_xla."""

import os
import time
from pathlib import Path

saved = Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"], "step")
step = int(saved.read_text()) if saved.exists() else 0
print(f"attempt {os.environ['TPU_FLEET_ATTEMPT']} begins at step {step}", flush=True)
while True:
    step += 1
    if step % 20 == 0:
        print(f"step {step} loss {1 / step:.6f}", flush=True)
        new = saved.with_suffix(".new")
        new.write_text(str(step))
        new.replace(saved)
    time.sleep(0.02)
