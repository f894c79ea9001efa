"""What runs on the controller uses nothing of Linux alone, or says that it does.

The controller may be a computer with macOS. Nobody runs these tests there, so they look at the
code: what it names, and that it can be imported where Python lacks what only Linux has.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
OF_CONTROLLER = sorted(
    path
    for folder in (
        ROOT / "src/tpu_fleet",
        *(PLUGINS / name for name in ("action", "callback", "filter", "inventory", "plugin_utils")),
    )
    for path in folder.rglob("*.py")
    # What is sent to workers runs there.
    if "on_worker" not in path.parts
)
PLACES = re.compile(r"^(/proc|/sys|/run|/dev/shm|systemctl|loginctl|journalctl|ss|ip|getent)(/|$)")
ATTRIBUTES = {
    *("epoll", "pidfd_open", "pidfd_send_signal", "memfd_create", "eventfd", "sched_getaffinity"),
    *("sched_setaffinity", "posix_fadvise", "posix_fallocate", "copy_file_range", "splice"),
    *("getxattr", "setxattr", "listxattr", "getresuid", "setresuid", "pipe2", "fdatasync"),
    *("unshare", "setns", "sigtimedwait", "sigwaitinfo", "O_PATH", "O_TMPFILE", "O_DIRECT"),
    *("CLOCK_BOOTTIME", "SO_PEERCRED", "SO_BINDTODEVICE", "TCP_USER_TIMEOUT", "TCP_KEEPIDLE"),
    *("SOCK_CLOEXEC", "SOCK_NONBLOCK", "MSG_NOSIGNAL", "SIGRTMIN", "SIGRTMAX", "F_OFD_SETLK"),
}
# Where they are, and what happens without them.
KNOWN = {
    # `ps` takes its place.
    "src/tpu_fleet/watch/jobs.py": {"/proc"},
    # Refused before it is called, and asked only after a service was installed.
    "src/tpu_fleet/watch/service.py": {"/run", "systemctl", "loginctl"},
}


def of_linux(code: str) -> set[str]:
    """Return the places and attributes of Linux alone that a file names."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = PLACES.match(node.value)
            found |= {match[1]} if match else set()
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            found.add(node.attr)
    return found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('Path(f"/proc/{pid}")', {"/proc"}),
        ("os.sched_getaffinity(0)", {"sched_getaffinity"}),
        ('subprocess.run(["systemctl", "--user"])', {"systemctl"}),
        ('print("the /proc of a worker", "ssh", "/running")', set()),
    ],
)
def test_what_is_of_linux_is_noticed(code: str, found: set[str]) -> None:
    assert of_linux(code) == found


def test_the_controller_names_nothing_of_linux_alone() -> None:
    named = {
        str(path.relative_to(ROOT)): found
        for path in OF_CONTROLLER
        if (found := of_linux(path.read_text()))
    }
    assert named == KNOWN


IMPORT_ALL = """
import importlib, os, select, signal, socket, sys, time
names, attributes = eval(sys.argv[1]), eval(sys.argv[2])
# What is not ours is there already, as for this system.
import ansible.cli, ansible_runner, apprise, asyncssh, rich.console, rich.live, textual.app
import google.auth, requests, textual.widgets
sys.platform = "darwin"
for module in (os, select, signal, socket, time):
    for name in attributes & set(vars(module)):
        delattr(module, name)
for name in names:
    importlib.import_module(name)
print(len(names), "imported")
"""


def modules() -> list[str]:
    """Return what is imported on the controller, by name."""
    found = []
    for path in OF_CONTROLLER:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name.endswith("__main__"):
            continue
        ours = name.removeprefix("src.")
        found.append(ours if ours != name else f"ansible_collections.tpu.fleet.{name}")
    return found


def test_all_of_the_controller_can_be_imported_without_what_is_of_linux_alone() -> None:
    names = modules()
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, repr(names), repr(ATTRIBUTES)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == f"{len(names)} imported\n", done.stderr[-2000:]
