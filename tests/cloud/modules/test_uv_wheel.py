"""uv, out of its wheel at an index made up for the test."""

from __future__ import annotations

import hashlib
import io
import platform
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import Failed
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import uv_wheel
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import (
    is_away,
    is_no_name,
)
from package_index import Index, serve

VERSION = "9.9.9"
FILE = f"uv-{VERSION}-py3-none-manylinux_2_17_{platform.machine()}.manylinux2014.whl"
PROGRAM = b"#!/bin/sh\necho uv 9.9.9\n"


def wheel(program: bytes = PROGRAM) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"uv-{VERSION}.data/scripts/uv", program)
    return packed.getvalue()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """Offer uv for this machine and for another one."""
    offered = Index()
    other = FILE.replace(platform.machine(), "sparc64")
    offered.files["uv"] = {other: b"for another machine", FILE: wheel()}
    monkeypatch.setitem(uv_wheel.HASHES, f"uv=={VERSION}", (hashlib.sha256(wheel()).hexdigest(),))
    server = serve(offered)
    offered.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    yield offered
    server.shutdown()
    server.server_close()


def test_the_wheel_of_this_machine_is_taken(index: Index) -> None:
    assert uv_wheel.program(VERSION, {"UV_DEFAULT_INDEX": index.url}) == PROGRAM
    assert index.files_asked() == [FILE]


def test_a_further_index_is_asked_first_and_the_default_where_it_has_none(index: Index) -> None:
    more = {"UV_INDEX": f"{index.url}-of-others", "UV_DEFAULT_INDEX": index.url}
    assert uv_wheel.program(VERSION, more) == PROGRAM
    assert index.asked[0] == "/simple-of-others/uv/"


def test_a_wheel_that_the_index_exchanged_is_refused(index: Index) -> None:
    index.files["uv"][FILE] = wheel(b"something else")
    with pytest.raises(Failed, match="does not have the hash that is known"):
        uv_wheel.program(VERSION, {"UV_DEFAULT_INDEX": index.url})


def test_of_another_version_the_hash_of_the_index_counts(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(uv_wheel.HASHES, f"uv=={VERSION}")
    assert uv_wheel.program(VERSION, {"UV_DEFAULT_INDEX": index.url}) == PROGRAM


def test_an_index_without_this_version_is_named(index: Index) -> None:
    with pytest.raises(Failed, match=rf"uv 9[.]8[.]7 for .* is not at {index.url}[.]"):
        uv_wheel.program("9.8.7", {"UV_DEFAULT_INDEX": index.url})


def test_logins_are_sent_and_not_shown(index: Index, tmp_path: Path) -> None:
    index.login = "robot:pass word"
    with pytest.raises(Failed, match="HTTP 401"):
        uv_wheel.program(VERSION, {"UV_DEFAULT_INDEX": index.url})
    netrc = tmp_path / "netrc"
    netrc.write_text('machine 127.0.0.1 login robot password "pass word"\n')
    known = {"UV_DEFAULT_INDEX": index.url, "NETRC": str(netrc)}
    assert uv_wheel.program(VERSION, known) == PROGRAM
    named = index.url.replace("//", "//robot:pass%20word@")
    assert uv_wheel.program(VERSION, {"UV_DEFAULT_INDEX": named}) == PROGRAM
    with pytest.raises(Failed) as refused:
        uv_wheel.program("9.8.7", {"UV_DEFAULT_INDEX": named})
    assert "pass" not in str(refused.value)


def test_an_index_that_is_away_is_asked_again_and_a_name_that_nobody_knows_is_not(
    index: Index,
) -> None:
    index.away = True
    for url, no_name in (
        (index.url, False),
        ("http://127.0.0.1:9/simple", False),
        ("http://index.invalid/simple", True),
    ):
        with pytest.raises(Failed) as refused:
            uv_wheel.program(VERSION, {"UV_DEFAULT_INDEX": url})
        assert is_away(str(refused.value)), url
        assert is_no_name(str(refused.value)) == no_name, url


def test_a_proxy_is_used_but_for_hosts_that_need_none(index: Index) -> None:
    through = {"UV_DEFAULT_INDEX": index.url, "http_proxy": "http://127.0.0.1:9"}
    with pytest.raises(Failed, match="could not connect"):
        uv_wheel.program(VERSION, through)
    assert uv_wheel.program(VERSION, {**through, "NO_PROXY": "127.0.0.1"}) == PROGRAM
