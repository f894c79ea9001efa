"""What a computer and a project have already: gcloud's configuration, keys, nodes. Reads only."""

from __future__ import annotations

import configparser
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import OWNER_LABEL
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._inventory.onboarding import fingerprint
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access.address import CLONE
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import public_key

CREDENTIALS = "application_default_credentials.json"


def gcloud_folder(environment: Mapping[str, str]) -> Path:
    """Return where gcloud keeps its configuration."""
    return Path(environment.get("CLOUDSDK_CONFIG") or "~/.config/gcloud").expanduser()


def gcloud_setting(environment: Mapping[str, str], section: str, key: str) -> str:
    """Return a setting that gcloud would use, as core/project; empty if it has none."""
    told = environment.get(f"CLOUDSDK_{section}_{key}".upper())
    if told:
        return told
    folder = gcloud_folder(environment)
    parser = configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(OSError, configparser.Error, UnicodeError):
        active = environment.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
        if not active:
            active = (folder / "active_config").read_text(encoding="utf-8").strip()
        parser.read(folder / "configurations" / f"config_{active}", encoding="utf-8")
    return parser.get(section, key, fallback="")


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Return whether this computer has credentials for programs, without asking the user."""
    named = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    return Path(named or gcloud_folder(environment) / CREDENTIALS).is_file()


def own_keys() -> tuple[str, ...]:
    """Return the public keys of the person at this computer."""
    found = []
    for path in sorted(Path("~/.ssh").expanduser().glob("*.pub")):
        with contextlib.suppress(OSError, UnicodeError):
            text = path.read_text(encoding="utf-8").strip()
            if text and public_key(text) is None:
                found.append(text)
    return tuple(found)


def key_line(key: str) -> str:
    """Show a public key: its kind, fingerprint and comment."""
    return fingerprint(key).rstrip()


def nodes_there(project: str, endpoint: str) -> tuple[list[str], set[str]]:
    """Describe the nodes of the project, or why they cannot be listed; and name their owners."""
    from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client

    try:
        listing = Client(project, endpoint=endpoint or None).nodes.list()
    except TpuError as error:
        return [f"The project's nodes cannot be listed: {shown(error)}"], set()
    lines, owners = [], set()
    for node in listing.items:
        owner = node.labels.get(OWNER_LABEL)
        owners |= {owner} if owner else set()
        whose = f"of the fleet of {owner}" if owner else "of no fleet"
        what = f"{node.accelerator_type}, {node.zone}"
        lines.append(shown(f"{node.name} ({what}): {node.state}, {whose}"))
    return lines or ["The project has no TPU nodes."], owners


def code_named(text: str, inventory: Path) -> tuple[str, str]:
    """Return the repository or the folder that an answer means; one of them is empty."""
    head = text.partition("/")[0]
    # What only looks like an address gets its remedy from the rule of repositories.
    if "://" in text or ("@" in head and not Path(text).exists()) or CLONE.match(text):
        return text, ""
    folder = Path(text).expanduser().resolve()
    # Beside the fleet it stays right when both move.
    if inventory.parent == folder or inventory.parent.parent in (folder, *folder.parents):
        return "", os.path.relpath(folder, inventory)
    return "", str(folder)
