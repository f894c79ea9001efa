# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a program of the fleet on a worker, which is sent there once for each version.

The worker prints `{"say": "program"}` if it does not have this version, and then reads its length
in bytes, a line break and the program.
"""

from __future__ import annotations

import hashlib
import shlex

FOLDER = "/opt/tpu-fleet/apply"
"""Where the versions are. Any user can run them, only root can write here."""
# The caller's line comes first, so that a worker that has the version needs nothing else. It is
# unpacked, because Python would compile everything in an archive at each call. Each use gives the
# folder its time; what was not used for a day is removed when another version comes.
_BEGIN = """
import os, sys
path = sys.argv[1]
line = sys.stdin.buffer.readline()
if not os.path.isdir(path):
    import errno, hashlib, io, shutil, time, zipfile
    print('{"say": "program"}', flush=True)
    data = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    folder, name = os.path.split(path)
    kind, _, digest = name.partition("-")
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit("the program did not arrive whole: the connection was lost")
    os.umask(0o022)
    part = "%s.%d" % (path, os.getpid())
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(part)
        os.rename(part, path)
    except OSError as error:
        shutil.rmtree(part, True)
        if not os.path.isdir(path):
            why = "%s: %s." % (folder, error.strerror)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                why += " Find what is large: sudo du -xh --max-depth=3 / | sort -h | tail"
            sys.exit(why)
    for other in (each for each in os.scandir(folder) if each.name.startswith(kind + "-")):
        try:
            old = other.stat().st_mtime < time.time() - 86400
        except FileNotFoundError:
            continue
        if old:
            shutil.rmtree(other.path, True)
if os.access(path, os.W_OK):
    os.utime(path)
sys.path.insert(0, path)
"""
# Passes this call's streams to a process that has the program in memory. `_socket`, because what
# `socket` imports takes as long to load as the interpreter.
_HAND_ON = """
import _socket, os, sys
def hand_on(place):
    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    try:
        end.connect(place)
        end.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        taken = end.recv(1)
    except OSError:
        return
    if taken:
        code = end.recv(1)
        os._exit(code[0] if code else 1)
hand_on(os.path.join(sys.argv[2], os.path.basename(sys.argv[1])))
"""


def command(kind: str, program: bytes, start: str, become: bool, waiting: str = "") -> str:
    """Return the command for a worker, which has no secrets.

    `program` is a zip archive of Python packages, `kind` the one word that begins the names of its
    versions. `start` is Python code that runs with the program on its path and has the first line
    of the input as `line` (bytes, with its line break) and the folder of the version as `path`.
    `waiting` is a folder of the worker, where a process that has the version in memory may listen
    on a socket of its name: see `_sync/waiting.py`.
    """
    path = f"{FOLDER}/{kind}-{hashlib.sha256(program).hexdigest()}"
    begin, given = (_HAND_ON + _BEGIN, [path, waiting]) if waiting else (_BEGIN, [path])
    # -I and -S, because the standard library is enough, and other packages could be broken.
    words = ["/usr/bin/python3", "-I", "-S", "-c", begin + start, *given]
    return shlex.join([*(["sudo", "-n"] if become else []), *words])


def sent(program: bytes) -> bytes:
    """Return what a worker reads that asked for the program."""
    return b"%d\n%s" % (len(program), program)
