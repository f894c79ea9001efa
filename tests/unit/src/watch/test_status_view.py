"""What `tpu-fleet watch status` says in its first line."""

from __future__ import annotations

from tpu_fleet.watch.status_view import headline


def test_of_a_watcher_that_died_the_next_command_is_named() -> None:
    assert headline({"now": 100.0}, False, 112.0) == (
        "No watcher runs here. The last one wrote this status 12 s ago. Start it: "
        "tpu-fleet watch install"
    )
