"""The options of a watcher."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The options of a watcher, as the command line has them."""

    interval: float = 10.0
    hosts_interval: float = 300.0
    playbooks: int = 4
    lease: float = 900.0
    page: str = ""
    """Where the fleet's page is published; empty for nowhere."""
    no_logs: bool = False
    """Whether that page lacks the lines of programs' logs."""

    def words(self) -> list[str]:
        """Return them as words of a command line."""
        words = [f"--interval={self.interval:g}", f"--hosts-interval={self.hosts_interval:g}"]
        words += [f"--playbooks={self.playbooks}", f"--lease={self.lease:g}"]
        words += [f"--page={self.page}"] if self.page else []
        return words + (["--no-logs"] if self.no_logs else [])
