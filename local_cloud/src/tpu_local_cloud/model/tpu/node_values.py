"""Values of a node that Google refuses, of a new one and in an update.

The words about labels are Google's; docs/internals/gcloud.md says which others are not.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ... import errors
from ...errors import ApiError
from ..shared import labels as label_rules
from ..shared import networks
from ..shared.ledger import Ledger

LONGEST_DESCRIPTION = 512
# Limits of Compute Engine, whose VMs the workers are.
LONGEST_KEY, LONGEST_VALUE, MOST_METADATA = 128, 262_144, 524_288
MOST_TAGS = 64
TAG = re.compile(r"(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
METADATA_KEY = re.compile(r"[a-zA-Z0-9-_]+")
EMAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
SCOPE = re.compile(r"https://[^\s]+")
_EXCLUSIVE = ("preemptible", "reserved", "spot")


def check(ledger: Ledger, zone: str, body: dict[str, Any]) -> None:
    """Raise if a value of a node, or of the part that an update names, is not one."""
    _check_labels(body.get("labels") or {})
    if len(body.get("description") or "") > LONGEST_DESCRIPTION:
        raise errors.bad_request(
            f"description must not be longer than {LONGEST_DESCRIPTION} characters."
        )
    _check_tags(body.get("tags") or [])
    _check_metadata(body.get("metadata") or {})
    _check_account(body.get("serviceAccount") or {})
    scheduling = body.get("schedulingConfig") or {}
    asked = [name for name in _EXCLUSIVE if scheduling.get(name)]
    if len(asked) > 1:
        raise errors.bad_request(f"{' and '.join(asked)} cannot both be set.")
    for card in [body.get("networkConfig") or {}, *(body.get("networkConfigs") or [])]:
        _check_network(ledger, zone, card)


def _check_labels(labels: dict[str, str]) -> None:
    if len(labels) > label_rules.MOST:
        why = f"there are {len(labels)} labels, and {label_rules.MOST} are allowed"
        raise errors.invalid_labels(why)
    for key, value in labels.items():
        shown = _quoted(key)
        if not key:
            raise errors.invalid_labels("key cannot be empty")
        if len(key) > label_rules.LONGEST:
            why = f"key {shown} is longer than {label_rules.LONGEST} characters"
            raise errors.invalid_labels(why)
        wrong = label_rules.wrong_character(key)
        if wrong is not None:
            raise errors.invalid_labels(f"key {shown} {_contains(key, wrong)}")
        if not label_rules.is_letter(key[0]):
            raise errors.invalid_labels(f"key {shown} must start with a letter")
        if len(value) > label_rules.LONGEST:
            why = f"value for key {shown} is longer than {label_rules.LONGEST} characters"
            raise errors.invalid_labels(why)
        wrong = label_rules.wrong_character(value)
        if wrong is not None:
            why = f"value {_quoted(value)} {_contains(value, wrong)} for key {shown}"
            raise errors.invalid_labels(why)


def _contains(text: str, place: int) -> str:
    """Return what Google says of a wrong character; it counts bytes."""
    index = len(text[:place].encode())
    return f"contains invalid character '{text[place]}' at index {index}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _check_tags(tags: list[str]) -> None:
    if len(tags) > MOST_TAGS:
        raise errors.bad_request(f"There are {len(tags)} tags, and {MOST_TAGS} are allowed.")
    for index, tag in enumerate(tags):
        if not TAG.fullmatch(tag):
            raise errors.bad_request(
                f"Invalid value for field 'tags[{index}]': '{tag}'. "
                f"Must be a match of regex '{TAG.pattern}'"
            )


def _check_metadata(metadata: dict[str, str]) -> None:
    whole = 0
    for key, value in metadata.items():
        if len(key) > LONGEST_KEY or not METADATA_KEY.fullmatch(key):
            raise errors.bad_request(
                f"Invalid metadata key: '{key}'. Must be a match of regex "
                f"'{METADATA_KEY.pattern}', with at most {LONGEST_KEY} characters."
            )
        size = len(value.encode())
        if size > LONGEST_VALUE:
            raise too_large(f"metadata[{key}]", LONGEST_VALUE, size)
        whole += len(key) + size
    if whole > MOST_METADATA:
        raise too_large("metadata", MOST_METADATA, whole)


def too_large(field: str, most: int, size: int) -> ApiError:
    """Refuse a value of too many characters."""
    return errors.bad_request(
        f"Value for field '{field}' is too large: maximum size {most} character(s); "
        f"actual size {size}."
    )


def _check_account(account: dict[str, Any]) -> None:
    email = account.get("email") or "default"
    if email != "default" and not EMAIL.fullmatch(email):
        raise errors.bad_request(f'The service account "{email}" is not an email address.')
    for scope in account.get("scope") or []:
        if not SCOPE.fullmatch(scope):
            raise errors.bad_request(f'The scope "{scope}" is not a URL.')


def _check_network(ledger: Ledger, zone: str, card: dict[str, Any]) -> None:
    network, subnetwork = card.get("network"), card.get("subnetwork")
    if network and not networks.is_network(ledger, network):
        raise errors.bad_request(f'The network "{network}" was not found.')
    region = zone.rpartition("-")[0]
    if subnetwork and not networks.is_subnetwork(ledger, subnetwork, region):
        raise errors.bad_request(f'The subnetwork "{subnetwork}" was not found in {region}.')
