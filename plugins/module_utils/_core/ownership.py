# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ownership marks: a label, or a text in the description of a resource without labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .._schema.values import LABEL_KEY, LABEL_VALUE, NODE_NAME
from .errors import BadRequest, Refused

OWNER_LABEL = "tpu-fleet"
DEFAULT_OWNER = "managed"

_MARK = re.compile(r"\s*\[tpu-fleet: (?P<owner>[-_a-z0-9]{1,63})\]")
_VALUE = re.compile(r"[-_a-z0-9]{1,63}")


def owner_in(description: str) -> str | None:
    """Return the owner that a description names."""
    match = _MARK.search(description)
    return match["owner"] if match else None


def without_owner(description: str) -> str:
    """Return a description as a person wrote it."""
    return _MARK.sub("", description)


def with_owner(description: str, owner: str | None) -> str:
    """Return a description that names the owner."""
    return f"{without_owner(description)} [{OWNER_LABEL}: {owner or DEFAULT_OWNER}]".strip()


def check_name(what: str, name: str) -> None:
    """Raise if a name is none that Google takes; `what` is the kind of thing that has it."""
    if not NODE_NAME.fullmatch(name):
        raise BadRequest(
            f"{name!r} is no name for a {what}.",
            remedy="Use lower case letters, digits and dashes, a letter first, 63 at most.",
        )


def check_labels(labels: Mapping[str, str], is_own: Callable[[str], bool]) -> None:
    """Raise if a label is not valid, or is one that a module sets itself."""
    for key, value in labels.items():
        if is_own(key):
            raise BadRequest(f"The label {key} is set by this module; use the option owner.")
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            raise BadRequest(
                f"The label {key}={value} is not valid.",
                remedy="Use at most 63 lower case letters, digits, dashes and underscores.",
            )


def check_owner(owner: str | None) -> None:
    """Raise if an owner is not a valid label."""
    if owner is not None and not _VALUE.fullmatch(owner):
        raise BadRequest(
            f"The owner {owner!r} cannot be a label's value.",
            remedy="Use lower case letters, digits, dashes and underscores.",
        )


def require_owned(
    what: str,
    found: str | None,
    wanted: str | None,
    adopt: bool,
    resource: str | None = None,
) -> None:
    """Raise if a resource belongs to others, or to no known owner."""
    if adopt or (found is not None and wanted in (None, found)):
        return
    whose = (
        f"belongs to {found!r}, not to {wanted!r}"
        if found
        else "was not made by this collection (nothing on it says tpu-fleet)"
    )
    raise Refused(
        f"The {what} {whose}, so it is left alone.",
        remedy="Take it over with adopt: true if you are sure that it is yours.",
        resource=resource,
    )
