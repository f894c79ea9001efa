"""What the host was told about one run: two JSON files, one of them readable by root alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from . import as_user
from .keys import read_key

# What differs between workers, says where things lie, or is the agent's business and not the
# program's, is no part of "the same run": another value leaves the program alone.
_NOT_DEFINITION = (
    "slice",
    "worker",
    "hosts",
    "slices",
    "megascale_port",
    "peer_port",
    "workdir",
    "timing",
    "paths",
    "log",
    "fence",
    "position",
    "metadata",
    "hang_seconds",
    "step_pattern",
    "no_retry_exit_codes",
    "needs_tpu",
    "min_free_bytes",
    "checkpoint_signal",
    "checkpoint_command",
    "checkpoint_lead_seconds",
)
STEP_PATTERN = r"step[ =:]+(\d+)"


@dataclass(frozen=True)
class Timing:
    """Seconds between looks, and after how many of silence a peer is lost."""

    tick: float = 1.0
    lost: float = 30.0
    restart_delay: float = 2.0
    restart_delay_max: float = 60.0
    fence: float = 5.0  # between looks at the checkpoint folder while the program runs
    step: float = 10.0  # between two writings of a status in which only the step is new
    disk: float = 30.0
    metadata: float = 10.0


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
    root: Path = Path("/")  # where the chips' device files and the processes are looked for

    @property
    def events(self) -> Path:
        """Return the event log."""
        return self.log.with_name("events.jsonl")

    @property
    def user(self) -> Path:
        """Return the folder that the run's user may write to, in memory: it is never full."""
        return self.runtime / "user"


@dataclass(frozen=True)
class Config:
    """One run on one worker."""

    run: str
    definition: str
    user: str
    command: str
    workdir: str
    hosts: List[str]
    worker: int
    peer_port: int  # on which worker 0 leads
    coordinator_port: int
    paths: Paths
    slice: str = ""
    venv: Optional[str] = None
    checkpoint_dir: str = ""
    retries: int = 3
    fail_fast_seconds: float = 3600.0
    stop_signal: str = "SIGTERM"
    grace_seconds: float = 30.0
    multislice: Dict[str, Any] = field(default_factory=dict)
    slices: List[List[str]] = field(default_factory=list)  # the hosts, where they are of several
    megascale_port: int = 8080
    env: Dict[str, str] = field(default_factory=dict)
    secrets: List[str] = field(default_factory=list)
    restart_on_secret_change: bool = False
    timing: Timing = Timing()
    log_bytes: int = 50 * 1024 * 1024
    log_files: int = 5
    code: str = ""
    hang_seconds: float = 0.0
    step_pattern: str = STEP_PATTERN
    no_retry_exit_codes: List[int] = field(default_factory=list)
    needs_tpu: str = "auto"
    min_free_bytes: int = 1024**3
    checkpoint_signal: str = ""
    checkpoint_command: str = ""
    checkpoint_lead_seconds: float = 120.0
    metadata: str = ""
    fence: str = ""
    position: int = 0
    key: str = ""  # by which the workers of the gang know each other

    @property
    def workers(self) -> int:
        """Return how many workers the gang has: those of one slice, or of several."""
        return len(self.hosts)

    @property
    def place(self) -> Tuple[int, int]:
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


