"""Records around the TPUs (projects, disks, …): each document is saved when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .store import Store

Document = dict[str, Any]

# Enabled from the start, so that a first try needs no preparation.
ENABLED = (
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "oslogin.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
    "tpu.googleapis.com",
)
# Known, but disabled at first.
OFFERED = (
    "artifactregistry.googleapis.com",
    "container.googleapis.com",
    "secretmanager.googleapis.com",
)

# The firewall rules that Google creates with the network `default`.
DEFAULT_RULES: dict[str, tuple[str, list[Document], list[str]]] = {
    "default-allow-internal": (
        "Allow internal traffic on the default network",
        [
            {"IPProtocol": "tcp", "ports": ["0-65535"]},
            {"IPProtocol": "udp", "ports": ["0-65535"]},
            {"IPProtocol": "icmp"},
        ],
        ["10.128.0.0/9"],
    ),
    "default-allow-ssh": (
        "Allow SSH from anywhere",
        [{"IPProtocol": "tcp", "ports": ["22"]}],
        ["0.0.0.0/0"],
    ),
}


def exists(document: Document, now: float) -> bool:
    """Return whether a document is there at a moment; a few begin and end by themselves."""
    begins, ends = document.get("begins"), document.get("ends")
    return (begins is None or begins <= now) and (ends is None or now < ends)


class Shelf:
    """Documents of one kind by key."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._kind = kind
        self._documents = {row["key"]: row["document"] for row in store.load(kind)}

    def __contains__(self, key: str) -> bool:
        return key in self._documents

    def __iter__(self) -> Iterator[Document]:
        return iter([self._documents[key] for key in sorted(self._documents)])

    def get(self, key: str) -> Document | None:
        """Return a document, if there is one."""
        return self._documents.get(key)

    def put(self, key: str, document: Document) -> None:
        """Save a document."""
        self._documents[key] = document
        self._store.save(self._kind, key, {"key": key, "document": document})

    def drop(self, key: str) -> None:
        """Delete a document."""
        self._documents.pop(key, None)
        self._store.delete(self._kind, key)

    def clear(self) -> None:
        """Forget all."""
        self._documents.clear()


class Surroundings:
    """Everything in the project that is not a TPU."""

    def __init__(self, store: Store) -> None:
        self.services = Shelf(store, "service")
        self.disks = Shelf(store, "disk")
        self.firewalls = Shelf(store, "firewall")
        self.networks = Shelf(store, "network")
        # In regions, by `region/name`; those of networks in auto mode are not here.
        self.subnetworks = Shelf(store, "subnetwork")
        self.accounts = Shelf(store, "account")
        self.policies = Shelf(store, "policy")
        self.secrets = Shelf(store, "secret")
        self.logins = Shelf(store, "login")
        self.operations = Shelf(store, "google_operation")
        self.resource_policies = Shelf(store, "resource_policy")
        self.instance_templates = Shelf(store, "instance_template")
        self.compute_reservations = Shelf(store, "compute_reservation")
        self.future_reservations = Shelf(store, "future_reservation")
        self.github_accounts = Shelf(store, "github_account")
        self.github_repositories = Shelf(store, "github_repository")
        self.github_keys = Shelf(store, "github_key")
        if not any(True for _document in self.services):
            self._furnish()

    def clear(self) -> None:
        """Reset everything to the initial state."""
        for shelf in vars(self).values():
            shelf.clear()
        self._furnish()

    def enabled(self, service: str) -> bool:
        """Return whether a service is enabled."""
        return (self.services.get(service) or {}).get("state") == "ENABLED"

    def _furnish(self) -> None:
        for service in (*ENABLED, *OFFERED):
            state = "ENABLED" if service in ENABLED else "DISABLED"
            self.services.put(service, {"service": service, "state": state})
        for name, (description, allowed, ranges) in DEFAULT_RULES.items():
            rule = {
                "name": name,
                "description": description,
                "network": "default",
                "direction": "INGRESS",
                "priority": 65534,
                "allowed": allowed,
                "sourceRanges": ranges,
            }
            self.firewalls.put(name, rule)
