#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: base_settings
short_description: Settings of a host in files and services that belong to others
version_added: 0.1.0
description:
  - Does in one step what would be many tasks. Sets the locale, takes tcmalloc out of
    C(/etc/environment), holds snaps, makes systemd read what was written since it did last, and
    turns units on or off.
  - Whether a service has to be reloaded is seen from when it began and when its files were written,
    so that a run that broke off before leaves nothing undone.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  locale:
    description: Locale of logins and services; made if it is not there. Left alone if empty.
    type: str
    default: ''
  tcmalloc:
    description:
      - Whether C(LD_PRELOAD) of C(/etc/environment) may name tcmalloc. V(absent) takes it out and
        keeps the line as a comment, V(present) puts back what was taken out.
    type: str
    choices: [absent, present]
    default: present
  snaps:
    description: Whether snaps are refreshed on their own. Left alone where there are none.
    type: str
    choices: [held, refreshed, unmanaged]
    default: unmanaged
  units:
    description: Units to turn on or off, now and at boot.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the unit.
        type: str
        required: true
      enabled:
        description: Whether it is on.
        type: bool
        required: true
  read_units:
    description: Units of others, whose files systemd has to have read as they are now.
    type: list
    elements: str
    default: []
  manager_file:
    description:
      - File with C(DefaultLimit...) of systemd, which it reads only when it starts itself anew.
    type: path
  journal_file:
    description: Configuration file of the journal.
    type: path
  remove_ipc:
    description: What logind must have read as C(RemoveIPC).
    type: bool
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows files before and after, and lists the commands.
    support: full
"""

EXAMPLES = r"""
- name: Set the locale and keep snaps as they are
  tpu.fleet.base_settings:
    locale: de_AT.UTF-8
    snaps: held
"""

RETURN = r"""
steps:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.state import read_text, write_atomically
from ..module_utils._roles.host_base import settings as rules

ENVIRONMENT = "/etc/environment"
DEFAULT_LOCALE = "/etc/default/locale"
LOCALE_GEN = "/etc/locale.gen"
SUPPORTED = "/usr/share/i18n/SUPPORTED"
LOGIND = (
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
)


