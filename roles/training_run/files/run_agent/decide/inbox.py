"""The workers' last reports, as the leader has them: none is overtaken by an older one."""

from __future__ import annotations

from .gang_state import GATHERING, Gang, Policy, Report


class Inbox:
    """Keeps each worker's last report and when it came, by the leader's own clock."""

    def __init__(self, policy: Policy, now: float) -> None:
        self._policy = policy
        self._begun = now
        self._reports: dict[int, tuple[Report, float]] = {}

    def take(self, report: Report, now: float) -> None:
        """Keep a report, unless a later one of the same boot is here already."""
        known = self._reports.get(report.worker)
        late = known and known[0].boot_id == report.boot_id and known[0].sent > report.sent
        if not late:
            self._reports[report.worker] = (report, now)

    def young(self, now: float) -> bool:
        """Say whether the leader has only just come back."""
        return now - self._begun <= self._policy.lost_seconds

    def seen(self, gang: Gang, now: float) -> dict[int, tuple[Report, float]]:
        """Return the reports with their ages."""
        ages = {worker: (report, now - came) for worker, (report, came) in self._reports.items()}
        # A leader that has just come back gives its peers time to report.
        if gang.phase != GATHERING and self.young(now):
            for worker in range(self._policy.workers):
                if worker not in ages:
                    ages[worker] = (_unheard(worker, gang, self._policy), 0.0)
        return ages


def _unheard(worker: int, gang: Gang, policy: Policy) -> Report:
    return Report(
        worker=worker,
        boot_id=gang.boots.get(str(worker), ""),
        definition=policy.definition,
        last_started=gang.attempt,
        program="running",
    )
