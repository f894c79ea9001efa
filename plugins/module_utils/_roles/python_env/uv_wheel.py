# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install uv from its wheel, without pip and a venv. Private to tpu.fleet."""

from __future__ import annotations

import base64
import functools
import glob
import hashlib
import html
import http.client
import importlib
import io
import netrc
import platform
import re
import ssl
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from ..._host.pinned import HASHES
from ..._host.work import Failed

# Where Debian, Ubuntu and Python itself have pip, which knows the usual index.
PIPS = (
    "/usr/share/python-wheels/pip-*.whl",
    "/usr/lib/python3*/ensurepip/_bundled/pip-*.whl",
    "/usr/local/lib/python3*/ensurepip/_bundled/pip-*.whl",
)
# The longest wait for the next byte in seconds, and the largest answer in bytes.
SECONDS = 60.0
MOST_BYTES = 200_000_000
_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)


@functools.cache
def usual_index() -> str:
    """Return the index that pip uses by default; "" where there is no pip."""
    # Path.glob takes no absolute patterns.
    wheels = [found for pattern in PIPS for found in sorted(glob.glob(pattern))]  # noqa: PTH207
    before = list(sys.path)
    try:
        # What this Python has comes first.
        sys.path += wheels
        return str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)
    except ImportError:
        return ""
    finally:
        sys.path[:] = before


def program(version: str, environment: Mapping[str, str], usual: str = "") -> bytes:
    """Return the program uv for this machine; `usual` is the default index that is known.

    `environment` is what uv itself will get: indexes (UV_INDEX, UV_DEFAULT_INDEX), logins (NETRC),
    certificates (SSL_CERT_FILE) and proxies. The wheel's hash is pinned here; for another version
    than the pinned one, it is the hash that the index states.
    """
    default = environment.get("UV_DEFAULT_INDEX") or usual or usual_index()
    if not default:
        raise Failed("No index is known, and this host has no pip to ask. Set fleet_index_url.")
    indexes = [*environment.get("UV_INDEX", "").split(), default]
    for index in indexes:
        url = _wheel_at(index, version, environment)
        if url:
            return _unpacked(url, version, environment)
    raise Failed(
        f"uv {version} for {platform.machine()} is not at {', '.join(map(_shown, indexes))}."
    )


def _wheel_at(index: str, version: str, environment: Mapping[str, str]) -> str:
    """Return the URL of the wheel in an index; "" if it has none."""
    page = f"{index.rstrip('/')}/uv/"
    name = re.compile(
        rf"uv-{re.escape(version)}-py3-none-manylinux_[\w.]*_{platform.machine()}[\w.]*[.]whl"
    )
    listed = (_get(page, environment) or b"").decode("utf-8", "replace")
    for link in map(html.unescape, _LINK.findall(listed)):
        if name.fullmatch(unquote(urlsplit(link).path.rpartition("/")[2])):
            return urljoin(page, link)
    return ""


def _unpacked(url: str, version: str, environment: Mapping[str, str]) -> bytes:
    """Download the wheel, check it and return the program in it."""
    address, stated = urldefrag(url)
    wheel = _get(address, environment) or b""
    known = HASHES.get(f"uv=={version}") or tuple(re.findall(r"sha256=([0-9a-f]{64})", stated))
    if hashlib.sha256(wheel).hexdigest() not in known:
        raise Failed(
            f"{_shown(address)} does not have the hash that is known for it. Nothing was installed."
        )
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return archive.read(f"uv-{version}.data/scripts/uv")


def _get(url: str, environment: Mapping[str, str]) -> bytes | None:
    """Return the content at a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    request = urllib.request.Request(  # noqa: S310 - of an index that the fleet file names
        urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    )
    login = (parts.username, parts.password) if parts.username else _login(host, environment)
    if login:
        pair = ":".join(unquote(word or "") for word in login)
        # Unredirected, because the index may redirect to another host.
        request.add_unredirected_header(
            "Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"
        )
    proxies = {
        name.lower()[: -len("_proxy")]: value
        for name, value in environment.items()
        if name.lower().endswith("_proxy") and value
    }
    if urllib.request.proxy_bypass_environment(host, proxies):  # type: ignore[attr-defined]
        proxies = {}
    context = ssl.create_default_context(cafile=environment.get("SSL_CERT_FILE"))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            data = bytes(answer.read(MOST_BYTES + 1))
    except urllib.error.HTTPError as error:
        if error.code in (403, 404, 410):
            return None
        raise Failed(f"{_shown(url)}: HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise Failed(
            f"could not connect to {_shown(url)}: {type(error).__name__} {error}"
        ) from error
    if len(data) > MOST_BYTES:
        raise Failed(f"{_shown(url)} has more than {MOST_BYTES} bytes.")
    return data


def _login(host: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the login for a host, or None."""
    if not environment.get("NETRC"):
        return None
    found = netrc.netrc(environment["NETRC"]).authenticators(host)
    return (found[0], found[2] or "") if found else None


def _shown(url: str) -> str:
    """Return a URL without the login in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
