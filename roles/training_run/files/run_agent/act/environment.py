"""What the program finds in its environment."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from ..decide.config import Config
from ..decide.dataset_variable import variable_of
from ..decide.fence import folder_of
from .installed import FILES

HOOK = FILES / "python_hook"
"""The folder with what each Python process of a run begins with."""
SYSTEM = Path("/etc/environment")
"""What every login of the machine finds in its environment."""
AUTHORITIES = frozenset(
    {
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    }
)
"""Variables by which libraries find the authorities that the machine trusts."""
_MOST = 1 << 16
_PATH = re.compile(r"\s*(?:export\s+)?(\w+)=([\"']?)(/[^\s\"']*)\2\s*", re.ASCII)


def of_machine() -> dict[str, str]:
    """Return the variables of the machine that programs get: those of its authorities."""
    text = ""
    with contextlib.suppress(OSError), SYSTEM.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_MOST)
    return authorities(text)


def authorities(text: str) -> dict[str, str]:
    """Return these variables of a file like /etc/environment, as far as they are whole paths."""
    found = [match for match in map(_PATH.fullmatch, text.splitlines()) if match]
    return {match[1]: match[3] for match in found if match[1] in AUTHORITIES}


def checkpoint_dir(config: Config, attempt: int) -> str:
    """Return where an attempt writes its checkpoints; empty if the run wants no such place."""
    if not config.attempt_folders:
        return config.checkpoint_dir
    return f"{config.checkpoint_dir.rstrip('/')}/{folder_of(attempt)}"


def of_program(config: Config, run_id: str, attempt: int, basis: dict[str, str]) -> dict[str, str]:
    """Return the whole environment of one attempt."""
    ours = {
        "TPU_FLEET_RUN": config.run,
        "TPU_FLEET_RUN_ID": run_id,
        "TPU_FLEET_ATTEMPT": str(attempt),
        "TPU_FLEET_CHECKPOINT_DIR": checkpoint_dir(config, attempt),
        # Where attempts have folders of their own, the fence names it when the attempt begins.
        "TPU_FLEET_RESTORE_DIR": "" if config.attempt_folders else config.checkpoint_dir,
        "TPU_FLEET_SLICE": config.slice,
        "TPU_FLEET_WORKER": str(config.worker),
        "TPU_FLEET_WORKERS": str(config.workers),
        "TPU_FLEET_COORDINATOR": f"{_shown(config.hosts[0])}:{config.coordinator_port}",
        "TPU_FLEET_PROGRESS": str(config.paths.user / "progress.json"),
        "TPU_FLEET_FENCE": str(attempt),
        "TPU_FLEET_STACKS": str(config.paths.stacks),
        "TPU_FLEET_TIMES": str(config.paths.user / "times.json"),
    }
    result = dict(basis, WANDB_RUN_ID=run_id, WANDB_RESUME="allow", PYTHONUNBUFFERED="1")
    if config.venv:
        result["VIRTUAL_ENV"] = config.venv
        result["PATH"] = f"{config.venv}/bin:{result['PATH']}"
    result.update(_multislice(config))
    result.update(config.env)
    result.update(ours)
    result.update({variable_of(one["name"]): one["path"] for one in config.datasets})
    own = result.get("PYTHONPATH", "")
    result["PYTHONPATH"] = f"{HOOK}:{own}" if own else str(HOOK)
    return result


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _multislice(config: Config) -> dict[str, str]:
    if config.slices:
        port = str(config.megascale_port)
        return {
            "MEGASCALE_COORDINATOR_ADDRESS": f"{_shown(config.hosts[0])}:{port}",
            "MEGASCALE_NUM_SLICES": str(len(config.slices)),
            "MEGASCALE_SLICE_ID": str(config.place[0]),
            "MEGASCALE_PORT": port,
        }
    several = config.multislice
    names = {
        "coordinator": "MEGASCALE_COORDINATOR_ADDRESS",
        "num_slices": "MEGASCALE_NUM_SLICES",
        "slice_id": "MEGASCALE_SLICE_ID",
    }
    return {name: str(several[key]) for key, name in names.items() if key in several}
