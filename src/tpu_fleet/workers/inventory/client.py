"""A client of Google's APIs, as the fleet file declares it."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._ansible.api_module import client_from
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import DECLARED
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.modules.fleet_info import DOCUMENTATION
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory


def client_of(inventory: Inventory) -> Client:
    """Return a client with the project, endpoints and credentials of a fleet file."""
    return client_from(inventory.params(DOCUMENTATION, DECLARED))
