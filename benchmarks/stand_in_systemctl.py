#!/usr/bin/python3 -IS
"""In place of systemctl on small machines, which have no systemd: what is asked for counts as done.

It takes about as long as the real one, and shows what systemd would show: limits as they are
declared, units as they were turned on or off. benchmarks/pod.py puts it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

LIMITS = Path("/etc/systemd/system.conf.d/90-tpu-fleet.conf")
UNITS = Path("/var/lib/stand-in-units")


def shown_limit(value: str) -> str:
    """Write a limit as systemd does."""
    return str(int(value[:-1]) * 1024) if value.endswith("K") else value


def limits() -> list[str]:
    """Write what the file says as systemd does once it has read it."""
    lines = []
    for line in LIMITS.read_text().splitlines() if LIMITS.exists() else ():
        key, _equals, value = line.partition("=")
        if key.startswith("DefaultLimit"):
            soft, _colon, hard = value.partition(":")
            lines.append(f"{key}={shown_limit(hard or soft)}")
            lines.append(f"{key}Soft={shown_limit(soft)}")
    return lines


def main(words: list[str]) -> None:
    """Do as the real one is expected to."""
    UNITS.mkdir(exist_ok=True)
    verb, *rest = words
    units = [word for word in rest if not word.startswith("-")]
    if verb == "show" and not units:
        print("\n".join(limits()))
    elif verb == "show":
        for unit in units:
            on = (UNITS / unit).exists()
            print(f"Id={unit}\nUnitFileState={'enabled' if on else 'disabled'}")
            print(f"ActiveState={'active' if on else 'inactive'}\nNeedDaemonReload=no")
            # Later than any file: it has read them all.
            print("ExecMainStartTimestampMonotonic=9000000000000000\nMainPID=0\n")
    elif verb == "list-units":
        for path in sorted(UNITS.iterdir()):
            print(path.name, "loaded active running")
    elif verb == "enable":
        for unit in units:
            (UNITS / unit).touch()
    elif verb == "disable":
        for unit in units:
            (UNITS / unit).unlink(missing_ok=True)


main(sys.argv[1:])
