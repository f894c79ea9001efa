"""marin-iris against a local cloud, in an environment of its own: see `scripts/test-clients`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import google.auth
import grpc
import httpx
from cloud_of_clients import GRPC_PORT, PORT, LocalCloud, Redirect, cloud, served
from google.auth.credentials import Credentials
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcTransport
from iris.cluster.platforms.gcp.cloud import CloudGcpService

__all__ = ["cloud", "redirection", "served", "service"]


class Renewable(Credentials):  # type: ignore[misc]
    """Credentials with a token that never ends."""

    def refresh(self, request: Any) -> None:
        """Get the same token."""
        self.token = "token"


class ToLocalCloud(httpx.HTTPTransport):
    """Leads to the local cloud what is for Google."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        assert request.url.host.endswith(".googleapis.com")
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=PORT)
        request.headers["Host"] = f"127.0.0.1:{PORT}"
        return super().handle_request(request)


def create_channel(_cls: Any, host: str, **_: Any) -> grpc.Channel:
    assert host.endswith(".googleapis.com:443")
    return grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}")


def redirect(patch: pytest.MonkeyPatch) -> None:
    """Lead to the local cloud what this program asks Google by gRPC, with credentials."""
    patch.setattr(google.auth, "default", lambda *_, **__: (Renewable(), LocalCloud.project))
    patch.setattr(TpuGrpcTransport, "create_channel", classmethod(create_channel))


@pytest.fixture(scope="session")
def redirection() -> Redirect:
    return redirect


@pytest.fixture
def service(cloud: LocalCloud) -> Iterator[CloudGcpService]:
    service = CloudGcpService(cloud.project, httpx.Client(transport=ToLocalCloud(), timeout=60))
    yield service
    service.shutdown()
