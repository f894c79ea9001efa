# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that change something: once although answers get lost, and on the newest state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .._core.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    NotFound,
    RateLimited,
    TpuError,
    Unavailable,
)
from .._core.wait import Backoff, Clock
from .transport import Transport

T = TypeVar("T")

# A concurrent change is rare, and over in a moment.
CHANGE_TRIES = 8
CHANGE_PAUSE = Backoff(first=0.3, factor=2.0, most=10.0)


def once(
    transport: Transport,
    send: Callable[[], T],
    effect: Callable[[TpuError], T | None] = lambda _error: None,
    *,
    has_id: bool = False,
    tries: int | None = None,
) -> T:
    """Send a request until it is answered; return the answer, or the effect of a lost request.

    After a lost answer `effect` looks for what the request was to do, and returns None if that is
    not there; then the request is sent again. One that carries an id is sent again without a look,
    because the API answers the same id as before. When no tries are left, or an earlier try may be
    the reason of a refusal, `effect` decides in any case.
    """
    lost, delays = False, transport.retry.backoff.delays()
    for tries_left in reversed(range(tries or transport.retry.tries)):
        try:
            return send()
        except (AlreadyExists, NotFound) as error:
            found = effect(error) if lost else None
            if found is None:
                raise
            return found
        except Unavailable as error:
            lost = True
            if tries_left:
                transport.pause(error, next(delays))
            if not tries_left or not has_id:
                found = effect(error)
                if found is not None:
                    return found
            if not tries_left:
                raise
    raise Unavailable("The retry settings allow no attempt.")


def alter_newest(
    clock: Clock,
    read: Callable[[], dict[str, Any]],
    alter: Callable[[dict[str, Any]], dict[str, Any] | None],
    write: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any] | None:
    """Read, alter, and write back; start again after a concurrent change.

    `alter` returns None when nothing is left to change, so that an answer that was lost is
    settled by looking. What is written carries the etag or fingerprint of what was read, and
    the API refuses it when that is no longer the newest.
    """
    delays = CHANGE_PAUSE.delays()
    for tries_left in reversed(range(CHANGE_TRIES)):
        wanted = alter(read())
        if wanted is None:
            return None
        try:
            return write(wanted)
        except (Busy, RateLimited, Unavailable, BadRequest) as error:
            outdated = error.http_status == 412
            if not tries_left or (isinstance(error, BadRequest) and not outdated):
                raise
        clock.sleep(next(delays))
    return None
