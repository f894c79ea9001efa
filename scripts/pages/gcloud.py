"""docs/internals/gcloud.md: the hand-written text, with tables of commands that the tests run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tpu_local_cloud.commands.lifecycle import ABSENT, DEFAULT_PORT, Cloud, exports

from . import DOCS, ROOT, filled

PAGE = DOCS / "internals" / "gcloud.md"
COMMANDS = ROOT / "local_cloud/tests/gcloud/commands"
# Words of a command that are followed by other words.
GROUPS = (
    "accelerator-types",
    "bulk",
    "future-reservations",
    "images",
    "instance-groups",
    "instance-templates",
    "instances",
    "locations",
    "machine-types",
    "managed",
    "operations",
    "project-info",
    "queued-resources",
    "regions",
    "reservations",
    "resize-requests",
    "resource-policies",
    "service-identity",
    "topologies",
    "tpu-vm",
    "versions",
    "zones",
)
# A command of gcloud with a kind of policy below it.
BELOW = ["resource-policies", "create"]
# gcloud's exit code when the release track does not have the command.
NO_SUCH_COMMAND = 2
TRACKS = ("ga", "beta", "alpha")
# The variables and their purposes.
MEANINGS = {
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": "the TPU API; our tools read it too",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": "`ssh` and `scp`, disks, firewalls, TPUs",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": "`gcloud services enable`",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": "service accounts",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": "the project and its IAM policy",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": "buckets",
    "STORAGE_EMULATOR_HOST": "buckets, of Google's libraries and gcsfs",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_OSLOGIN": "`ssh` to nodes with `enable-oslogin`",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": "secrets",
    "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "no login is needed, and no token leaves the computer",
    "CLOUDSDK_CORE_PROJECT": "the cloud's project",
    "GOOGLE_CLOUD_PROJECT": "the same, for our own tools and Google's libraries",
    "CLOUDSDK_CORE_DISABLE_PROMPTS": "no questions",
    "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "nothing is reported to Google",
    "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "no check for updates",
}


def page() -> str:
    """Return the page with current tables."""
    return filled(PAGE, TABLES)


def exports_table() -> str:
    """Return the variables that `tpu-fleet cloud env` prints."""
    rows = ["| variable | value | for |", "| --- | --- | --- |"]
    cloud = Cloud(Path("/nonexistent"))
    others = [name for name, value in exports(cloud).items() if f"/{ABSENT}/" in value]
    for name, value in exports(cloud).items():
        if name in others:
            continue
        # The environment may name another cloud than the one on the default port.
        shown = value.replace(cloud.endpoint.rstrip("/"), f"http://127.0.0.1:{DEFAULT_PORT}")
        rows.append(f"| `{name}` | `{shown}` | {MEANINGS[name]} |")
    shown = f"http://127.0.0.1:{DEFAULT_PORT}/{ABSENT}/…/"
    why = f"{len(others)} other services, which are not asked at Google: HTTP 501"
    rows.append(f"| `CLOUDSDK_API_ENDPOINT_OVERRIDES_…` | `{shown}` | {why} |")
    return "\n".join(rows)


def commands_table() -> str:
    """Return every command of the TPU API with the release tracks in which it is tested."""
    return _commands("tpus ", "gcloud compute tpus …")


def compute_table() -> str:
    """Return the commands about TPUs on Compute Engine that are tested."""
    return _commands("", "gcloud compute …")


def _commands(group: str, title: str) -> str:
    tracks: dict[str, set[str]] = {}
    for row in _rows():
        if row.get("exit") == NO_SUCH_COMMAND:
            continue
        command, own = _command(row["run"])
        if command.startswith("tpus ") == bool(group):
            name = command.removeprefix(group)
            tracks.setdefault(name, set()).update(row.get("tracks", [own]))
    rows = [f"| `{title}` | release tracks |", "| --- | --- |"]
    for command in sorted(tracks):
        shown = ", ".join(track for track in TRACKS if track in tracks[command])
        rows.append(f"| `{command}` | {shown} |")
    return "\n".join(rows)


def differences_table() -> str:
    """Return the commands whose recording differs, and why."""
    rows = ["| command | what differs, and why |", "| --- | --- |"]
    commands: dict[str, list[str]] = {}
    for row in _rows():
        if row.get("differs"):
            command = _command(row["run"])[0].removeprefix("tpus ")
            names = commands.setdefault(row["differs"].strip(), [])
            if f"`{command}`" not in names:
                names.append(f"`{command}`")
    rows += [f"| {', '.join(names)} | {reason} |" for reason, names in commands.items()]
    return "\n".join(rows)


def _rows() -> list[dict[str, Any]]:
    files = [yaml.safe_load(path.read_text()) for path in sorted(COMMANDS.glob("*.yml"))]
    return [row for rows in files for row in rows["commands"]]


def _command(run: str) -> tuple[str, str]:
    """Return a command below `compute` without its arguments, and its release track."""
    words = run.split()[1:]
    track = words.pop(0) if words[0] in TRACKS else "ga"
    group = "tpus " if words[1] == "tpus" else ""
    words = words[2:] if group else words[1:]
    length = 1
    while words[length - 1] in GROUPS or words[:length] == BELOW:
        length += 1
    return group + " ".join(words[:length]), track


TABLES = {
    "exports": exports_table,
    "commands": commands_table,
    "compute": compute_table,
    "differences": differences_table,
}
