"""Where a template or a policy is used: what is in use cannot be deleted."""

from __future__ import annotations

from ..compute_errors import in_use
from ..model.cloud import Cloud


def refuse(cloud: Cloud, what: str, tail: str) -> None:
    """Raise if a group uses a template or policy, which is named below the project."""
    groups = cloud.compute
    ask = groups.users_of_policy if what == "resource_policy" else groups.users_of_template
    users = ask(tail)
    if users:
        raise in_use(what, f"projects/{cloud.project}/{tail}", users[0])