def definition_of(public: Dict[str, Any], env: Dict[str, str], sets: str = "") -> str:
    """Hash what makes two runs the same run, wherever they are looked at.

    Everybody can see it, so what is secret goes into it by a hash that makes every guess expensive.
    """
    shared = {key: value for key, value in public.items() if key not in _NOT_DEFINITION}
    hidden: Any = env
    if env or sets:
        secret = json.dumps([env, sets], sort_keys=True).encode()
        salt = f"tpu-fleet run {public.get('run')}".encode()
        hidden = hashlib.scrypt(secret, salt=salt, n=2**14, r=8, p=1, dklen=32).hex()
    text = json.dumps([shared, hidden], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _texts_of_sets(public: Dict[str, Any]) -> str:
    """Return what the run's sets of secrets say, if that is part of the run."""
    if not public.get("restart_on_secret_change"):
        return ""
    folder = Path(public.get("paths", {}).get("secrets", Paths.secrets))
    parts = []
    for name in public.get("secrets") or []:
        try:
            found = as_user.read_plain(str(folder / f"{name}.env")) or b""
            parts.append(found.decode("utf-8", "surrogateescape"))
        except (OSError, as_user.UserError) as error:
            # The owner may have made it anything; the program of the secrets says why none starts.
            parts.append(str(error))
    return json.dumps(parts)


def parse(public: Dict[str, Any], env: Dict[str, str], sets: str = "", key: str = "") -> Config:
    """Turn the two files' contents into a Config."""
    run = str(public["run"])
    paths = public.get("paths", {})
    log = public.get("log", {})
    return Config(
        run=run,
        definition=definition_of(public, env, sets),
        user=str(public["user"]),
        command=str(public["command"]),
        workdir=str(public["workdir"]),
        hosts=[str(host) for host in public["hosts"]],
        worker=int(public["worker"]),
        # A definition of an earlier version has the one port.
        peer_port=int(public.get("peer_port") or public["port"]),
        coordinator_port=int(public["coordinator_port"]),
        paths=Paths(
            state=Path(paths.get("state", f"/var/lib/tpu-fleet/runs/{run}")),
            runtime=Path(paths.get("runtime", f"/run/tpu-fleet/runs/{run}")),
            log=Path(paths.get("log", f"/var/log/tpu-fleet/runs/{run}/run.log")),
            secrets=Path(paths.get("secrets", Paths.secrets)),
            secrets_program=Path(paths.get("secrets_program", Paths.secrets_program)),
            queue=Path(paths.get("queue", Paths.queue)),
            records=Path(paths.get("records", Paths.records)),
            root=Path(paths.get("root", Paths.root)),
        ),
        slice=str(public.get("slice") or ""),
        venv=public.get("venv") or None,
        checkpoint_dir=str(public.get("checkpoint_dir", "")),
        retries=int(public.get("retries", 3)),
        fail_fast_seconds=float(public.get("fail_fast_seconds", 3600)),
        stop_signal=str(public.get("stop_signal", "SIGTERM")),
        grace_seconds=float(public.get("grace_seconds", 30)),
        multislice=dict(public.get("multislice") or {}),
        slices=[[str(host) for host in hosts] for hosts in public.get("slices") or []],
        megascale_port=int(public.get("megascale_port", 8080)),
        env={str(key): str(value) for key, value in env.items()},
        secrets=[str(name) for name in public.get("secrets") or []],
        restart_on_secret_change=bool(public.get("restart_on_secret_change")),
        timing=Timing(**public.get("timing", {})),
        log_bytes=int(log.get("bytes", Config.log_bytes)),
        log_files=int(log.get("files", Config.log_files)),
        code=str((public.get("code") or {}).get("tree") or ""),
        hang_seconds=float(public.get("hang_seconds", 0)),
        step_pattern=str(public.get("step_pattern") or STEP_PATTERN),
        no_retry_exit_codes=[int(code) for code in public.get("no_retry_exit_codes") or []],
        needs_tpu=str(public.get("needs_tpu", "auto")).lower(),
        min_free_bytes=int(public.get("min_free_bytes", Config.min_free_bytes)),
        checkpoint_signal=str(public.get("checkpoint_signal") or ""),
        checkpoint_command=str(public.get("checkpoint_command") or ""),
        checkpoint_lead_seconds=float(public.get("checkpoint_lead_seconds", 120)),
        metadata=str(public.get("metadata") or ""),
        fence=str(public.get("fence") or run),
        position=int(public.get("position", 0)),
        key=key,
    )


def load(path: Path, secrets: bool = True) -> Config:
    """Read `<run>.json` and, beside it, `<run>.env.json` and `<run>.key`, which only root can."""
    public = json.loads(path.read_text(encoding="utf-8"))
    secret = path.with_suffix(".env.json")
    env = {}
    if secrets and secret.exists():
        env = json.loads(secret.read_text(encoding="utf-8"))
    if not secrets:
        return parse(public, env)
    return parse(public, env, _texts_of_sets(public), read_key(path.with_suffix(".key")))
