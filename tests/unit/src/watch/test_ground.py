"""What a watcher knows of the fleet file."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.watch.ground import Settings

SAID: dict[str, Any] = {
    "project": "p",
    "api_endpoint": "",
    "fleet": {
        "owner": "managed",
        "zone": None,
        "slices": [],
        "allocations": None,
        "warn_before": "7d",
        "prune": False,
        "self_setup": None,
        "marks": {},
        "ssh_keys": [],
    },
    "state_dir": "/state",
    "notify": [],
    "runs": [],
}


@pytest.mark.parametrize(
    ("shares", "names", "servers"),
    [
        ([{"slice": "files", "slices": ["pair"]}], ["pair"], {"files"}),
        ([{"slice": "files", "slices": ["pair"]}], ["solo"], set()),
        # One that names nobody is for everybody.
        ([{"slice": "files"}], ["solo", "pair"], {"files"}),
        ([{"slice": "files", "slices": []}], ["files"], set()),
        # A server that is none of ours.
        ([{"slices": ["pair"]}], ["pair"], set()),
        ([], ["pair"], set()),
    ],
)
def test_who_shares_folders_with_slices(
    shares: list[dict[str, Any]], names: list[str], servers: set[str]
) -> None:
    assert Settings.from_dict({**SAID, "shares": shares}).servers_of(names) == servers


def test_what_an_older_playbook_did_not_say_is_nothing() -> None:
    assert Settings.from_dict(SAID).servers_of(["pair"]) == set()
