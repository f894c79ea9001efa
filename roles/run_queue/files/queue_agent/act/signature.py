"""Verify the signature under a definition: ssh-keygen compares it with the keys of fleet_users."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from run_agent.act.as_user import PATH
from run_agent.decide.values import one_line

from ..shared._queue.objects import Signed

NAMESPACE = "tpu-fleet-queue"
_PROGRAM = "/usr/bin/ssh-keygen"
_SECONDS = 20.0


def trouble(signed: Signed, person: str, signers: Path) -> str:
    """Return why this is no signature of a person under a text; empty if it is one."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="tpu-fleet-") as signature:
        signature.write(signed.signature)
        signature.flush()
        who = ["-f", str(signers), "-I", person, "-n", NAMESPACE]
        return _said(["-Y", "verify", *who, "-s", signature.name], signed.signed)


def _said(words: list[str], text: str) -> str:
    try:
        done = subprocess.run(
            [_PROGRAM, *words],
            input=text.encode("utf-8"),
            capture_output=True,
            env={"PATH": PATH},
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"ssh-keygen: {type(error).__name__}"
    if done.returncode == 0:
        return ""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1] if lines else "it is not valid", 100)
