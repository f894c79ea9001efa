# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the host keys that machines publish into known_hosts files and ssh arguments.

A key is filed under an alias made of the node's uid and the worker's number, never under an
address: addresses move between machines, a uid does not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

NAMESPACE = "hostkeys"
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
POLICY_VERIFY = "verify"
POLICY_ACCEPT_NEW = "accept_new"
_STRICT = {POLICY_VERIFY: "yes", POLICY_ACCEPT_NEW: "accept-new"}


def alias(uid: str, worker: int) -> str:
    """Name under which ssh looks up the keys of a worker."""
    return f"tpu.{_token(uid)}.{worker}"


def published_keys(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Pick the valid host keys (type to base64) out of one worker's guest attributes."""
    keys: dict[str, str] = {}
    for item in _items(attributes):
        kind, words = str(item.get("key", "")), str(item.get("value", "")).split()
        if (
            item.get("namespace") == NAMESPACE
            and kind in KEY_TYPES
            and words
            and _is_key(kind, words[0])
        ):
            keys[kind] = words[0]
    return keys


def instance_name(attributes: Mapping[str, Any]) -> str | None:
    """Find the name of the Compute Engine instance behind a worker, which tunnels ask for."""
    for item in _items(attributes):
        value = str(item.get("value", "")).strip()
        if item.get("key") == "hostname" and re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", value):
            return value
    return None


def known_hosts_lines(uid: str, keys_by_worker: Sequence[Mapping[str, str]]) -> list[str]:
    """Write the keys of all workers of a node as known_hosts lines."""
    return [
        f"{alias(uid, worker)} {kind} {keys[kind]}"
        for worker, keys in enumerate(keys_by_worker)
        for kind in KEY_TYPES
        if kind in keys
    ]


def known_hosts_path(directory: Path, uid: str) -> Path:
    """Return the known_hosts file of a node."""
    return directory / _token(uid)


def write_known_hosts(path: Path, lines: Sequence[str]) -> bool:
    """Write a private known_hosts file in one step; return whether it changed."""
    content = "".join(f"{line}\n" for line in lines).encode()
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file 0600, and the rename replaces the old one as a whole.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise
    return True


def ssh_options(
    uid: str, worker: int, known_hosts: Path, policy: str, proxy_command: str | None = None
) -> dict[str, str]:
    """Return the lines of an ssh configuration that verify a worker."""
    # ssh expands percent signs in both, and splits a list of files at spaces.
    file = str(known_hosts).replace("%", "%%")
    options = {
        "HostKeyAlias": alias(uid, worker),
        "UserKnownHostsFile": f'"{file}"' if " " in file else file,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": _STRICT[policy],
        "HashKnownHosts": "no",
        "CheckHostIP": "no",
        "UpdateHostKeys": "no",
    }
    if proxy_command:
        options["ProxyCommand"] = proxy_command
    return options


def ssh_arguments(options: dict[str, str]) -> str:
    """Build ansible_ssh_common_args from ssh options."""
    return " ".join(_argument(name, value) for name, value in options.items())


# Most of them are the same for all workers.
@lru_cache(maxsize=256)
def _argument(name: str, value: str) -> str:
    return f"-o {shlex.quote(f'{name}={value}')}"


def control_path(uid: str, worker: int, address: str) -> str:
    """Name the socket of a shared connection so that it belongs to one machine at one address.

    Ansible's own name is made of the address alone: after two machines swapped addresses, an
    open connection would still lead to the wrong one, without any key check.
    """
    digest = hashlib.sha256(f"{alias(uid, worker)}@{address}".encode()).hexdigest()[:10]
    return f"%(directory)s/{digest}-%%r"


def iap_proxy_command(instance: str, project: str, zone: str) -> str:
    """Build the tunnel command through Identity-Aware Proxy, as gcloud's own ssh does."""
    words = ["gcloud", "alpha", "compute", "start-iap-tunnel", instance, "%p"]
    words += ["--listen-on-stdin", f"--project={project}", f"--zone={zone}", "--verbosity=warning"]
    return " ".join(word if word == "%p" else _percent_safe(word) for word in words)


def _percent_safe(word: str) -> str:
    return shlex.quote(word.replace("%", "%%"))


def _items(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    value = attributes.get("queryValue") or {}
    items = value.get("items") if isinstance(value, Mapping) else None
    return [item for item in items or [] if isinstance(item, Mapping)]


def _is_key(kind: str, encoded: str) -> bool:
    """Check that the base64 text holds a key of the type that it is filed under."""
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    name = kind.encode()
    return blob.startswith(len(name).to_bytes(4, "big") + name) and len(blob) > len(name) + 8


@lru_cache(maxsize=256)
def _token(uid: str) -> str:
    """Return the uid as one word that is safe in a file name and a known_hosts line."""
    if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", uid):
        return uid
    return "x" + hashlib.sha256(uid.encode()).hexdigest()[:32]
