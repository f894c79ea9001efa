# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do something with another user's rights, so that no link of theirs can mislead root. Private."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any, TypeVar

from ._as_child import answer_of_child, take_rights

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
    take_rights(account)
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
    answer = answer_of_child(lambda: _answer(account, work))
    if answer is None:
        raise CannotAs("it ended without an answer")
    if "error" in answer:
        raise CannotAs(answer["error"])
    result: T = answer["result"]
    return result


def _answer(account: pwd.struct_passwd, work: Callable[[], Any]) -> dict[str, Any]:
    try:
        become(account)
        return {"result": work()}
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return {"error": f"{where}{error.strerror or type(error).__name__}"}
    except CannotAs as error:
        return {"error": str(error)}
    except BaseException as error:
        # Its text may hold what must not be shown.
        return {"error": f"unexpected {type(error).__name__}"}
