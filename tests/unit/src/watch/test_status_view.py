"""What `tpu-fleet watch status` says in its first lines."""

from __future__ import annotations

import pytest

from tpu_fleet.watch.service import Service
from tpu_fleet.watch.status_view import JUST_STARTED, headline, service_line

WROTE = "No watcher runs here. The last one wrote this status 12 s ago. "
UNIT = "tpu-fleet-watch-abc.service"
LOG = f"Its log: journalctl --user -u {UNIT}"


@pytest.mark.parametrize(
    ("service", "says"),
    [
        (None, "Start it: tpu-fleet watch install"),
        (Service(UNIT, "activating", 0), f"systemd starts it again within a minute. {LOG}"),
        (
            Service(UNIT, "failed", 0),
            f"Its service is failed. Start it: systemctl --user restart {UNIT}. {LOG}",
        ),
        (Service(UNIT, "", 0), f"Its service is installed, and systemd does not answer. {LOG}"),
    ],
)
def test_of_a_watcher_that_died_the_next_command_is_named(
    service: Service | None, says: str
) -> None:
    assert headline({"now": 100.0}, False, 112.0, service) == WROTE + says


def test_a_status_of_the_watcher_before_is_not_of_the_one_that_runs() -> None:
    status = {"now": 100.0, "pid": 9, "works": True, "began": 50.0, "looked_at": 99.0}
    assert headline(status, True, 112.0, is_new=True) == JUST_STARTED
    assert headline({**status, "slices": [1]}, True, 112.0, is_new=True).endswith("one before.")
    # Its process is there, and has not begun.
    assert headline(status, False, 112.0, Service(UNIT, "active", 10)) == JUST_STARTED
    assert headline(status, True, 112.0) == "Watching as process 9 for 1 min; last poll 13 s ago."


def test_what_the_watcher_is_to_systemd() -> None:
    begin = f"It is {UNIT}, which starts at every boot."
    service = Service(UNIT, "active", 9)
    assert service_line(service, 9, lingers=True) == begin
    assert service_line(service, 9, lingers=False).startswith(f"{begin} It ends when you log out.")
    assert service_line(service, 8, lingers=True) == f"It is not {UNIT}, which is active."
    assert service_line(None, 9, lingers=None) == ""
