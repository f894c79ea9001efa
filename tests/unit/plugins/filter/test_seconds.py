"""The filter that playbooks and roles use for durations."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.tpu.fleet.plugins.filter.seconds import seconds


def test_it_is_the_parser_of_the_fleet_file() -> None:
    assert seconds("1h30m") == 5400


def test_a_bare_number_is_refused_with_the_remedy() -> None:
    with pytest.raises(AnsibleFilterError, match=r"600 is not a duration. Write 600s, or"):
        seconds(600)
    with pytest.raises(AnsibleFilterError, match=r"^fleet_slice_timeout = '600' is not a duration"):
        seconds("600", "fleet_slice_timeout")
