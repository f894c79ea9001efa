"""Where programs are led that ask Google: names of hosts, and credentials."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import google.auth
import grpc
import httplib2
import pytest
import requests
from cloud_of_clients import GRPC_PORT, PORT, LocalCloud
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from google.oauth2.credentials import Credentials


def there(url: str) -> str:
    """Return the address at the local cloud of one of Google's."""
    parts = urlsplit(url)
    if (parts.hostname or "").endswith(".googleapis.com"):
        return urlunsplit(("http", f"127.0.0.1:{PORT}", *parts[2:]))
    return url


def redirect(patch: pytest.MonkeyPatch) -> None:
    """Lead to the local cloud what is for Google, by whichever library it goes."""
    asked, sent = httplib2.Http.request, requests.adapters.HTTPAdapter.send

    def request(self: Any, uri: str, *rest: Any, **more: Any) -> Any:
        return asked(self, there(uri), *rest, **more)

    def send(self: Any, request: Any, **more: Any) -> Any:
        request.url = there(request.url)
        # libcloud names the host there as well.
        request.headers.pop("Host", None)
        return sent(self, request, **more)

    def create_channel(_cls: Any, host: str, **_: Any) -> grpc.Channel:
        assert host.endswith(".googleapis.com:443")
        return grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}")

    def default(*_: Any, **__: Any) -> tuple[Credentials, str]:
        return Credentials("token"), LocalCloud.project

    patch.setattr(httplib2.Http, "request", request)
    patch.setattr(requests.adapters.HTTPAdapter, "send", send)
    patch.setattr(TpuGrpcTransport, "create_channel", classmethod(create_channel))
    patch.setattr(google.auth, "default", default)
