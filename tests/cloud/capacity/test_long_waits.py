"""A wait that is longer than its token."""

from __future__ import annotations

import itertools

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier, Pace
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire.auth import TokenAuth, TokenSupplier
from emulator import Emulator


class Renewed(TokenSupplier):
    """Tokens as credentials give them: another one when the last was refused."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.given = next(self._numbers)

    def token(self) -> str:
        """Return the token that is thought to be valid."""
        return f"token-{self.given}"

    def renew(self) -> bool:
        """Take another."""
        self.given = next(self._numbers)
        return True


def test_a_wait_goes_on_when_its_token_ends(cloud: Emulator) -> None:
    cloud.control("auth", {"required": True})
    cloud.fault("token_expired", older_than=0.5)
    cloud.fault("stock_out", seconds=2)
    supplier, session = Renewed(), requests.Session()
    session.auth = TokenAuth(supplier)
    client = Client(cloud.project, endpoint=cloud.url, session=session)
    wanted = {
        "slices": [{"name": "big", "accelerator_type": "v4-8", "zone": cloud.zone}],
        "allocations": "unrestricted",
    }
    quick = Backoff(first=0.1, factor=1.0, most=0.1)
    applier = FleetApplier(
        TpuApi(client),
        Fleet.from_params(wanted, cloud.project),
        timeout=30,
        pace=Pace(poll=quick, again=quick),
    )
    result = applier.apply()
    assert result.slices["big"].phase == "ready"
    assert supplier.given > 2, "no token ended while it waited"