class Settings:
    """Looks, compares and acts; in check mode it only says what it would do."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.steps: list[str] = []
        self.differences: list[dict[str, str]] = []

    def look(self, *argv: str) -> str:
        """Run a command that changes nothing; nothing is what it says if it fails."""
        code, out, _err = self.module.run_command(list(argv))
        return str(out) if code == 0 else ""

    def act(self, *argv: str, must: bool = True) -> bool:
        """Run a command that changes something."""
        if not self.module.check_mode:
            code, out, err = self.module.run_command(list(argv))
            if code != 0:
                told = f"{' '.join(argv)} failed: {(err or out).strip()}"
                if must:
                    self.module.fail_json(msg=told, steps=self.steps)
                self.module.warn(told)
                return False
        self.steps.append(" ".join(argv))
        return True

    def write(self, path: str, after: str) -> bool:
        """Bring a file to a content; it keeps its place if it is a link."""
        before = read_text(path) or ""
        if before == after:
            return False
        if not self.module.check_mode:
            real = Path(os.path.realpath(path))
            mode = real.stat().st_mode & 0o7777 if real.exists() else 0o644
            real.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(real, after, mode=mode)
        self.steps.append(f"write {path}")
        self.differences.append(
            {"before_header": path, "after_header": path, "before": before, "after": after}
        )
        return True

    # -- the settings -------------------------------------------------------------------------

    def locale(self, wanted: str) -> None:
        """Make the locale, and make it the default."""
        if not wanted:
            return
        if not rules.is_there(wanted, self.look("locale", "-a").split()):
            known = read_text(SUPPORTED)
            if known is not None and f"{wanted} UTF-8" not in known.splitlines():
                self.module.fail_json(
                    msg=f"host_base_locale = {wanted!r} is no locale that this host can make. "
                    f"{SUPPORTED} lists them all; take one that ends in UTF-8.",
                    steps=self.steps,
                )
            self.write(LOCALE_GEN, rules.with_generated(read_text(LOCALE_GEN) or "", wanted))
            self.act("locale-gen")
        self.write(DEFAULT_LOCALE, rules.with_lang(read_text(DEFAULT_LOCALE) or "", wanted))

    def tcmalloc(self, wanted: str) -> None:
        """Take tcmalloc out of the environment of logins, or put it back."""
        text = read_text(ENVIRONMENT)
        if text is not None:
            change = rules.without_tcmalloc if wanted == "absent" else rules.with_tcmalloc
            after = change(text)
            if after.split("\n") != text.split("\n") and after.rstrip("\n") != text.rstrip("\n"):
                self.write(ENVIRONMENT, after)

    def snaps(self, wanted: str) -> None:
        """Hold snaps, or let them go."""
        if wanted == "unmanaged" or not shutil.which("snap"):
            return
        # A daemon that does not run refreshes nothing, and cannot be told.
        if not Path("/run/snapd.socket").exists():
            return
        step = rules.snap_step(self.look("snap", "get", "system", "refresh.hold"), wanted == "held")
        if step:
            self.act(*step, must=False)

    def systemd(self, params: dict[str, Any]) -> None:
        """Make the services of the system read what was written, and turn units on or off."""
        units = rules.as_units(params["units"])
        names = [unit.name for unit in units]
        # Not a time of day: systemd 249 (Ubuntu 22.04) writes none that could be read anywhere.
        began_at = "ExecMainStartTimestampMonotonic"
        properties = f"Id,UnitFileState,ActiveState,NeedDaemonReload,{began_at}"
        journal = "systemd-journald.service"
        shown = rules.read_show(
            self.look(
                "systemctl", "show", f"--property={properties}",
                journal, *params["read_units"], *names,
            )
        )  # fmt: skip
        limits = rules.default_limits(read_text(params["manager_file"] or "/dev/null") or "")
        if limits:
            told = self.look("systemctl", "show", f"--property={','.join(limits)}")
            if rules.read_values(told) != limits:
                self.act("systemctl", "daemon-reexec")
        if any(values.get("NeedDaemonReload") == "yes" for values in shown.values()):
            self.act("systemctl", "daemon-reload")
        began = rules.wall_time(
            shown.get(journal, {}).get(began_at), time.time() - time.monotonic()
        )
        if params["journal_file"] and rules.is_stale(began, newest(params["journal_file"])):
            self.act("systemctl", "restart", journal)
        if params["remove_ipc"] is not None:
            now = self.look("busctl", "get-property", *LOGIND, "RemoveIPC").split()
            if now and now[-1] != str(params["remove_ipc"]).lower():
                # It reads its configuration anew at this signal, and no session notices.
                self.act("systemctl", "kill", "--signal=HUP", "systemd-logind.service")
        for step in rules.unit_steps(units, shown):
            self.act(*step)


def newest(path: str) -> float | None:
    """Say when a file was written, or the folder of one that is gone."""
    for place in (Path(path), Path(path).parent):
        if place.exists():
            return place.stat().st_mtime
    return None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "locale": {"type": "str", "default": ""},
            "tcmalloc": {"type": "str", "choices": ["absent", "present"], "default": "present"},
            "snaps": {
                "type": "str",
                "choices": ["held", "refreshed", "unmanaged"],
                "default": "unmanaged",
            },
            "units": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "enabled": {"type": "bool", "required": True},
                },
            },
            "read_units": {"type": "list", "elements": "str", "default": []},
            "manager_file": {"type": "path"},
            "journal_file": {"type": "path"},
            "remove_ipc": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    params = module.params
    settings = Settings(module)
    try:
        settings.tcmalloc(params["tcmalloc"])
        settings.locale(params["locale"])
        settings.snaps(params["snaps"])
        settings.systemd(params)
    except OSError as error:
        module.fail_json(msg=f"Cannot set up this host: {error}", steps=settings.steps)
    done = "".join(f"{step}\n" for step in settings.steps)
    module.exit_json(
        changed=bool(settings.steps),
        steps=settings.steps,
        diff=[*settings.differences, {"prepared": done}] if settings.steps else [],
    )


if __name__ == "__main__":
    main()
