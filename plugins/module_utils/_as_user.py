"""Do something with the rights of a user, so that no link in a home can mislead root. Private."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any

from ._as_child import answer_of_child, take_rights

# What a child may send back; public keys and the names of what it wrote are far less.
MOST_BYTES = 4_000_000


class UserError(Exception):
    """What a user could not do, or was kept from."""


def as_user(name: str, work: Callable[[str], Any]) -> Any:
    """Call `work` with the user's home, in a process with no rights but the user's.

    What it returns goes through JSON. What it raises becomes UserError.
    """
    owner = pwd.getpwnam(name)
    said = answer_of_child(lambda: _answer(owner, work), MOST_BYTES)
    if said is None:
        raise UserError(f"what was to be done for {name} ended without an answer")
    if "error" in said:
        raise UserError(f"{name} cannot: {said['error']}")
    return said["result"]


def _answer(owner: pwd.struct_passwd, work: Callable[[str], Any]) -> dict[str, Any]:
    try:
        take_rights(owner)
        os.umask(0o077)
        os.environ.update(HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name)
        os.chdir("/")
        return {"result": work(owner.pw_dir)}
    except Exception as error:
        return {"error": str(error) or type(error).__name__}
    except BaseException:
        return {"error": "it was interrupted"}
