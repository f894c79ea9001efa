"""What a controller gives the workers of a run to know each other by, and where they meet."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.filter.gang_keys import gang_keys
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.gangs import (
    PAIRS_OF_PORTS,
    gang_ports,
    port_numbers,
)

ALONE = {"name": "alone", "slices": ["a", "b"]}
BIG = {"name": "big", "slices": ["a", "b"], "multislice": True}


def test_every_gang_has_a_key_of_its_own() -> None:
    on_a, on_b = (gang_keys([ALONE, BIG], name, "secret") for name in ("a", "b"))
    assert on_a["alone"] != on_b["alone"]
    assert on_a["big"] == on_b["big"]
    assert len({*on_a.values(), *on_b.values()}) == 3
    assert all(len(key) == 64 and int(key, 16) for key in on_a.values())
    assert gang_keys([ALONE, BIG], "c", "secret") == {}
    assert gang_keys([ALONE], "a", "") == {}
    assert gang_keys([ALONE], "a", "another")["alone"] != on_a["alone"]
    assert "secret" not in repr(on_a)


@pytest.mark.parametrize("count", [1, 5, 20])
def test_runs_that_are_led_on_one_slice_have_different_ports(count: int) -> None:
    runs: list[dict[str, Any]] = [{"name": f"r{n}", "slices": ["a"]} for n in range(count)]
    ports = gang_ports(runs, 288)
    assert len(set(ports.values())) == count
    assert all(288 <= port < 308 for port in ports.values())
    # Who is declared later takes nobody's port.
    more = gang_ports([*runs, {"name": "new", "slices": ["a"]}], 288)
    assert {name: more[name] for name in ports} == ports


def test_a_port_that_is_given_is_kept_for_its_run() -> None:
    wanted = gang_ports([ALONE], 288)["alone"]
    other = {"name": "other", "slices": ["b"], "peer_port": wanted}
    ports = gang_ports([ALONE, other], 288)
    assert ports["other"] == wanted != ports["alone"]
    # A gang over several slices is led on its first one only.
    assert gang_ports([BIG, {**other, "slices": ["b"]}], 288)["other"] == wanted
    assert len(gang_ports([{"name": f"r{n}", "slices": ["a"]} for n in range(99)], 288)) == 99


def test_programs_of_runs_on_one_slice_have_ports_of_their_own() -> None:
    # Both names have the same hash.
    same = [{"name": name, "slices": ["a"]} for name in ("blocked-port", "other-version")]
    numbers = port_numbers(same)
    assert len(set(numbers.values())) == 2
    first = numbers["blocked-port"]
    assert numbers["other-version"] == (first + 1) % PAIRS_OF_PORTS
    # On another slice it has the number of its name, as one that is declared before all others.
    apart = [same[0], {**same[1], "slices": ["b"]}]
    assert set(port_numbers(apart).values()) == {first}
    assert port_numbers([*same, {"name": "new", "slices": ["a"]}])["other-version"] == first + 1
