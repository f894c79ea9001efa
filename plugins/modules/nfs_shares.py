#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_shares
short_description: Export and mount the NFS shares of a TPU worker
version_added: 0.1.0
description:
  - Makes this host export and mount what the shares say, in one step, over NFSv4 alone.
  - What it made earlier and is no longer declared is unmounted and removed. Files on a share are
    never touched, nor exports and mounts that others made.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  phase:
    description:
      - V(apply) writes exports and units and starts them.
      - V(probe) changes nothing, and says which shares do not answer.
    type: str
    choices: [apply, probe]
    default: apply
  shares:
    description: The shares, as P(tpu.fleet.nfs_share#role) takes them.
    type: list
    elements: dict
    required: true
  hosts:
    description: All workers of the fleet, each with C(slice), C(worker), C(zone) and C(address).
    type: list
    elements: dict
    default: []
  slice:
    description: Name of the slice that this host belongs to.
    type: str
    required: true
  worker:
    description: Which worker of its slice this host is.
    type: int
    default: 0
  zone:
    description: Zone of this host.
    type: str
    default: ''
  timeout:
    description: Seconds after which a program gets an error when the server does not answer.
    type: int
    default: 30
  mount_timeout:
    description: Seconds after which an attempt to mount is given up.
    type: int
    default: 15
  idle_timeout:
    description: Seconds after which an unused share is unmounted. 0 for never.
    type: int
    default: 600
  grace_seconds:
    description: Seconds that a server waits for its clients after a reboot.
    type: int
    default: 20
  when_unsupported:
    description: What to do when the kernel has no NFS.
    type: str
    choices: [fail, skip]
    default: fail
  when_away:
    description: What V(probe) does when a share does not answer.
    type: str
    choices: [fail, warn]
    default: warn
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the files before and after.
    support: full
"""

EXAMPLES = r"""
- name: Mount the team's share
  tpu.fleet.nfs_shares:
    slice: pair
    worker: 1
    shares:
      - name: team
        path: /mnt/team
        slice: solo
    hosts:
      - slice: solo
        worker: 0
        address: 10.0.0.2
      - slice: pair
        worker: 1
        address: 10.0.0.4
"""

RETURN = r"""
missing_packages:
  description: Packages that are needed first. If there are any, nothing was done.
  type: list
  elements: str
  returned: always
steps:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
hash:
  description: Hash of what this host exports and mounts.
  type: str
  returned: always
notes:
  description: What is to be known about this host's shares.
  type: dict
  returned: always
"""

import contextlib
import grp
import hashlib
import os
import pwd
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError, give_folder, refuse_foreign
from ..module_utils._host.state import as_json, read_text, write_atomically
from ..module_utils._roles.nfs_share.plan import (
    DROP_IN,
    EXPORTS,
    MARK,
    MASKED,
    SETTINGS,
    UNITS,
    Export,
    Me,
    Plan,
    Times,
    files,
    plan,
    problems_of,
    unit_name,
)

SERVER = "nfs-server.service"
NOTHING = "/dev/null"


class Failed(Exception):
    """A step did not succeed."""


def has_kernel(module: AnsibleModule, kind: str) -> bool:
    """Tell whether the kernel has a file system, or a module for it."""
    known = (read_text("/proc/filesystems") or "").split()
    if kind in known:
        return True
    modprobe = module.get_bin_path("modprobe")
    name = {"nfs4": "nfsv4"}.get(kind, kind)
    if not modprobe:
        return False
    return bool(module.run_command([modprobe, "--dry-run", "--quiet", name])[0] == 0)


def lacking(module: AnsibleModule, wanted: Plan) -> list[str]:
    """Return what the kernel would have to have, in words."""
    kinds = []
    if wanted.exports and not has_kernel(module, "nfsd"):
        kinds.append("export (nfsd)")
    if wanted.mounts and not has_kernel(module, "nfs4"):
        kinds.append("mount (nfs4)")
    return kinds


def missing_packages(wanted: Plan) -> list[str]:
    """Return the packages that are needed and not there."""
    found = []
    if wanted.exports and not Path("/usr/sbin/exportfs").exists():
        found.append("nfs-kernel-server")
    if (wanted.mounts or wanted.exports) and not Path("/sbin/mount.nfs4").exists():
        found.append("nfs-common")
    return found


def files_now() -> dict[str, str]:
    """Return the files that this module wrote earlier."""
    places = [Path(path) for path in (EXPORTS, SETTINGS, DROP_IN)]
    for kind in ("mount", "automount"):
        places += sorted(Path(UNITS).glob(f"*.{kind}"))
    found = {}
    for place in places:
        # Units of others may be links to nothing, or unreadable.
        with contextlib.suppress(OSError):
            text = None if place.is_symlink() else read_text(place)
            if text is not None and text.startswith(MARK):
                found[str(place)] = text
    return found


def masks() -> dict[str, str]:
    """Return where units are masked."""
    return {f"{UNITS}/{unit}": unit for unit in MASKED}


def is_masked(path: str) -> bool:
    """Tell whether a unit is masked."""
    return Path(path).is_symlink() and os.path.realpath(path) == NOTHING


class Work:
    """Brings a plan about; in check mode it only notes the steps."""

    def __init__(self, module: AnsibleModule, wanted: Plan, times: Times) -> None:
        self.module = module
        self.plan = wanted
        self.steps: list[str] = []
        self.diff: list[dict[str, str]] = []
        self.now = files_now()
        self.wanted = files(wanted, times)
        # Nobody knows better now than what is there.
        for path in wanted.kept:
            for kind in ("mount", "automount"):
                unit = f"{UNITS}/{unit_name(path, kind)}"
                if unit in self.now:
                    self.wanted[unit] = self.now[unit]
                    self.wanted.setdefault(SETTINGS, self.now.get(SETTINGS, ""))
        self.changed = {
            path
            for path in {*self.now, *self.wanted}
            if self.now.get(path) != self.wanted.get(path)
        }

    def systemctl(self, *words: str, must: bool = True) -> bool:
        """Call systemctl; return whether it succeeded."""
        code, _out, error = self.module.run_command(["systemctl", *words])
        if code and must:
            raise Failed(f"systemctl {' '.join(words)}: {error.strip()}")
        return bool(code == 0)

    def do(self, step: str, *words: str) -> None:
        """Note a step, and do it unless this is check mode."""
        self.steps.append(step)
        if not self.module.check_mode:
            self.systemctl(*words)

    def run(self) -> None:
        """Do all steps."""
        for mount in self.plan.mounts:
            self.refuse_foreign(mount.name, "path", mount.path)
        for export in self.plan.exports:
            self.refuse_foreign(export.name, "path", export.path)
            self.refuse_foreign(export.name, "export_path", export.folder)
        for export in self.plan.exports:
            self.folder(export)
        for path in [mount.path for mount in self.plan.mounts] + [
            export.path for export in self.plan.exports if export.folder != export.path
        ]:
            self.refuse_to_hide(path)
        self.stop_what_changed()
        self.write()
        masked = self.mask()
        if (self.changed or masked) and not self.module.check_mode:
            self.systemctl("daemon-reload")
        self.serve(masked)
        self.mount()

    # -- files -----------------------------------------------------------------------------

    def refuse_foreign(self, name: str, field: str, path: str) -> None:
        """Refuse a folder that somebody else could lead elsewhere."""
        try:
            refuse_foreign(Path(path).parent)
        except UserError as error:
            raise Failed(
                f"nfs_share_shares: share {name!r}: {field} = {path!r}: {error}. Nothing was "
                "changed. Use a folder that only root can write, such as /data"
            ) from None

    def folder(self, export: Export) -> None:
        """Make the exported folder, or mend its owner and permissions."""
        if export.disk and not os.path.ismount(export.disk) and not self.module.check_mode:
            raise Failed(
                f"The share {export.name} is on {export.disk}, where no disk is mounted now. Mount "
                "it, or run configure again when it is there"
            )
        place = Path(export.folder)
        try:
            uid = pwd.getpwnam(export.owner).pw_uid
            gid = grp.getgrnam(export.group).gr_gid
        except KeyError as error:
            if self.module.check_mode:
                self.steps.append(f"make {place}")
                return
            raise Failed(
                f"The share {export.name} belongs to {export.owner}:{export.group}, and this host "
                f"does not know one of them: {error.args[0]}. Declare them in user_accounts"
            ) from error
        mode = int(export.mode, 8)
        if not place.exists():
            self.steps.append(f"make {place}")
            if not self.module.check_mode:
                place.mkdir(parents=True)
        elif not place.is_dir():
            raise Failed(f"{place} is no folder. Move it away, or export another one")
        else:
            seen = place.stat()
            if (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (uid, gid, mode):
                return
            self.steps.append(f"give {place} to {export.owner}:{export.group} {export.mode}")
        if not self.module.check_mode:
            try:
                give_folder(place, uid, gid, mode)
            except UserError as error:
                raise Failed(f"{error}. Export a folder where only root can write") from None

    def refuse_to_hide(self, path: str) -> None:
        """Refuse to mount over a folder with files in it, unless it is our mount already."""
        ours = any(
            f"{UNITS}/{unit_name(path, kind)}" in self.now for kind in ("automount", "mount")
        )
        if ours or os.path.ismount(path) or not Path(path).is_dir():
            return
        if any(Path(path).iterdir()):
            raise Failed(
                f"{path} holds files, which a share mounted there would hide. Move them away, or "
                "mount the share at another path"
            )

    def stop_what_changed(self) -> None:
        """Stop units that are to change or go, the automatic ones first."""
        units = sorted(Path(p).name for p in self.changed & set(self.now) if is_unit(p))
        touched = {unit.rsplit(".", 1)[0] for unit in units}
        for stem in sorted(touched):
            for kind in ("automount", "mount"):
                unit = f"{stem}.{kind}"
                path = f"{UNITS}/{unit}"
                if path not in self.now:
                    continue
                if path not in self.wanted:
                    self.do(f"disable {unit}", "disable", "--now", unit)
                else:
                    self.do(f"stop {unit}", "stop", unit)

    def write(self) -> None:
        """Write and remove files."""
        for path in sorted(self.changed):
            before, after = self.now.get(path), self.wanted.get(path)
            self.steps.append(f"{'write' if after is not None else 'remove'} {path}")
            self.diff.append(
                {
                    "before_header": path,
                    "after_header": path,
                    "before": before or "",
                    "after": after or "",
                }
            )
            if self.module.check_mode:
                continue
            if after is None:
                Path(path).unlink()
                with contextlib.suppress(OSError):
                    if path == DROP_IN:
                        Path(path).parent.rmdir()
                continue
            if before is None and os.path.lexists(path):
                raise Failed(f"{path} is there, and not ours. Move it away")
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, after)

    def mask(self) -> bool:
        """Turn off what only NFSv3 needs; return whether that is new."""
        new = False
        for path, unit in masks().items():
            if SETTINGS in self.wanted and not os.path.lexists(path):
                self.steps.append(f"mask {unit}")
                new = True
                if not self.module.check_mode:
                    Path(path).symlink_to(NOTHING)
            elif SETTINGS not in self.wanted and SETTINGS in self.now and is_masked(path):
                self.steps.append(f"unmask {unit}")
                if not self.module.check_mode:
                    Path(path).unlink()
        if new and not self.module.check_mode:
            self.systemctl("daemon-reload")
            self.systemctl("stop", *MASKED, must=False)
        return new

    # -- services --------------------------------------------------------------------------

    def serve(self, masked: bool) -> None:
        """Let the server export what it should."""
        if EXPORTS in self.wanted:
            if not self.systemctl("is-enabled", "--quiet", SERVER, must=False):
                self.do(f"enable {SERVER}", "enable", SERVER)
            if masked or self.changed & {SETTINGS, DROP_IN}:
                self.do(f"restart {SERVER}", "restart", SERVER)
            elif not self.systemctl("is-active", "--quiet", SERVER, must=False):
                self.do(f"start {SERVER}", "start", SERVER)
            elif EXPORTS in self.changed:
                self.exportfs()
            for export in self.plan.exports:
                if export.folder != export.path:
                    self.start(unit_name(export.path, "mount"))
        elif EXPORTS in self.now:
            self.exportfs()
            if not self.module.check_mode and not self.exported():
                self.do(f"disable {SERVER}", "disable", "--now", SERVER)

    def exportfs(self) -> None:
        """Let the running server follow the files."""
        self.steps.append("exportfs -ra")
        if not self.module.check_mode:
            code, _out, error = self.module.run_command(["exportfs", "-ra"])
            if code:
                raise Failed(f"exportfs -ra: {error.strip()}")

    def exported(self) -> list[str]:
        """Return the folders that the server exports now."""
        _code, out, _error = self.module.run_command(["exportfs", "-s"])
        return [line.split()[0] for line in out.splitlines() if line.startswith("/")]

    def mount(self) -> None:
        """Let the automatic mounts wait for somebody who looks."""
        for mount in self.plan.mounts:
            self.start(unit_name(mount.path, "automount"))

    def start(self, unit: str) -> None:
        """Enable and start a unit, if it is not."""
        new = f"{UNITS}/{unit}" in self.changed
        if new or not self.systemctl("is-enabled", "--quiet", unit, must=False):
            self.do(f"enable {unit}", "enable", unit)
        if new or not self.systemctl("is-active", "--quiet", unit, must=False):
            self.do(f"start {unit}", "start", unit)


def is_unit(path: str) -> bool:
    """Tell the mounts' units from the other files."""
    return path.endswith((".mount", ".automount"))


def fstab_targets(text: str) -> list[str]:
    """Return the mount points of fstab, but for the root."""
    lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = [words[1] for words in lines if len(words) >= 2 and words[1].startswith("/")]
    return [target.rstrip("/") for target in found if target != "/"]


# -- probe -------------------------------------------------------------------------------------


def answers(path: str, limit: float) -> bool:
    """Tell whether a share answers; never wait for longer, whatever the mount does."""
    # pylint: disable-next=ansible-bad-function  # run_command cannot give up.
    process = subprocess.Popen(
        ["stat", "--file-system", "--format=%T", f"{path}/."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    try:
        out, _error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        # Not waited for: it may hang in the kernel.
        process.kill()
        return False
    return process.returncode == 0 and out.strip() == "nfs"


def probe(module: AnsibleModule, wanted: Plan, times: Times) -> list[str]:
    """Return what does not answer."""
    found = []
    if wanted.exports:
        _code, out, _error = module.run_command(["exportfs", "-s"])
        served = {line.split()[0] for line in out.splitlines() if line.startswith("/")}
        for export in wanted.exports:
            if export.clients and export.folder not in served:
                found.append(f"{export.folder} (share {export.name}) is not exported here")
    for mount in wanted.mounts:
        for pause in (3, 0):
            if answers(mount.path, times.mount + times.timeout):
                break
            time.sleep(pause)
        else:
            found.append(
                f"{mount.path} (share {mount.name}) does not answer. Is the server {mount.server} "
                f"up, does it export {mount.folder}, and does the firewall let TCP 2049 through?"
            )
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["apply", "probe"], "default": "apply"},
            "shares": {"type": "list", "elements": "dict", "required": True},
            "hosts": {"type": "list", "elements": "dict", "default": []},
            "slice": {"type": "str", "required": True},
            "worker": {"type": "int", "default": 0},
            "zone": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 30},
            "mount_timeout": {"type": "int", "default": 15},
            "idle_timeout": {"type": "int", "default": 600},
            "grace_seconds": {"type": "int", "default": 20},
            "when_unsupported": {"type": "str", "choices": ["fail", "skip"], "default": "fail"},
            "when_away": {"type": "str", "choices": ["fail", "warn"], "default": "warn"},
        },
        supports_check_mode=True,
    )
    p = module.params
    for share in p["shares"]:
        for key, message, remedy in problems_of(share):
            shown = share.get(key)
            module.fail_json(msg=f"share {share.get('name')}: {key} = {shown} {message}. {remedy}.")
    times = Times(p["timeout"], p["mount_timeout"], p["idle_timeout"], p["grace_seconds"])
    me = Me(p["slice"], p["worker"], p["zone"])
    wanted = plan(p["shares"], p["hosts"], me, fstab_targets(read_text("/etc/fstab") or ""))
    notes: dict[str, Any] = {}
    lacks = lacking(module, wanted)
    if lacks:
        text = f"The kernel of this host cannot {' nor '.join(lacks)} NFS shares"
        if p["when_unsupported"] == "fail":
            module.fail_json(
                msg=f"{text}. Leave its slice out of the shares, set "
                "nfs_share_when_unsupported: skip, or in the local cloud give the slice the "
                "metadata local-cloud-kernel: own."
            )
        wanted = Plan()
        notes["skipped"] = text
    work = Work(module, wanted, times)
    texts = {**work.wanted, "folders": str(wanted.exports)}
    result: dict[str, Any] = {
        "changed": False,
        "missing_packages": [],
        "steps": [],
        "hash": hashlib.sha256(as_json(texts).encode()).hexdigest(),
        "notes": notes,
    }
    if p["phase"] == "probe":
        away = [] if module.check_mode else probe(module, wanted, times)
        away += [f"{path} stays as it is: {why}" for path, why in wanted.kept.items()]
        if away and p["when_away"] == "fail":
            module.fail_json(msg=". ".join(away), **result)
        for text in away:
            module.warn(text)
        module.exit_json(**result)
    if wanted.exports:
        notes["exports"] = [export.folder for export in wanted.exports]
    if wanted.mounts:
        notes["mounts"] = [mount.path for mount in wanted.mounts]
    result["missing_packages"] = missing_packages(wanted)
    if result["missing_packages"] and not module.check_mode:
        module.exit_json(**result)
    try:
        work.run()
    except (Failed, OSError) as error:
        module.fail_json(msg=f"{error}.", **{**result, "steps": work.steps})
    result.update(changed=bool(work.steps), steps=work.steps, diff=work.diff)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
