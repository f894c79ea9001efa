#!/usr/bin/python3 -IS
"""In place of systemctl on small machines, which have no systemd: what is asked for counts as done.

It takes about as long as the real one, and shows what systemd would show: limits as they are
declared, units as they were turned on or off. The agents of runs alone are started, reloaded,
and ended. By the name of systemd-run it starts a command. benchmarks/pod.py and benchmarks/sync.py
put it there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

LIMITS = Path("/etc/systemd/system.conf.d/90-tpu-fleet.conf")
UNITS = Path("/var/lib/stand-in-units")
FILES = Path("/etc/systemd/system")
WANTS = FILES / "multi-user.target.wants"
PIDS = Path("/run/stand-in-units")
RUN = "tpu-fleet-run@"


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


def pid_of(unit: str) -> int:
    """Return the process of a unit; 0 without one."""
    try:
        pid = int((PIDS / unit).read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return 0
    return pid


def unbound() -> None:
    """Become a process that outlives the caller, which waits until none has its output open."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def run(words: list[str]) -> None:
    """Start a command beside this process, as systemd-run does with what follows its options."""
    command = words[next(at for at, word in enumerate(words) if not word.startswith("-")) :]
    if not os.fork():
        unbound()
        os.execv(command[0], command)  # noqa: S606 - a command without a shell


def start(unit: str) -> None:
    """Start an agent as its unit says, which outlives this process."""
    lines = (FILES / unit).read_text().splitlines()
    command = next(line for line in lines if line.startswith("ExecStart=")).partition("=")[2]
    words = command.replace("%i", unit.removeprefix(RUN).removesuffix(".service")).split()
    PIDS.mkdir(exist_ok=True)
    (PIDS / unit).unlink(missing_ok=True)
    if os.fork():
        while not pid_of(unit):
            time.sleep(0.005)
        return
    unbound()
    (PIDS / f".{unit}").write_text(str(os.getpid()))
    (PIDS / f".{unit}").replace(PIDS / unit)
    os.execv(words[0], words)  # noqa: S606 - the unit's command, without a shell


def of_run(verb: str, unit: str) -> None:
    """Do what the verb says with the agent of a run."""
    pid = pid_of(unit)
    if verb == "enable":
        WANTS.mkdir(exist_ok=True)
        if not (WANTS / unit).is_symlink():
            (WANTS / unit).symlink_to(FILES / unit)
    elif verb == "disable":
        (WANTS / unit).unlink(missing_ok=True)
    elif verb in ("reload", "reload-or-restart") and pid:
        os.kill(pid, signal.SIGHUP)
    elif verb in ("stop", "restart") and pid:
        os.kill(pid, signal.SIGTERM)
        while pid_of(unit):
            time.sleep(0.01)
    if verb in ("start", "restart", "reload-or-restart") and not pid_of(unit):
        start(unit)


def main(words: list[str]) -> None:
    """Do as the real one is expected to."""
    UNITS.mkdir(exist_ok=True)
    verb, *rest = words
    for word in rest:
        if word.startswith(RUN):
            of_run(verb, word)
    units = [word for word in rest if not word.startswith("-")]
    if verb == "show" and not units:
        print("\n".join(limits()))
    elif verb == "show":
        for unit in units:
            on, pid = (UNITS / unit).exists(), pid_of(unit)
            active = pid or (on and not unit.startswith(RUN))
            print(f"Id={unit}\nUnitFileState={'enabled' if on else 'disabled'}\nLoadState=loaded")
            print(f"ActiveState={'active' if active else 'inactive'}\nNeedDaemonReload=no")
            # Later than any file: it has read them all.
            print(f"ExecMainStartTimestampMonotonic=9000000000000000\nMainPID={pid}\n")
    elif verb == "is-enabled":
        on = all((UNITS / unit).exists() for unit in units)
        print("enabled" if on else "disabled")
        sys.exit(0 if on else 1)
    elif verb == "is-active":
        on = all(pid_of(unit) or (UNITS / unit).exists() for unit in units)
        print("active" if on else "inactive")
        sys.exit(0 if on else 3)
    elif verb == "list-units":
        for path in sorted(UNITS.iterdir()):
            print(path.name, "loaded active running")
    elif verb == "enable":
        for unit in units:
            (UNITS / unit).touch()
    elif verb == "disable":
        for unit in units:
            (UNITS / unit).unlink(missing_ok=True)


if Path(sys.argv[0]).name == "systemd-run":
    run(sys.argv[1:])
else:
    main(sys.argv[1:])
