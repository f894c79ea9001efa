"""Which networks a firewall rule may open, and which other rules are wider."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.firewall_plan import (
    narrow_network,
    wider_rules,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors


@pytest.mark.parametrize("text", ["203.0.113.7", "10.0.0.0/8", "2001:db8::/32", "2001:db8::7"])
def test_small_networks_are_taken(text: str) -> None:
    assert str(narrow_network(text)).startswith(text.partition("/")[0])


@pytest.mark.parametrize(
    "text", ["0.0.0.0/0", "::/0", "0.0.0.0/7", "2001::/31", "10.0.0.1/8", "x", ""]
)
def test_large_networks_and_nonsense_are_refused(text: str) -> None:
    with pytest.raises(_errors.BadRequest):
        narrow_network(text)


@pytest.mark.parametrize(
    ("rule", "wide"),
    [
        ({"allowed": [{"IPProtocol": "all"}]}, True),
        ({"allowed": [{"IPProtocol": "udp"}]}, True),
        ({"allowed": [{"IPProtocol": "17", "ports": ["60500"]}]}, True),
        ({"allowed": [{"IPProtocol": "udp", "ports": ["1-59999", "61000-65535"]}]}, True),
        ({"allowed": [{"IPProtocol": "udp", "ports": ["53"]}]}, False),
        ({"allowed": [{"IPProtocol": "tcp"}]}, False),
        ({"allowed": [{"IPProtocol": "all"}], "disabled": True}, False),
        ({"allowed": [{"IPProtocol": "all"}], "direction": "EGRESS"}, False),
        ({"allowed": [{"IPProtocol": "all"}], "network": "x/networks/other"}, False),
        ({"allowed": [{"IPProtocol": "all"}], "sourceRanges": ["10.0.0.0/8"]}, False),
        ({"denied": [{"IPProtocol": "all"}]}, False),
        ({"name": "mine", "allowed": [{"IPProtocol": "all"}]}, False),
    ],
)
def test_which_other_rules_are_wider(rule: dict[str, Any], wide: bool) -> None:
    full = {"name": "other", "network": "x/networks/default", "sourceRanges": ["0.0.0.0/0"], **rule}
    assert bool(wider_rules([full], "default", "mine")) is wide
