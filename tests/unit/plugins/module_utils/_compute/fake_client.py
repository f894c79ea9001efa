"""A client of slices whose requests go to an API in memory, and whose time is fake."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire.transport import Transport
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    FakeCompute,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    FakeSession,
    client_with,
)


class FakeApis(GoogleApis):
    """All APIs behind one session."""

    def __init__(self, client: Client, session: FakeSession) -> None:
        super().__init__(client)
        self._session = session

    def transport(self, name: str) -> Transport:
        """Return the transport of an API."""
        if name not in self._transports:
            retry = self._client.transport.retry
            endpoint = f"http://127.0.0.1:1/{name}/v1/"
            self._transports[name] = Transport(
                endpoint,
                lambda: self._session,
                self.clock,
                retry,  # type: ignore[arg-type, return-value]
            )
        return self._transports[name]


def slices_of(fake: FakeCompute) -> ComputeSlices:
    """Return a client of slices for an API in memory."""
    session = FakeSession(answer=fake)
    client, _clock = client_with(session)
    return ComputeSlices(client, FakeApis(client, session))
