# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the settings of a host to their declared state. Private to tpu.fleet."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._host.state import read_text, write_atomically
from ..._host.work import Failed, Run, difference, units_shown
from . import settings as rules

ENVIRONMENT = "/etc/environment"
DEFAULT_LOCALE = "/etc/default/locale"
LOCALE_GEN = "/etc/locale.gen"
SUPPORTED = "/usr/share/i18n/SUPPORTED"
# Units of others, whose files systemd must have read as they are now.
READ_UNITS = ("apt-daily.service", "apt-daily-upgrade.service", "tpu-fleet-disk-guard.service")
LOGIND = (
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
)


class Settings:
    """Reads and changes settings; in check mode it only records what it would change."""

    def __init__(self, run: Run, check: bool, warn: Callable[[str], None]) -> None:
        self.run = run
        self.check = check
        self.warn = warn
        self.steps: list[str] = []
        self.differences: list[dict[str, str]] = []

    def look(self, *argv: str) -> str:
        """Run a command that changes nothing; return its output, or an empty text if it fails."""
        code, out, _err = self.run(list(argv))
        return str(out) if code == 0 else ""

    def act(self, *argv: str, must: bool = True) -> bool:
        """Run a command that changes something."""
        if not self.check:
            code, out, err = self.run(list(argv))
            if code != 0:
                told = f"{' '.join(argv)} failed: {(err or out).strip()}"
                if must:
                    raise Failed(told)
                self.warn(told)
                return False
        self.steps.append(" ".join(argv))
        return True

    def write(self, path: str, after: str) -> bool:
        """Write a file if its content differs; a link is followed, and stays a link."""
        before = read_text(path) or ""
        if before == after:
            return False
        if not self.check:
            real = Path(os.path.realpath(path))
            mode = real.stat().st_mode & 0o7777 if real.exists() else 0o644
            real.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(real, after, mode=mode)
        self.steps.append(f"write {path}")
        self.differences.append(difference(path, before, after))
        return True

    # -- the settings -------------------------------------------------------------------------

    def locale(self, wanted: str) -> None:
        """Generate the locale, and make it the default."""
        if not wanted:
            return
        if not rules.is_there(wanted, self.look("locale", "-a").split()):
            known = read_text(SUPPORTED)
            if known is not None and f"{wanted} UTF-8" not in known.splitlines():
                raise Failed(
                    f"fleet_locale = {wanted!r} is not a locale that this host can generate. "
                    f"{SUPPORTED} lists them all; use one that ends in UTF-8."
                )
            self.write(LOCALE_GEN, rules.with_generated(read_text(LOCALE_GEN) or "", wanted))
            self.act("locale-gen")
        self.write(DEFAULT_LOCALE, rules.with_lang(read_text(DEFAULT_LOCALE) or "", wanted))

    def tcmalloc(self, wanted: bool) -> None:
        """Remove tcmalloc from the environment of logins, or put it back."""
        text = read_text(ENVIRONMENT)
        if text is not None:
            change = rules.with_tcmalloc if wanted else rules.without_tcmalloc
            after = change(text)
            if after.split("\n") != text.split("\n") and after.rstrip("\n") != text.rstrip("\n"):
                self.write(ENVIRONMENT, after)

    def snaps(self, wanted: str) -> None:
        """Hold snaps, or allow refreshes again."""
        if wanted == "unmanaged" or not shutil.which("snap"):
            return
        # A daemon that is not running refreshes nothing, and takes no settings.
        if not Path("/run/snapd.socket").exists():
            return
        step = rules.snap_step(self.look("snap", "get", "system", "refresh.hold"), wanted == "held")
        if step:
            self.act(*step, must=False)

    def systemd(self, params: dict[str, Any]) -> None:
        """Have systemd read changed configuration, and switch units on or off."""
        units = rules.as_units(params["units"])
        names = [unit.name for unit in units]
        # Monotonic, because times of day by systemd 249 (Ubuntu 22.04) cannot be parsed reliably.
        began_at = "ExecMainStartTimestampMonotonic"
        properties = f"Id,UnitFileState,ActiveState,NeedDaemonReload,{began_at}"
        journal = "systemd-journald.service"
        shown = units_shown(
            self.look(
                "systemctl", "show", f"--property={properties}",
                journal, *READ_UNITS, *names,
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
        now = self.look("busctl", "get-property", *LOGIND, "RemoveIPC").split()
        if now and now[-1] != "false":
            # On this signal it reads its configuration again without an effect on sessions.
            self.act("systemctl", "kill", "--signal=HUP", "systemd-logind.service")
        for step in rules.unit_steps(units, shown):
            self.act(*step)


def newest(path: str) -> float | None:
    """Return when a file was written; for a removed file, when its folder changed."""
    for place in (Path(path), Path(path).parent):
        if place.exists():
            return place.stat().st_mtime
    return None
