# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for single values of the fleet file. Each returns the mistake, or None. No I/O."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

ZONE_SHAPE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")
NODE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
# Names that useradd of Debian and Ubuntu accepts without --badname.
USER_NAME = re.compile(r"[a-z_][a-z0-9_-]*\$?")
PROJECT_ID = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9]+")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,128}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Runs, shares, code trees and sets of secrets, which are also names of files.
ENTRY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
DEPLOY_KEY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
COMMIT = re.compile(r"[0-9a-f]{40}")
BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{1,220}[a-z0-9]")

ZONE_REMEDY = "Zones look like us-central2-b"
TYPE_REMEDY = "Types look like v4-8, v5litepod-16 or v6e-8"
OWN_LABEL_PREFIX = "tpu-fleet"
UID_MIN, UID_MAX = 1000, 60000

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
SYSTEM_USERS = frozenset(
    {
        "root",
        "daemon",
        "bin",
        "sys",
        "sync",
        "games",
        "man",
        "lp",
        "mail",
        "news",
        "uucp",
        "proxy",
        "www-data",
        "backup",
        "list",
        "irc",
        "gnats",
        "nobody",
        "_apt",
        "messagebus",
        "sshd",
        "tss",
        "syslog",
        "polkitd",
        "sssd",
        "systemd-coredump",
        "systemd-network",
        "systemd-resolve",
        "systemd-timesync",
    }
)


# Users in the images of TPU VMs, with numbers outside the fleet file.
IMAGE_USERS = frozenset({"ubuntu", "debian"})


def user_name(name: str) -> str | None:
    """Check a name by the rule of useradd."""
    if name in SYSTEM_USERS:
        return "belongs to the system of every machine"
    if len(name) > 32:
        return "is longer than the 32 characters that Linux allows"
    if not USER_NAME.fullmatch(name):
        return "is not a user name that Linux takes"
    return None


def number_id(value: int) -> str | None:
    """Check a uid or gid."""
    if not UID_MIN <= value <= UID_MAX:
        return f"is not between {UID_MIN} and {UID_MAX}"
    return None


def zone(name: str) -> str | None:
    """Check the shape of a zone's name."""
    if ZONE_SHAPE.fullmatch(name):
        return None
    if ZONE_SHAPE.fullmatch(f"{name}-a"):
        return "is a region, not a zone"
    return "is not the name of a zone"


def public_key(text: str) -> str | None:
    """Check an OpenSSH public key as ssh itself would read it."""
    if "PRIVATE KEY" in text:
        return "is a private key"
    if len(text.strip().splitlines()) != 1:
        return "must be exactly one line"
    words = text.split()
    if words[0] not in KEY_TYPES:
        return "does not begin with a key type"
    if len(words) < 2:
        return "has a type but no key"
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return "is cut or damaged (its middle part is not base64)"
    return _blob(words[0].encode(), blob)


def _blob(kind: bytes, blob: bytes) -> str | None:
    """Walk through the length-prefixed fields of a key, which must end exactly at its end."""
    fields, rest = [], blob
    while rest:
        size = int.from_bytes(rest[:4], "big")
        if len(rest) < 4 + size:
            return "is cut or damaged (it ends too early)"
        fields.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    if len(fields) < 2 or fields[0] != kind:
        return f"is damaged (it does not hold a key of type {kind.decode()})"
    if kind == b"ssh-ed25519" and len(fields[1]) != 32:
        return "is cut or damaged (an ed25519 key has 32 bytes)"
    return None


def labels(values: dict[Any, Any]) -> list[tuple[str, Any, str]]:
    """Check resource labels; return (key, value, what is wrong)."""
    wrong = []
    for key, value in values.items():
        if not isinstance(key, str) or not LABEL_KEY.fullmatch(key):
            wrong.append(
                (str(key), value, "is not a label key (a-z, 0-9, - and _, a letter first)")
            )
        elif key.startswith(OWN_LABEL_PREFIX):
            wrong.append((key, value, "is a label that tpu.fleet sets itself"))
        elif not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            wrong.append((key, value, "is not a label value (a text of a-z, 0-9, - and _)"))
    return wrong


def metadata(values: dict[Any, Any]) -> list[tuple[str, Any, str]]:
    """Check node metadata; return (key, value, what is wrong)."""
    wrong = []
    for key, value in values.items():
        if not isinstance(key, str) or not METADATA_KEY.fullmatch(key):
            wrong.append((str(key), value, "is not a metadata key (letters, digits, - and _)"))
        elif not isinstance(value, str):
            wrong.append((key, value, "must be a text"))
    return wrong


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false, or a text that Ansible takes for one of them."""
    words = ("true", "false", "yes", "no", "on", "off", "1", "0")
    return isinstance(value, bool) or str(value).lower() in words
