"""Modules take their options from their documentation, which says what the code goes by."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._ansible.options import spec_of
from ansible_collections.tpu.fleet.plugins.module_utils._compute import firewall_plan, slice_bodies
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import DEFAULT_OWNER
from ansible_collections.tpu.fleet.plugins.module_utils._google import service_account_plan
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import ALL_ZONES
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import (
    TIERS,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_spec import QUEUED_TIERS

TEXT = """
options:
  name: {description: Its name., type: str, required: true}
  parts:
    description: Its parts.
    type: list
    elements: dict
    default: []
    suboptions:
      size: {description: Of one., type: int, choices: [1, 2], default: 1}
  token: {description: A secret., type: str}
"""


def test_options_and_what_is_not_documented() -> None:
    assert spec_of(TEXT, {"token": {"no_log": True}, "zone": {"type": "str"}}) == {
        "name": {"type": "str", "required": True},
        "parts": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {"size": {"type": "int", "choices": [1, 2], "default": 1}},
        },
        "token": {"type": "str", "no_log": True},
        "zone": {"type": "str"},
    }


def test_options_of_fragments() -> None:
    spec = spec_of("extends_documentation_fragment: [tpu.fleet.gcp, tpu.fleet.attributes]\n" + TEXT)
    assert spec["access_token"]["no_log"] is True
    assert "fallback" in spec["project"]
    assert spec["name"]["required"] is True


def test_a_later_mapping_adds_to_a_documented_option() -> None:
    assert spec_of(TEXT, {"name": {"fallback": ("env", ["NAME"])}})["name"] == {
        "type": "str",
        "required": True,
        "fallback": ("env", ["NAME"]),
    }


@pytest.mark.parametrize(
    ("module", "path", "value"),
    [
        ("firewall_rule", "name.default", firewall_plan.DEFAULT_NAME),
        ("firewall_rule", "ports.default", firewall_plan.ALL_PORTS),
        ("fleet_info", "owner.default", DEFAULT_OWNER),
        ("queued_resource", "tier.choices", list(QUEUED_TIERS)),
        ("queued_resource_info", "tiers.choices", list(QUEUED_TIERS)),
        ("queued_resource_info", "zone.default", ALL_ZONES),
        ("service_account", "account_id.default", service_account_plan.DEFAULT_ID),
        ("service_account", "roles.default", list(service_account_plan.LEAST_ROLES)),
        (
            "service_account",
            "buckets.options.access.choices",
            list(service_account_plan.BUCKET_ROLES),
        ),
        ("tpu_instance", "tier.choices", list(slice_bodies.TIERS)),
        ("tpu_instance_info", "zone.default", ALL_ZONES),
        ("tpu_slice", "tier.choices", list(slice_bodies.TIERS)),
        ("tpu_vm", "tier.choices", list(TIERS)),
        ("tpu_vm_info", "zone.default", ALL_ZONES),
    ],
)
def test_documented_values_are_those_of_the_code(module: str, path: str, value: Any) -> None:
    found = importlib.import_module(f"ansible_collections.tpu.fleet.plugins.modules.{module}")
    at: Any = spec_of(found.DOCUMENTATION)
    for name in path.split("."):
        at = at[name]
    assert at == value
