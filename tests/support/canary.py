"""Find a secret wherever it came to: on this computer, on machines, in what was printed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from fleet import Fleet

# Runs on a machine as root. What to look for comes over standard input, never as an argument.
ON_MACHINE = r"""
import json, os, pwd, stat, subprocess, sys, urllib.request
wanted = [bytes.fromhex(text) for text in json.load(sys.stdin)]
hits = []
def look(where, data, mode="", owner=""):
    for one in wanted:
        at = data.find(one)
        if at >= 0:
            hits.append([where, mode, owner, data[at:at + 60].decode(errors="replace")])
            return
def who(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
files = 0
for root, folders, names in os.walk("/"):
    if root in ("/proc", "/sys", "/dev"):
        folders[:] = []
        continue
    for name in names:
        path = os.path.join(root, name)
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > 1 << 28:
                continue
            with open(path, "rb") as stream:
                look(path, stream.read(), oct(stat.S_IMODE(status.st_mode)), who(status.st_uid))
            files += 1
        except OSError:
            pass
look("the journal", subprocess.run(["journalctl", "-o", "export", "--no-pager"],
     stdout=subprocess.PIPE).stdout)
root = "http://169.254.169.254/computeMetadata/v1/"
for tail in ("?recursive=true&alt=json", "instance/guest-attributes/?recursive=true&alt=json"):
    request = urllib.request.Request(root + tail, headers={"Metadata-Flavor": "Google"})
    try:
        look("the metadata", urllib.request.urlopen(request, timeout=10).read())
    except OSError:
        pass
for table in ("environ", "cmdline"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/%s" % (pid, table), "rb") as stream:
                data = stream.read()
            look("a %s of %s" % (table, pid), data, "", who(os.stat("/proc/" + pid).st_uid))
        except OSError:
            pass
print(json.dumps({"files": files, "hits": hits}))
"""


def forms(marker: str, more: Iterable[str] = ()) -> list[bytes]:
    """Return how a marker may look: as it is, and inside anything in base64."""
    found = [marker.encode(), *(text.encode() for text in more)]
    for shift in range(3):
        packed = base64.b64encode(b"\0" * shift + marker.encode() + b"\0\0").decode()
        # The first and last signs depend on what stands beside it.
        found.append(packed[-(-shift * 8 // 6) : (shift + len(marker)) * 8 // 6].encode())
    return found


class Search:
    """Looks for one marker."""

    def __init__(self, marker: str, more: Iterable[str] = ()) -> None:
        self.wanted = forms(marker, more)

    def text(self, text: str | bytes) -> list[str]:
        """Return the lines that hold it."""
        data = text.encode() if isinstance(text, str) else text
        # What a terminal or YAML wraps is one line here.
        joined = re.sub(rb"\\?\n\s*", b"", data)
        if not any(one in data or one in joined for one in self.wanted):
            return []
        lines = [ln for ln in data.splitlines() if any(one in ln for one in self.wanted)]
        return [line[:300].decode(errors="replace") for line in lines] or ["in wrapped lines"]

    def folder(self, folder: Path) -> list[str]:
        """Return the files below a folder that hold it, also by their names."""
        found = []
        for path in folder.rglob("*"):
            if self.text(str(path)):
                found.append(f"the name {path}")
            with contextlib.suppress(OSError):  # others come and go in a folder for all
                if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 28:
                    data = path.read_bytes()
                    if any(one in data for one in self.wanted):
                        found.append(str(path))
        return found

    def machine(self, fleet: Fleet, host: str) -> dict[str, tuple[str, str]]:
        """Return where on a machine it is: (mode, owner) by place."""
        command = f"sudo python3 -c '{ON_MACHINE}'"
        done = subprocess.run(
            ["ssh", "-F", str(fleet.ssh_config), "-o", "LogLevel=ERROR", host, command],
            input=json.dumps([one.hex() for one in self.wanted]),
            env=fleet.env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        assert told["files"] > 1000
        return {where: (mode, owner) for where, mode, owner, _text in told["hits"]}


class Watch:
    """Looks at the arguments of all processes, here and on machines that share this kernel."""

    def __init__(self, search: Search, pause: float = 0.03) -> None:
        self.search = search
        self.found: set[str] = set()
        self.looks = 0
        self._pause = pause
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join(10)

    def _run(self) -> None:
        seen: set[str] = set()
        while not self._end.wait(self._pause):
            with os.scandir("/proc") as entries:
                now = {entry.name for entry in entries if entry.name.isdigit()}
            self.looks += 1
            # A process may become another program: the youngest are looked at again.
            for pid in (now - seen) | set(sorted(now, key=int)[-40:]):
                try:
                    data = Path("/proc", pid, "cmdline").read_bytes()
                except OSError:
                    continue
                if any(one in data for one in self.search.wanted):
                    self.found.add(data.replace(b"\0", b" ")[:300].decode(errors="replace"))
            seen = now
