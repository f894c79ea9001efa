#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bucket_mounts
short_description: Mount buckets with gcsfuse, when somebody looks
version_added: 0.1.0
description:
  - Writes, enables and starts the units of systemd for all buckets in one step, and takes away
    those that this module made before and that are not wanted any more.
  - Where gcsfuse is not installed it mounts nothing, and says so.
  - Where the kernel gives no automount, as in a container, the buckets are mounted at boot, and
    nothing waits for them.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  buckets:
    description: The buckets.
    type: list
    elements: dict
    default: []
    suboptions:
      bucket: {description: Name of the bucket., type: str, required: true}
      path: {description: Where to mount it., type: path, required: true}
      only_dir: {description: Only this folder of it., type: str}
      read_only: {description: Whether nobody may write., type: bool, default: false}
      owner: {description: Whose everything is., type: str, default: root}
      group: {description: Whose group. The owner's own by default., type: str}
      file_mode: {description: Permissions of files., type: str, default: '0664'}
      dir_mode: {description: Permissions of folders., type: str, default: '0775'}
      implicit_dirs: {description: See folders without objects., type: bool, default: true}
      cache_dir: {description: Folder for copies., type: path}
      cache_mb: {description: Size of the copies in MiB., type: int, default: -1}
      metadata_ttl: {description: Seconds for which metadata are believed., type: int}
      options: {description: Further options., type: dict, default: {}}
  timeout:
    description: Seconds after which a mount has failed.
    type: int
    default: 30
  apt_uri:
    description: Apt repository that has gcsfuse.
    type: str
    default: ''
  apt_key:
    description: The key that signs it.
    type: str
    default: ''
  version:
    description: Version of gcsfuse.
    type: str
    default: ''
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the units before and after.
    support: full
"""

EXAMPLES = r"""
- name: Mount a bucket
  tpu.fleet.bucket_mounts:
    buckets:
      - bucket: lab-datasets
        path: /mnt/datasets
        read_only: true
"""

RETURN = r"""
gcsfuse:
  description: Version of gcsfuse, empty when it is not there.
  type: str
  returned: always
automount:
  description: Whether the buckets are mounted when somebody looks.
  type: bool
  returned: always
wants_install:
  description: Whether gcsfuse is needed and is not there, or is of another version.
  type: bool
  returned: always
sources_changed:
  description: Whether what apt knows of gcsfuse was changed.
  type: bool
  returned: always
"""

import grp
import os
import pwd
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError, refuse_foreign
from ..module_utils._host.state import read_text, write_atomically
from ..module_utils._roles.bucket_mount import units as buckets

BUCKET_SPEC: dict[str, Any] = {
    "bucket": {"type": "str", "required": True},
    "path": {"type": "path", "required": True},
    "only_dir": {"type": "str"},
    "read_only": {"type": "bool", "default": False},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str"},
    "file_mode": {"type": "str", "default": "0664"},
    "dir_mode": {"type": "str", "default": "0775"},
    "implicit_dirs": {"type": "bool", "default": True},
    "cache_dir": {"type": "path"},
    "cache_mb": {"type": "int", "default": -1},
    "metadata_ttl": {"type": "int"},
    "options": {"type": "dict", "default": {}},
}


class Mounter:
    """Brings one host to what is declared."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.check: bool = module.check_mode
        self.changes: list[dict[str, str]] = []

    def run(self, *argv: str) -> tuple[int, str]:
        """Run a program; return its exit code and what it said."""
        code, out, err = self.module.run_command(list(argv))
        return code, (out + err).strip()

    def version(self) -> str:
        """Return the version of gcsfuse, or nothing."""
        program = self.module.get_bin_path("gcsfuse")
        helper = self.module.get_bin_path("mount.gcsfuse", opt_dirs=["/sbin", "/usr/sbin"])
        if not program or not helper:
            return ""
        _code, said = self.run(program, "--version")
        found = re.search(r"\d+(\.\d+)+", said)
        return found.group() if found else "unknown"

    def ids(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Return the numbers of owner and group."""
        owner, group = entry["owner"] or "root", entry["group"]
        try:
            own = pwd.getpwuid(int(owner)) if owner.isdigit() else pwd.getpwnam(owner)
            uid, gid = own.pw_uid, own.pw_gid
        except KeyError:
            if not owner.isdigit() and not self.check:
                self.fail(entry, f"owner = {owner!r} is no user of this host")
            uid = gid = int(owner) if owner.isdigit() else 0
        if group:
            try:
                gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
            except KeyError:
                if not self.check:
                    self.fail(entry, f"group = {group!r} is no group of this host")
        return uid, gid

    def fail(self, entry: dict[str, Any], why: str) -> None:
        """End, naming the bucket."""
        self.module.fail_json(msg=f"bucket_mount_buckets: bucket {entry['bucket']!r}: {why}.")

    def file(self, path: str, wanted: str) -> bool:
        """Write a file, or remove it when nothing is wanted; say whether it changed."""
        before = read_text(path) or ""
        if before == wanted:
            return False
        self.changes.append({"path": path, "before": before, "after": wanted})
        if not self.check:
            if wanted:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, wanted)
            else:
                Path(path).unlink()
        return True

    def refuse_foreign(self, entry: dict[str, Any]) -> None:
        """Refuse folders that somebody else could lead elsewhere."""
        for key in ("path", "cache_dir"):
            try:
                if entry[key]:
                    refuse_foreign(Path(entry[key]).parent)
            except UserError as error:
                self.fail(
                    entry,
                    f"{key} = {entry[key]!r}: {error}. Use a folder that only root can write, "
                    "such as /data",
                )

    def place(self, entry: dict[str, Any]) -> None:
        """Make the folder; one that holds files would hide them below the mount."""
        path = entry["path"].rstrip("/")
        # Looking into a folder with an automount would mount it.
        if path in mounted():
            return
        folder = Path(path)
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            self.fail(entry, f"path = {path!r} is no folder. Move it away")
        if folder.is_dir() and any(folder.iterdir()):
            self.fail(entry, f"path = {path!r} holds files, which the mount would hide. Move them")
        for needed in filter(None, (path, entry["cache_dir"])):
            if not Path(needed).is_dir():
                self.changes.append({"path": needed, "before": "", "after": "directory\n"})
                if not self.check:
                    Path(needed).mkdir(parents=True, exist_ok=True)

    def units(self, automount: bool) -> list[buckets.Unit]:
        """Return all units that are to be there."""
        found = []
        for entry in self.params["buckets"]:
            self.place(entry)
            uid, gid = self.ids(entry)
            found += buckets.mount_units(
                entry, uid, gid, timeout=self.params["timeout"], automount=automount
            )
        return found

    def bring_about(self, wanted: list[buckets.Unit], automount: bool) -> None:
        """Write units, and start and stop what that asks for."""
        ours = [
            path
            for kind in ("mount", "automount")
            for path in sorted(Path(buckets.UNITS).glob(f"*.{kind}"))
            if (read_text(path) or "").startswith(buckets.MANAGED)
        ]
        names = {unit.name for unit in wanted}
        gone = [path for path in ours if path.name not in names]
        if gone and not self.check:
            # The trap first, or it would mount again what is unmounted.
            for path in sorted(gone, key=lambda path: path.suffix):
                self.run("systemctl", "disable", "--now", path.name)
        for path in gone:
            self.file(str(path), "")
        touched = [unit.name for unit in wanted if self.file(unit.path, unit.text)]
        if self.check:
            return
        if gone or touched:
            self.run("systemctl", "daemon-reload")
        for name in touched:
            self.run("systemctl", "stop", name)
        lead = [unit.name for unit in wanted if not automount or unit.name.endswith(".automount")]
        states = self.states(lead)
        idle = [name for name in lead if states.get(name) != ("active", "enabled")]
        if not idle:
            return
        if not gone and not touched:
            self.changes += [{"path": name, "before": "", "after": "started\n"} for name in idle]
        self.run("systemctl", "enable", *idle)
        code, said = self.run("systemctl", "start", *idle)
        if code:
            failed = [name for name in idle if self.states([name])[name][0] != "active"]
            self.module.warn(
                f"Not mounted: {', '.join(failed)}. {said.splitlines()[0] if said else ''} "
                f"See: systemctl status {' '.join(failed)}"
            )

    def states(self, names: list[str]) -> dict[str, tuple[str, str]]:
        """Return for each unit whether it is active and enabled."""
        found = {}
        if names:
            show = ("systemctl", "show", "-p", "Id", "-p", "ActiveState", "-p", "UnitFileState")
            _code, said = self.run(*show, *names)
            for block in said.split("\n\n"):
                values = dict(line.partition("=")[::2] for line in block.splitlines())
                state = (values.get("ActiveState", ""), values.get("UnitFileState", ""))
                found[values.get("Id", "")] = state
        return {name: found.get(name, ("", "")) for name in names}


def mounted() -> set[str]:
    """Return the places at which something is mounted."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {line.split()[4].encode().decode("unicode_escape") for line in lines}


def can_automount() -> bool:
    """Say whether systemd can set a trap: containers often may not."""
    try:
        os.close(os.open("/dev/autofs", os.O_RDWR))
    except OSError:
        return False
    return True


def codename() -> str:
    """Return the name of the distribution's release."""
    found = re.search(r'^VERSION_CODENAME="?([\w-]+)', read_text("/etc/os-release") or "", re.M)
    return found.group(1) if found else ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "buckets": {"type": "list", "elements": "dict", "default": [], "options": BUCKET_SPEC},
            "timeout": {"type": "int", "default": 30},
            "apt_uri": {"type": "str", "default": ""},
            "apt_key": {"type": "str", "default": "", "no_log": False},
            "version": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    mounter, params = Mounter(module), module.params
    for entry in params["buckets"]:
        mounter.refuse_foreign(entry)
    automount = can_automount()
    wants = bool(params["buckets"])
    try:
        uri, key, pin = (
            params[name] if wants else "" for name in ("apt_uri", "apt_key", "version")
        )
        files = buckets.apt_files(uri, key, pin, codename())
        sources = [path for path, text in files.items() if mounter.file(path, text)]
        version = mounter.version()
        other = bool(params["version"]) and not version.startswith(params["version"])
        if version or not wants:
            mounter.bring_about(mounter.units(automount), automount)
    except OSError as error:
        module.fail_json(msg=f"Cannot set up the mounts: {error}")
        return
    module.exit_json(
        changed=bool(mounter.changes),
        gcsfuse=version,
        automount=automount,
        wants_install=wants and (not version or other),
        sources_changed=bool(sources),
        diff=[
            {
                "before_header": change["path"],
                "after_header": change["path"],
                "before": change["before"],
                "after": change["after"],
            }
            for change in mounter.changes
        ],
    )


if __name__ == "__main__":
    main()
