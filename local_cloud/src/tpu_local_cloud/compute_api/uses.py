"""Where a template or a policy is used: what is in use cannot be deleted."""

from __future__ import annotations

from ..compute_errors import in_use
from ..model.cloud import Cloud


def refuse(cloud: Cloud, what: str, tail: str) -> None:
    """Raise if a group uses a template or policy, which is named below the project."""
    users = cloud.compute.users_of(what.rpartition("_")[2], tail)
    if users:
        raise in_use(what, f"projects/{cloud.project}/{tail}", users[0])
