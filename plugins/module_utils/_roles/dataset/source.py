# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a data set comes from: the address in the fleet file, taken apart. No I/O.

The agent that stages data sets uses this file too, so it needs only the standard library.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

BUCKET, WEB, HUB = "bucket", "web", "hub"
_BUCKET = re.compile(r"gs://([a-z0-9_.-]+)(?:/(.*))?", re.DOTALL)
# As the Hugging Face library writes it: hf://datasets/OWNER/NAME@REVISION/FOLDER.
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HUB = re.compile(rf"hf://(?:(datasets|models)/)?({_PART}/{_PART})(?:@([^/\s]+))?(?:/(.*))?")
_FORMS = (
    "Write gs://BUCKET/FOLDER, https://HOST/FILE, hf://datasets/OWNER/NAME@REVISION or "
    "hf://OWNER/MODEL@REVISION"
)


class BadSource(ValueError):
    """An address from which no data set can come."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}. {remedy}")
        self.message, self.remedy = message, remedy


@dataclass(frozen=True)
class Source:
    """An address, taken apart."""

    kind: str
    address: str
    """Of the web the whole address, of a bucket its name, of the hub OWNER/NAME."""
    folder: str = ""
    """What is wanted of a bucket or a repository; empty stands for all."""
    repository: str = ""
    """Which kind of the hub's: `datasets` or `models`."""
    revision: str = ""


def source_of(text: str) -> Source:
    """Take an address apart; raise BadSource, which has the remedy."""
    kind = text.partition("://")[0]
    of_kind = {"gs": _of_bucket, "hf": _of_hub, "https": _of_web, "http": _of_web}.get(kind)
    if of_kind is None:
        raise BadSource("is no address of a data set", _FORMS)
    return of_kind(text)


def _of_bucket(text: str) -> Source:
    found = _BUCKET.fullmatch(text)
    if found is None:
        raise BadSource("is not the address of a bucket", "Write gs://BUCKET/FOLDER")
    return Source(BUCKET, found[1], _folder(found[2]))


def _of_hub(text: str) -> Source:
    found = _HUB.fullmatch(text)
    if found is None:
        remedy = "Write hf://datasets/OWNER/NAME@REVISION or hf://OWNER/MODEL@REVISION"
        raise BadSource("is not the address of a repository", remedy)
    revision = (found[3] or "main").replace("%2F", "/")
    return Source(HUB, found[2], _folder(found[4]), found[1] or "models", revision)


def _of_web(text: str) -> Source:
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or re.search(r"[\x00-\x20\x7f]", text):
        raise BadSource("is not the address of a file", "Write https://HOST/FOLDER/FILE")
    if parts.username or parts.password:
        raise BadSource("has a login, which all could read", "Use a file that needs no login")
    if parts.scheme == "http" and not is_loopback(host):
        raise BadSource("is not protected on its way", "Write https://")
    if not file_of(text):
        raise BadSource("names no file", "Write https://HOST/FOLDER/FILE")
    return Source(WEB, text)


def is_loopback(host: str) -> bool:
    """Return whether a host is this computer, by its number."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def file_of(url: str) -> str:
    """Return the name that the file of an address gets."""
    return urlsplit(url).path.rpartition("/")[2]


def _folder(text: str | None) -> str:
    return (text or "").strip("/")
