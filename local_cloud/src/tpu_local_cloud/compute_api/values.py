"""Values that Compute Engine refuses, in its words where they are known."""

from __future__ import annotations

import re
from typing import Any

from ..compute_errors import ComputeError, invalid_at, too_large
from ..model.cloud import Cloud
from ..model.shared import labels as label_rules
from ..model.shared import networks
from ..model.tpu.node_values import EMAIL, LONGEST_VALUE, MOST_METADATA, MOST_TAGS, SCOPE
from . import links

METADATA_KEY = re.compile(r"[a-zA-Z0-9-_]{1,128}")
_INTERNATIONAL = "International characters are allowed."
_ALPHABET = "can only contain lowercase letters, numeric characters, underscores and dashes."


def check_labels(labels: dict[str, Any], where: str = "resource.labels") -> dict[str, str]:
    """Return labels that Compute Engine accepts, or raise."""
    if len(labels) > label_rules.MOST:
        why = f"There are {len(labels)} labels, and {label_rules.MOST} are allowed."
        raise invalid_at(where, "", why)
    for key, value in labels.items():
        if not label_rules.is_key(key):
            raise invalid_at(
                where,
                "",
                f"Label key '{key}' violates format constraints. The key must start with a "
                f"lowercase character, {_ALPHABET} The key can be at most 63 characters long. "
                f"{_INTERNATIONAL}",
            )
        if not label_rules.is_value(value):
            raise invalid_at(
                where,
                "",
                f"Label value '{value}' violates format constraints. The value {_ALPHABET} The "
                f"value can be at most 63 characters long. {_INTERNATIONAL}",
            )
    return dict(labels)


def check_tags(tags: list[str], where: str = "resource.tags") -> list[str]:
    """Return network tags that Compute Engine accepts, or raise."""
    if len(tags) > MOST_TAGS:
        why = f"There are {len(tags)} tags, and {MOST_TAGS} are allowed."
        raise invalid_at(f"{where}.items", "", why)
    for index, tag in enumerate(tags):
        if not links.NAME.fullmatch(tag):
            why = f"Must be a match of regex '{links.NAME.pattern}'"
            raise invalid_at(f"{where}.items[{index}]", tag, why)
    return list(dict.fromkeys(tags))


def read_metadata(metadata: dict[str, Any], where: str = "resource.metadata") -> dict[str, str]:
    """Return the items of metadata."""
    items: dict[str, str] = {}
    for index, item in enumerate(metadata.get("items") or []):
        key, value = str(item.get("key") or ""), str(item.get("value") or "")
        field = f"{where}.items[{index}]"
        if not METADATA_KEY.fullmatch(key):
            why = f"Must be a match of regex '{METADATA_KEY.pattern}'"
            raise invalid_at(f"{field}.key", key, why)
        if key in items:
            raise invalid_at(where, key, f"Duplicate metadata key: '{key}'")
        size = len(value.encode())
        if size > LONGEST_VALUE:
            raise too_large(f"{field}.value", LONGEST_VALUE, size)
        items[key] = value
    whole = sum(len(key) + len(value.encode()) for key, value in items.items())
    if whole > MOST_METADATA:
        raise too_large(where, MOST_METADATA, whole)
    return items


def check_accounts(accounts: list[dict[str, Any]], where: str = "resource.serviceAccounts") -> None:
    """Raise unless there is one service account at most, with an address and scopes."""
    if len(accounts) > 1:
        raise invalid_at(where, "", "At most one service account is supported.")
    for account in accounts:
        email = account.get("email") or "default"
        if email != "default" and not EMAIL.fullmatch(email):
            why = "Service accounts must be valid RFC 822 email addresses."
            raise invalid_at(f"{where}[0].email", email, why)
        for index, scope in enumerate(account.get("scopes") or []):
            if not SCOPE.fullmatch(scope):
                raise invalid_at(f"{where}[0].scopes[{index}]", scope, "The scope is invalid.")


def check_networks(
    cloud: Cloud, region: str, cards: list[dict[str, Any]], where: str = "resource"
) -> None:
    """Raise unless there is a network interface, and each is in a network that exists.

    The region is empty for what is global.
    """
    if not cards:
        why = "At least one network interface is required."
        raise invalid_at(f"{where}.networkInterfaces", "", why)
    for index, card in enumerate(cards):
        field = f"{where}.networkInterfaces[{index}]"
        network, subnetwork = card.get("network"), card.get("subnetwork")
        if network and not _is_link(network, "networks"):
            raise malformed(f"{field}.network", network)
        if network and not networks.is_network(cloud, network):
            raise not_there(f"{field}.network", network, "network")
        if subnetwork and not _is_link(subnetwork, "subnetworks"):
            raise malformed(f"{field}.subnetwork", subnetwork)
        # What is global names the region that it is for.
        around = region or str(subnetwork).partition("regions/")[2].partition("/")[0]
        if subnetwork and not networks.is_subnetwork(cloud, subnetwork, around):
            raise not_there(f"{field}.subnetwork", subnetwork, "subnetwork")


def _is_link(text: str, collection: str) -> bool:
    link = links.read(text)
    return link is not None and link.collection == collection


def malformed(where: str, value: str) -> ComputeError:
    """Refuse what is no URL, such as a bare name."""
    return invalid_at(where, value, "The URL is malformed.")


def not_there(where: str, value: str, what: str) -> ComputeError:
    """Refuse a link that leads to nothing."""
    return invalid_at(where, value, f"The referenced {what} resource cannot be found.")
