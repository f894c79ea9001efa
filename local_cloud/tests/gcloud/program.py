"""gcloud, as the tests of this folder run it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Runs gcloud with these words, and returns what it printed.
Run = Callable[..., str]


@dataclass(frozen=True)
class Gcloud:
    """The program, and the environment that points it at the cloud."""

    program: str
    env: Mapping[str, str]

    def run(self, *words: str, **more: str | None) -> subprocess.CompletedProcess[str]:
        """Run it, with more variables in its environment, or fewer where one is None."""
        env = {name: value for name, value in {**self.env, **more}.items() if value is not None}
        return subprocess.run(
            [self.program, *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
