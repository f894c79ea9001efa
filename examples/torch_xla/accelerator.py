"""TPU or CPU? Decided before torch_xla is imported."""

from __future__ import annotations

import os
from pathlib import Path

_GOOGLE = "0x1ae0"


def tpu_chips() -> int:
    """Count the host's TPU chips by their PCI vendor."""
    vendors = Path("/sys/bus/pci/devices").glob("*/vendor")
    return sum(vendor.read_text().strip() == _GOOGLE for vendor in vendors)


if tpu_chips():
    os.environ.setdefault("PJRT_DEVICE", "TPU")
else:
    # A few shared CPU cores: one thread for each operation.
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    os.environ.setdefault("NPROC", "2")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
