# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for each file system that the fleet mounts.

Another machine may have written it, or one of its people: a setuid program or a device file there
would give root of this machine to those who had root of that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .work import Failed, Run

# The last ones of a list of options are those that count.
GUARDS = ("nosuid", "nodev")
UNDONE_BY = ("suid", "dev")


def unit_name(path: str) -> str:
    """Return a path in the form that systemd uses in names of units."""
    words = [word for word in path.split("/") if word]
    text = "-".join(re.sub(r"[^A-Za-z0-9:_.]", _escaped, word) for word in words) or "-"
    return "\\x2e" + text[1:] if text.startswith(".") else text


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match.group().encode())


def point_of(line: str) -> str:
    """Return the mount point in a line of /proc/self/mountinfo."""
    return re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])


def unguarded(mountinfo: str, targets: Iterable[str]) -> dict[str, str]:
    """Return the options with which to remount those of the mount points that lack the guards."""
    wanted = {target.rstrip("/") for target in targets}
    found: dict[str, str] = {}
    for line in mountinfo.splitlines():
        left, _dash, right = line.partition(" - ")
        words = left.split()
        if len(words) < 6:
            continue
        target = point_of(line)
        if target not in wanted or right.startswith("autofs "):
            continue
        # What is mounted later lies above.
        found.pop(target, None)
        options = words[5].split(",")
        lacking = [guard for guard in GUARDS if guard not in options]
        if lacking:
            found[target] = ",".join([*options, *lacking])
    return found


def guard(run: Run, targets: Iterable[str], check: bool) -> list[str]:
    """Remount what was mounted without the guards, also while it is used; return the steps."""
    lacking = unguarded(Path("/proc/self/mountinfo").read_text(encoding="utf-8"), targets)
    for target, options in {} if check else lacking.items():
        # With bind, only the flags of the mount change: no helper and no server is asked.
        code, out, error = run(["mount", "-o", f"remount,bind,{options}", target])
        if code:
            raise Failed(f"mount -o remount,bind,{options} {target}: {(error or out).strip()}")
    return [f"mount {target} again with {','.join(GUARDS)}" for target in lacking]
