"""Do something with the rights of a user, so that no link in a home can mislead root. Private."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from typing import Any

# What a child may send back; public keys and the names of what it wrote are far less.
MOST_BYTES = 4_000_000


class UserError(Exception):
    """What a user could not do, or was kept from."""


def as_user(name: str, work: Callable[[str], Any]) -> Any:
    """Call `work` with the user's home, in a process with no rights but the user's.

    What it returns goes through JSON. What it raises becomes UserError.
    """
    owner = pwd.getpwnam(name)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_child(owner, work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read(MOST_BYTES)
    os.waitpid(child, 0)
    try:
        said = json.loads(answer)
    except ValueError:
        raise UserError(f"what was to be done for {name} ended without an answer") from None
    if "error" in said:
        raise UserError(f"{name} cannot: {said['error']}")
    return said["result"]


def _in_child(owner: pwd.struct_passwd, work: Callable[[str], Any], writing: int) -> None:
    """Work, answer, and end without what the parent would do at its end."""
    answer = {"error": "it was interrupted"}
    try:
        if os.getuid() != owner.pw_uid:
            os.initgroups(owner.pw_name, owner.pw_gid)
            os.setgid(owner.pw_gid)
            os.setuid(owner.pw_uid)
        os.umask(0o077)
        os.environ.update(HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name)
        os.chdir("/")
        answer = {"result": work(owner.pw_dir)}
    except Exception as error:
        answer = {"error": str(error) or type(error).__name__}
    finally:
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
        os._exit(0)
