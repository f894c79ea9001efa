"""Cloud Storage by its real name: TLS with the cloud's own authority, HTTP/1.1 and gRPC."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from emulator import Emulator

from tpu_local_cloud.serve.authority import STORAGE, papers
from tpu_local_cloud.serve.storage_grpc import METHOD


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Emulator]:
    with Emulator(tls_port=0, state_dir=str(tmp_path)) as emulator:
        yield emulator


class Named(http.client.HTTPSConnection):
    """A connection that finds a name at the cloud, as a machine's /etc/hosts would."""

    def __init__(self, cloud: Emulator, name: str) -> None:
        authority = str(cloud.server.authority)
        super().__init__(name, context=ssl.create_default_context(cafile=authority), timeout=30)
        self._port = cloud.server.tls_port

    def connect(self) -> None:
        """Connect to the cloud, and ask for its certificate by the name."""
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)  # type: ignore[attr-defined]


def ask(cloud: Emulator, name: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = Named(cloud, name)
    connection.request(method, path, body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_by_its_names(cloud: Emulator) -> None:
    status, body = ask(cloud, STORAGE, "POST", "/storage/v1/b?project=p", b'{"name": "lab"}')
    made = json.loads(body)
    assert (status, made["selfLink"]) == (200, f"https://{STORAGE}/storage/v1/b/lab")
    # A bucket may be the name, and the XML API needs no known bucket here.
    assert ask(cloud, f"lab.{STORAGE}", "PUT", "/a/b", b"one")[0] == 200
    assert ask(cloud, STORAGE, "GET", "/lab/a/b") == (200, b"one")
    assert ask(cloud, "www.googleapis.com", "GET", "/storage/v1/b/lab/o/a%2Fb?alt=media") == (
        200, b"one"
    )  # fmt: skip
    status, body = ask(cloud, STORAGE, "GET", "/none/a")
    assert (status, b"<Code>NoSuchBucket</Code>" in body) == (404, True)
    assert ask(cloud, "localhost", "GET", "/storage/v1/b")[0] == 200


def test_other_names_are_refused(cloud: Emulator) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(cloud, "rebound.evil.example", "GET", "/storage/v1/b")
    context = ssl.create_default_context(cafile=str(cloud.server.authority))
    context.check_hostname = False
    plain = socket.create_connection(("127.0.0.1", cloud.server.tls_port), timeout=30)
    with context.wrap_socket(plain) as connection:
        connection.sendall(b"GET /storage/v1/b HTTP/1.1\r\nHost: rebound.evil.example\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 403")


def layout(cloud: Emulator, bucket: str) -> Any:
    roots = cloud.server.authority.read_bytes()
    named = [("grpc.ssl_target_name_override", STORAGE)]
    credentials = grpc.ssl_channel_credentials(roots)
    target = f"127.0.0.1:{cloud.server.tls_port}"
    with grpc.secure_channel(target, credentials, options=named) as channel:
        name = f"projects/_/buckets/{bucket}/storageLayout".encode()
        request = bytes([10, len(name)]) + name
        return channel.unary_unary(METHOD)(request, timeout=30)


def test_the_method_that_gcsfs_asks_first(cloud: Emulator) -> None:
    body = json.dumps({"name": "lab", "location": "us-central2"}).encode()
    ask(cloud, STORAGE, "POST", "/storage/v1/b?project=p", body)
    begun = time.monotonic()
    answer = layout(cloud, "lab")
    assert time.monotonic() - begun < 2
    # name, location, type, and a hierarchy that is not enabled, as protobuf writes them.
    texts = [b"projects/_/buckets/lab/storageLayout", b"US-CENTRAL2", b"region"]
    fields = [bytes([8 * n + 10, len(text)]) + text for n, text in enumerate(texts)]
    assert answer == b"".join(fields) + bytes([42, 0])
    with pytest.raises(grpc.RpcError) as refused:
        layout(cloud, "none")
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_the_authority_is_made_once(cloud: Emulator, tmp_path: Path) -> None:
    assert cloud.server.authority == tmp_path / "tls/ca.pem"
    before = cloud.server.authority.read_bytes()
    cloud.stop()
    cloud.start()
    assert cloud.server.authority.read_bytes() == before
    files = papers(tmp_path / "tls")
    assert files.key.stat().st_mode & 0o777 == 0o600
    # No other name can be signed: the authority's key is not kept.
    assert {path.name for path in files.folder.iterdir()} == {
        "ca.pem", "server.pem", "server.key"
    }  # fmt: skip
    assert os.access(files.authority, os.R_OK)
