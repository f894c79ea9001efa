"""What a run's definition says: one run on one worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .bucket_budget import FENCE_SECONDS
from .run_definition import part_of_the_run

STEP_PATTERN = r"step[ =:]+(\d+)"


@dataclass(frozen=True)
class Timing:
    """Seconds between looks, and after how many of silence a peer is lost."""

    lost: float
    tick: float = 1.0
    restart_delay: float = 2.0
    restart_delay_max: float = 60.0
    fence: float = 5.0  # between looks at the checkpoint folder while the program runs
    fence_in_bucket: float = FENCE_SECONDS  # the same, where it is in a bucket
    step: float = 10.0  # between two writings of a status in which only the step is new
    progress: float = 60.0  # between two events with the program's progress
    disk: float = 30.0
    metadata: float = 10.0
    checkpoints: float = 35.0  # until the checkpoint folder was looked at once more
    bucket: float = 60.0  # between two looks at a bucket, or longer, by the next
    bucket_first: float = 20.0  # from the begin of a program to the first look at it, once
    bucket_dollars: float = 0.13  # that a month of such looks costs at most, beside the fence
    chips: float = 15.0  # between two looks at the monitoring port of the chips
    archive: float = 30.0  # between two writings of the archive
    archive_late: float = 60.0  # without one, until that is a problem


@dataclass(frozen=True)
class Paths:
    """Where one run keeps its things on this host."""

    state: Path
    runtime: Path
    log: Path
    secrets: Path = Path("/etc/tpu-fleet/secrets")
    secrets_program: Path = Path("/opt/tpu-fleet/tpu_fleet_secrets.py")
    queue: Path = Path("/var/lib/tpu-fleet/queue")
    records: Path = Path("/var/lib/tpu-fleet")
    cache: Path = Path("/var/cache/tpu-fleet/compile")
    root: Path = Path("/")  # where the chips' device files and the processes are looked for

    @property
    def events(self) -> Path:
        """Return the event log."""
        return self.log.with_name("events.jsonl")

    @property
    def user(self) -> Path:
        """Return the folder that the run's user may write to, in memory: it is never full."""
        return self.runtime / "user"

    @property
    def stacks(self) -> Path:
        """Return the file to which the run's Python processes write their stacks when asked."""
        return self.user / "stacks.txt"


@dataclass(frozen=True)
class Config:
    """One run on one worker. What has a default is not in definitions of earlier versions."""

    run: str
    definition: str
    user: str
    command: str
    workdir: str
    hosts: list[str]
    worker: int
    peer_port: int  # on which worker 0 leads
    port: int  # below the coordinator's: worker 0 hands entries of the compilation cache out
    coordinator_port: int
    checkpoint_dir: str
    retries: int
    fail_fast_seconds: float
    stop_signal: str
    grace_seconds: float
    multislice: dict[str, Any]
    paths: Paths
    timing: Timing
    log_bytes: int
    log_files: int
    venv: str = ""
    slice: str = ""
    slices: list[list[str]] = field(default_factory=list)  # the hosts, where they are of several
    megascale_port: int = 8080
    env: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    restart_on_secret_change: bool = False
    code: str = ""
    version: str = ""  # of the code, where another one restarts the run
    hang_seconds: float = 0.0
    step_pattern: str = STEP_PATTERN
    no_retry_exit_codes: list[int] = field(default_factory=list)
    needs_tpu: str = "auto"
    min_free_bytes: int = 1024**3
    checkpoint_signal: str = ""
    checkpoint_command: str = ""
    checkpoint_lead_seconds: float = 120.0
    metadata: str = ""
    storage: str = "https://storage.googleapis.com"
    archive: str = ""
    results: list[str] = field(default_factory=list)
    fence: str = ""
    mtls: bool = False  # whether JAX's processes show each other certificates
    attempt_folders: bool = False  # whether each attempt writes to a folder of its own
    compile_cache_bytes: int = 0
    datasets: list[dict[str, str]] = field(default_factory=list)  # name, path and id of each
    position: int = 0
    failures_before: int = 0  # of the program, on other slices
    key: str = ""  # by which the workers of the gang know each other

    @property
    def workers(self) -> int:
        """Return how many workers the gang has: those of one slice, or of several."""
        return len(self.hosts)

    @property
    def place(self) -> tuple[int, int]:
        """Return which slice of the gang this is, and which worker of the slice."""
        worker = self.worker
        for number, hosts in enumerate(self.slices):
            if worker < len(hosts):
                return number, worker
            worker -= len(hosts)
        return 0, self.worker

    @property
    def leader(self) -> bool:
        """Say whether this worker decides for the gang."""
        return self.worker == 0


def definition_of(public: dict[str, Any], env: dict[str, str], sets: str = "") -> str:
    """Hash what makes two runs the same run, wherever they are looked at.

    All users can see it, so what is secret goes into it by a hash that makes every guess expensive.
    """
    shared = part_of_the_run(public)
    hidden: Any = env
    if env or sets:
        secret = json.dumps([env, sets], sort_keys=True).encode()
        salt = f"tpu-fleet run {public.get('run')}".encode()
        hidden = hashlib.scrypt(secret, salt=salt, n=2**14, r=8, p=1, dklen=32).hex()
    text = json.dumps([shared, hidden], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _texts(values: Any) -> list[str]:
    return [str(value) for value in values]


# How a value of a definition is read, by the type of the field of its name.
_READ: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "dict[str, Any]": dict,
    "list[str]": _texts,
    "list[int]": lambda values: [int(value) for value in values],
    "list[dict[str, str]]": lambda entries: [
        {str(key): str(value) for key, value in entry.items()} for entry in entries
    ],
    "list[list[str]]": lambda lists: [_texts(values) for values in lists],
}


def _as_it_is(public: dict[str, Any]) -> dict[str, Any]:
    """Read what has the same name in a definition and in a Config. What is null is as not there."""
    return {
        one.name: _READ[str(one.type)](public[one.name])
        for one in fields(Config)
        if one.type in _READ and public.get(one.name) is not None
    }


def _paths(run: str, given: dict[str, str]) -> Paths:
    usual = {
        "state": f"/var/lib/tpu-fleet/runs/{run}",
        "runtime": f"/run/tpu-fleet/runs/{run}",
        "log": f"/var/log/tpu-fleet/runs/{run}/run.log",
    }
    return Paths(**{name: Path(path) for name, path in {**usual, **given}.items()})


def parse(public: dict[str, Any], env: dict[str, str], sets: str = "", key: str = "") -> Config:
    """Turn the two files' contents into a Config."""
    made: dict[str, Any] = {
        "definition": definition_of(public, env, sets),
        "paths": _paths(public["run"], public.get("paths", {})),
        "timing": Timing(**public["timing"]),
        "log_bytes": int(public["log"]["bytes"]),
        "log_files": int(public["log"]["files"]),
        "code": str(public["code"]["tree"] or ""),
        "version": str(public["code"].get("version") or ""),
        "step_pattern": str(public.get("step_pattern") or STEP_PATTERN),
        "fence": str(public.get("fence") or public["run"]),
        "env": {str(name): str(value) for name, value in env.items()},
        "key": key,
    }
    return Config(**{**_as_it_is(public), **made})
