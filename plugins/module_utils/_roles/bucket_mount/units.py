# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the units that mount buckets. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._host.mounts import GUARDS, unit_name

MANAGED = "# Managed by tpu.fleet (role bucket_mount).\n"
UNITS = "/etc/systemd/system"
KEYRING = "/etc/apt/keyrings/tpu-fleet-gcsfuse.asc"
SOURCE = "/etc/apt/sources.list.d/tpu-fleet-gcsfuse.sources"
PIN = "/etc/apt/preferences.d/tpu-fleet-gcsfuse"


@dataclass(frozen=True)
class Unit:
    """One unit file of systemd."""

    name: str
    text: str

    @property
    def path(self) -> str:
        """Return the path of the unit file."""
        return f"{UNITS}/{self.name}"


def mount_options(entry: Mapping[str, Any], uid: int, gid: int) -> str:
    """Return the options of one mount, for gcsfuse's mount helper."""
    options: dict[str, str] = {
        "ro" if entry.get("read_only") else "rw": "",
        "_netdev": "",
        "allow_other": "",
        "uid": str(uid),
        "gid": str(gid),
        "file_mode": str(entry.get("file_permissions") or "664").lstrip("0") or "0",
        "dir_mode": str(entry.get("dir_permissions") or "775").lstrip("0") or "0",
    }
    if entry.get("implicit_dirs", True):
        options["implicit_dirs"] = ""
    if entry.get("only_dir"):
        options["only_dir"] = str(entry["only_dir"]).strip("/")
    if entry.get("cache_dir"):
        options["cache_dir"] = str(entry["cache_dir"])
        # gcsfuse's word for no limit.
        options["file_cache_max_size_mb"] = str(entry.get("cache_size") or -1)
    if entry.get("metadata_ttl") is not None:
        options["metadata_cache_ttl_secs"] = str(entry["metadata_ttl"])
    for name, value in (entry.get("options") or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        options[str(name).lstrip("-").replace("-", "_")] = text
    for name in GUARDS:
        options.pop(name, None)
    options.update(dict.fromkeys(GUARDS, ""))  # last, so that no other option undoes them
    return ",".join(f"{name}={value}" if value else name for name, value in options.items())


def mount_units(
    entry: Mapping[str, Any], uid: int, gid: int, *, timeout: int, automount: bool
) -> list[Unit]:
    """Return the units of one bucket.

    They have none of the default dependencies; otherwise everything that waits for remote file
    systems, such as logins, would wait for the bucket.
    """
    name = unit_name(entry["path"])
    where = entry["path"].rstrip("/").replace("%", "%%")
    install = "\n[Install]\nWantedBy=multi-user.target\n"
    mount = (
        f"{MANAGED}[Unit]\n"
        f"Description=Bucket {entry['bucket']}\n"
        "DefaultDependencies=no\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "Conflicts=umount.target\n"
        "Before=umount.target\n"
        "\n[Mount]\n"
        f"What={entry['bucket']}\n"
        f"Where={where}\n"
        "Type=gcsfuse\n"
        f"Options={mount_options(entry, uid, gid).replace('%', '%%')}\n"
        f"TimeoutSec={timeout}\n"
    )
    if not automount:
        return [Unit(f"{name}.mount", mount + install)]
    trap = (
        f"{MANAGED}[Unit]\n"
        f"Description=Mount bucket {entry['bucket']} when somebody looks\n"
        "DefaultDependencies=no\n"
        "Conflicts=umount.target\n"
        "Before=umount.target\n"
        "\n[Automount]\n"
        f"Where={where}\n"
    )
    return [Unit(f"{name}.mount", mount), Unit(f"{name}.automount", trap + install)]


def apt_files(uri: str, key: str, version: str, codename: str) -> dict[str, str]:
    """Return apt's files for gcsfuse by path; a file with an empty text is removed."""
    source = (
        f"{MANAGED}Types: deb\nURIs: {uri}\nSuites: gcsfuse-{codename}\nComponents: main\n"
        f"Signed-By: {KEYRING}\n"
    )
    pin = f"{MANAGED}Package: gcsfuse\nPin: version {version}*\nPin-Priority: 1001\n"
    return {
        KEYRING: f"{key.strip()}\n" if uri and key else "",
        SOURCE: source if uri else "",
        PIN: pin if version else "",
    }
