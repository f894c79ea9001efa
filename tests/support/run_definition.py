"""Definitions of runs: what each has, one of a gang, one with secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

USUAL: dict[str, Any] = {
    "checkpoint_dir": "",
    "code": {"tree": "", "version": ""},
    "fail_fast_seconds": 3600,
    "grace_seconds": 30,
    "log": {"bytes": 52428800, "files": 5},
    "multislice": {},
    "retries": 3,
    "stop_signal": "SIGTERM",
    "timing": {"lost": 30},
}
PUBLIC: dict[str, Any] = {
    **USUAL,
    "run": "demo",
    "user": "alice",
    "command": "python train.py",
    "workdir": "/code",
    "slice": "pair",
    "hosts": ["10.0.0.2", "10.0.0.3"],
    "worker": 1,
    "port": 21000,
    "peer_port": 288,
    "coordinator_port": 21001,
    "venv": "/opt/venvs/jax",
    "checkpoint_dir": "/ck",
    "code": {"tree": "digits", "version": "abc"},
}


def with_sets(tmp_path: Path, **more: Any) -> tuple[Path, Path]:
    """Write a definition that names a set, and a program that hands secrets out."""
    (tmp_path / "own.env").write_text('A="1"\n')
    program = tmp_path / "program.py"
    program.write_text("import sys; print('{\"A\": \"%s\"}' % ' '.join(sys.argv[1:]))")
    paths = {"secrets": str(tmp_path), "secrets_program": str(program)}
    path = tmp_path / "demo.json"
    path.write_text(json.dumps({**PUBLIC, "secrets": ["own"], "paths": paths, **more}))
    return path, program
