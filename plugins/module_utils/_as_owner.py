# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do something with another user's rights, so that no link of theirs can mislead root. Private."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class CannotAs(Exception):
    """What was done as somebody else failed, and why."""


def account_of(name: str) -> pwd.struct_passwd | None:
    """Return a user's account, if there is one."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def become(account: pwd.struct_passwd) -> None:
    """Turn this process into one of the user's; there is no way back."""
    if os.geteuid() != account.pw_uid:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(
        HOME=account.pw_dir,
        LOGNAME=account.pw_name,
        USER=account.pw_name,
        PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        LANG="C.UTF-8",
    )
    os.chdir("/")


def as_owner(account: pwd.struct_passwd, work: Callable[[], T]) -> T:
    """Return what `work` returns when the user does it; it must fit into JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        answer: dict[str, Any]
        try:
            become(account)
            answer = {"result": work()}
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            answer = {"error": f"{where}{error.strerror or type(error).__name__}"}
        except CannotAs as error:
            answer = {"error": str(error)}
        except BaseException as error:
            # Its text may hold what must not be shown.
            answer = {"error": f"unexpected {type(error).__name__}"}
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as stream:
                json.dump(answer, stream)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        raise CannotAs("it ended without an answer")
    answer = json.loads(text)
    if "error" in answer:
        raise CannotAs(answer["error"])
    result: T = answer["result"]
    return result
