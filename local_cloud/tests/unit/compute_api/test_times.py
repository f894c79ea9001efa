"""Times as Compute Engine writes them."""

from __future__ import annotations

from tpu_local_cloud.compute_api import times


def test_a_time_has_its_distance_to_utc() -> None:
    assert times.shown(1_900_000_000.1234) == "2030-03-17T09:46:40.123-08:00"
    assert times.of_stamp("2030-03-17T17:46:40.123400000Z") == "2030-03-17T09:46:40.123-08:00"
    assert times.of_stamp("") == ""
