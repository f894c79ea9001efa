# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a bucket: who may do what there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.errors import BadRequest, NotFound, TpuError
from .._core.wait import Backoff, Clock
from .._wire.changes import alter_newest
from .apis import GoogleApis

# Policies do not know a new account for a while.
PROPAGATION_PAUSE = Backoff(first=1.0, factor=1.6, most=10.0)
PROPAGATION_TRIES = 12

Policy = dict[str, Any]


def read_policy(apis: GoogleApis, bucket: str) -> Policy:
    """Return the policy of a bucket with its etag; raise TpuError if there is no bucket."""
    transport = apis.transport("storage")
    try:
        return transport.read(f"b/{bucket}/iam", {"optionsRequestedPolicyVersion": 3})
    except NotFound as error:
        raise TpuError(
            f"There is no bucket {bucket}.",
            remedy="Correct its name, or make it: gcloud storage buckets create "
            f"gs://{bucket} --uniform-bucket-level-access",
            http_status=error.http_status,
        ) from error


def write_policy(apis: GoogleApis, bucket: str, policy: Policy) -> Policy:
    """Replace the policy of a bucket, if it is still the one that was read."""
    return apis.transport("storage").send("PUT", f"b/{bucket}/iam", body={**policy, "version": 3})


def alter_policy(apis: GoogleApis, bucket: str, alter: Callable[[Policy], Policy | None]) -> None:
    """Change the newest policy of a bucket; `alter` returns None when nothing is left to change."""
    once_known(
        apis.clock,
        lambda: alter_newest(
            apis.clock,
            lambda: read_policy(apis, bucket),
            alter,
            lambda policy: write_policy(apis, bucket, policy),
        ),
    )


def once_known(clock: Clock, change: Callable[[], object]) -> None:
    """Change a policy; retry while it does not know a new account."""
    delays = PROPAGATION_PAUSE.delays()
    for tries_left in reversed(range(PROPAGATION_TRIES)):
        try:
            change()
            return
        except BadRequest as error:
            if "does not exist" not in error.message or not tries_left:
                raise
        clock.sleep(next(delays))
