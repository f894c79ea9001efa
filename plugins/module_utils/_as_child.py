# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a child process, which may give up root's rights for good. Private to tpu.fleet."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from typing import Any


def answer_of_child(work: Callable[[], dict[str, Any]], most: int = -1) -> dict[str, Any] | None:
    """Return what `work` answers in a child, of at most so many bytes; nothing if it ends without.

    The child ends without what this process would do at its end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = work()
            with os.fdopen(writing, "w", encoding="utf-8") as stream:
                json.dump(answer, stream)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read(most)
    os.waitpid(child, 0)
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def take_rights(account: pwd.struct_passwd) -> None:
    """Give this process the user's rights and no others; there is no way back."""
    if os.geteuid() != account.pw_uid:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
