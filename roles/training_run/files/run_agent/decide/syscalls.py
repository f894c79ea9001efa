"""The names of the system calls in which programs wait, by their numbers on each architecture."""

from __future__ import annotations

_X86_64 = {
    0: "read", 1: "write", 7: "poll", 16: "ioctl", 17: "pread64", 18: "pwrite64", 20: "writev",
    23: "select", 34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto",
    45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 61: "wait4", 62: "kill", 72: "fcntl",
    73: "flock", 74: "fsync", 75: "fdatasync", 128: "rt_sigtimedwait", 130: "rt_sigsuspend",
    202: "futex", 208: "io_getevents", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid",
    257: "openat", 262: "newfstatat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
    288: "accept4", 332: "statx", 426: "io_uring_enter", 441: "epoll_pwait2",
}  # fmt: skip
_AARCH64 = {
    63: "read", 64: "write", 66: "writev", 67: "pread64", 68: "pwrite64", 29: "ioctl",
    72: "pselect6", 73: "ppoll", 101: "nanosleep", 203: "connect", 202: "accept", 206: "sendto",
    207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 260: "wait4", 25: "fcntl", 32: "flock",
    82: "fsync", 83: "fdatasync", 137: "rt_sigtimedwait", 133: "rt_sigsuspend", 98: "futex",
    4: "io_getevents", 115: "clock_nanosleep", 22: "epoll_pwait", 95: "waitid", 56: "openat",
    79: "newfstatat", 242: "accept4", 291: "statx", 426: "io_uring_enter", 441: "epoll_pwait2",
}  # fmt: skip
_NAMES = {"x86_64": _X86_64, "aarch64": _AARCH64}
ON_A_FILE = frozenset({
    "read", "write", "pread64", "pwrite64", "writev", "ioctl", "connect", "accept", "accept4",
    "sendto", "recvfrom", "sendmsg", "recvmsg", "fcntl", "flock", "fsync", "fdatasync",
})  # fmt: skip
"""Calls whose first argument is the number of an open file."""


def name_of(number: int, machine: str) -> str:
    """Return the name of a system call; of one that is not listed, its number."""
    return _NAMES.get(machine, {}).get(number, str(number))
