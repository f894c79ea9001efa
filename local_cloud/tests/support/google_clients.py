"""Google's own clients, pointed at a local cloud."""

from __future__ import annotations

from typing import Any

import grpc
from emulator import Emulator
from google.auth.credentials import AnonymousCredentials, Credentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from googleapiclient.discovery import build

PARENT = f"projects/{Emulator.project}/locations/{Emulator.zone}"
EVERYWHERE = f"projects/{Emulator.project}/locations/-"
NAME = f"{PARENT}/nodes/n1"
QUEUED = f"{PARENT}/queuedResources/q1"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
QUEUE_BODY = {"spot": {}, "tpu": {"nodeSpec": [{"parent": PARENT, "nodeId": "n1", "node": BODY}]}}


class Renewable(Credentials):  # type: ignore[misc]
    """Credentials that get another token whenever they are asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed = 0
        self.token = "token-0"

    def refresh(self, request: Any) -> None:
        """Get another token."""
        self.renewed += 1
        self.token = f"token-{self.renewed}"


def tpu_client(
    cloud: Emulator, credentials: Credentials | None = None, transport: str = "rest"
) -> tpu_v2.TpuClient:
    """Return the client of google-cloud-tpu, over REST or gRPC."""
    if transport == "grpc":
        # As TLS is, but for connections that stay on the computer: credentials are sent.
        channel = TpuGrpcTransport.create_channel(
            cloud.server.grpc_endpoint,
            credentials=credentials or AnonymousCredentials(),
            ssl_credentials=grpc.local_channel_credentials(),
        )
        return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
    return tpu_v2.TpuClient(
        transport="rest",
        credentials=credentials or AnonymousCredentials(),
        client_options={"api_endpoint": cloud.url.rstrip("/")},
    )


def discovered(cloud: Emulator, version: str = "v2") -> Any:
    """Return the locations of the generic client, built from its own discovery document."""
    service = build(
        "tpu",
        version,
        credentials=Renewable(),
        client_options={"api_endpoint": cloud.url},
        static_discovery=True,
    )
    return service.projects().locations()


def discovered_compute(cloud: Emulator) -> Any:
    """Return the generic client of Compute Engine, built from its own discovery document."""
    return build(
        "compute",
        "v1",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"{cloud.url}compute/v1/"},
        static_discovery=True,
    )


def wanted(accelerator_type: str = "v4-8") -> tpu_v2.Node:
    """Return a node to ask for."""
    return tpu_v2.Node(
        accelerator_type=accelerator_type,
        runtime_version="tpu-ubuntu2204-base",
        network_config=tpu_v2.NetworkConfig(network="default", enable_external_ips=True),
        metadata={"foo": "bar"},
        labels={"a": "b"},
    )


def request_of(node_id: str = "n1", count: int = 0) -> tpu_v2.QueuedResource:
    """Return a queued resource to ask for: of one node, or of several."""
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=PARENT, node=wanted())
    if count:
        spec.multislice_params = {"node_count": count, "node_id_prefix": node_id}
    else:
        spec.node_id = node_id
    return tpu_v2.QueuedResource(
        spot=tpu_v2.QueuedResource.Spot(), tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec])
    )
