"""Whether a template becomes the same on two hosts, without evaluating it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.variables import made_of

HOST = {
    "inventory_hostname": "pod-w0",
    "key": "{{ lookup('env', 'KEY') | expanduser }}",
    "public": "{{ key }}.pub",
    "mine": "{{ inventory_hostname }}",
    "other": 1,
}


@pytest.mark.parametrize(
    ("value", "more", "same"),
    [
        ("{{ key }}", {}, True),
        ("{{ key }}", {"inventory_hostname": "pod-w1", "other": 2}, True),
        ("{{ public }}", {"key": "~/.ssh/another"}, False),
        (["a", {"b": "{{ public }}"}], {"key": "~/.ssh/another"}, False),
        ("{{ mine }}", {"inventory_hostname": "pod-w1"}, False),
        ("{{ hostvars['pod-w9'].x }}", {"hostvars": object(), "groups": {}}, True),
        ("{{ hostvars[inventory_hostname].x }}", {"inventory_hostname": "pod-w1"}, False),
        ("{{ 3 | string }}", {"other": 2}, True),
        ("{{ hostvars['pod-w9'].other }}", {"other": 2}, True),
        ("{{ key.other ~ other }}", {"other": 2}, False),
        ("{{ '3' }}", {"other": 2}, True),
    ],
)
def test_made_of_the_same(value: Any, more: dict[str, Any], same: bool) -> None:
    before = made_of(value, {**HOST, "hostvars": object(), "groups": {"all": []}})
    assert before is not None
    assert (made_of(value, {**HOST, "hostvars": object(), "groups": {}, **more}) == before) is same


def test_texts_and_numbers_are_not_the_same() -> None:
    assert made_of("{{ other }}", HOST) != made_of("{{ other }}", {**HOST, "other": "1"})


@pytest.mark.parametrize(
    "value",
    ["{{ 9 | random }}", "{{ lookup('vars', 'x') }}", "{{ [1, 2] | shuffle }}", "{{ vars.x }}"],
)
def test_some_are_never_the_same(value: str) -> None:
    assert made_of(value, HOST) is None
    assert made_of("{{ it }}", {**HOST, "it": value}) is None
