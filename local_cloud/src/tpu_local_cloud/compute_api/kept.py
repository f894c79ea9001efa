"""What is kept as it was asked for, by scope and name: policies, templates, reservations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..compute_errors import already_exists, not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared import catalog as places
from ..model.shared.surroundings import Shelf, exists
from . import catalog, instance_request, links, lists
from .methods import Method, methods
from .schema import Handler

Document = dict[str, Any]
# In what is stored, and not shown: where it is, which VMs use it, its first and last moment, and
# whether it is cancelled.
OWN = ("scope", "users", "begins", "ends", "cancelled")


def _nothing_more(_cloud: Cloud, _document: Document) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Kept:
    """The resources of one collection. Each is made, or gone, as soon as that is asked for."""

    collection: str
    shelf: str
    kind: str
    places: Mapping[str, str]
    """Under `global`, `regions` or `zones`: what the collection's methods are called there."""
    read: Callable[[Cloud, str, Document], Document]
    """Returns what is kept of a request for a scope, or raises why it is refused."""
    show: Callable[[Cloud, Document], Document]
    """Returns the fields that are shown in addition, or otherwise than they are kept."""
    refuse_deletion: Callable[[Cloud, Document], None]
    """Raises why it cannot be deleted, if so."""
    made: Callable[[Cloud, Document], None] = _nothing_more
    """Does what follows when one is made."""

    def insert(self, cloud: Cloud, call: Call) -> Document:
        """Make a resource."""
        scope, wanted = catalog.scope_of(cloud, call), call.json()
        name = instance_request.check_name(wanted.get("name"))
        if self._at(cloud, f"{scope}/{name}"):
            raise already_exists(self._resource(cloud, scope, name))
        document = {
            **self.read(cloud, scope, wanted),
            "name": name,
            "id": operations.number(),
            "creationTimestamp": operations.written(cloud.clock.now()),
            "scope": scope,
        }
        self.put(cloud, document)
        self.made(cloud, document)
        return self.begin(cloud, "insert", document)

    def get(self, cloud: Cloud, call: Call) -> Document:
        """Return one resource."""
        return self.shown(cloud, self.named(cloud, call))

    def listed(self, cloud: Cloud, call: Call) -> Document:
        """List the resources of a scope."""
        scope = catalog.scope_of(cloud, call)
        found = [self.shown(cloud, each) for each in self.all(cloud) if each["scope"] == scope]
        return lists.page(cloud, call, f"{scope}/{self.collection}", found)

    def aggregated(self, cloud: Cloud, call: Call) -> Document:
        """List the resources of all scopes."""
        found = [(each["scope"], self.shown(cloud, each)) for each in self.all(cloud)]
        scopes = {
            "global": ["global"],
            "regions": [f"regions/{region}" for region in places.REGIONS],
            "zones": lists.ZONES,
        }
        within = [scope for place in self.places for scope in scopes[place]]
        return lists.aggregated(cloud, call, self.collection, found, within)

    def delete(self, cloud: Cloud, call: Call) -> Document:
        """Delete a resource that nothing needs."""
        document = self.named(cloud, call)
        self.refuse_deletion(cloud, document)
        self._shelf(cloud).drop(_key(document))
        return self.begin(cloud, "delete", document)

    def find(self, cloud: Cloud, url: str) -> Document | None:
        """Return the resource that a whole or partial link points to, as it is stored."""
        key = links.key(cloud, url, self.collection)
        return self._at(cloud, key) if key else None

    def named(self, cloud: Cloud, call: Call) -> Document:
        """Return the resource that a request names, as it is stored, or raise not found."""
        scope, name = catalog.scope_of(cloud, call), call["id"]
        found = self._at(cloud, f"{scope}/{name}")
        if found is None:
            raise not_found(self._resource(cloud, scope, name))
        return found

    def put(self, cloud: Cloud, document: Document) -> None:
        """Store a resource."""
        self._shelf(cloud).put(_key(document), document)

    def all(self, cloud: Cloud) -> list[Document]:
        """Return what there is now, as it is stored."""
        now = cloud.clock.now()
        return [each for each in self._shelf(cloud) if exists(each, now)]

    def shown(self, cloud: Cloud, document: Document) -> Document:
        """Return a resource as the API shows it."""
        scope = document["scope"]
        place = {} if scope == "global" else {scope.split("s/")[0]: operations.link(cloud, scope)}
        return {
            **{key: value for key, value in document.items() if key not in OWN},
            "kind": self.kind,
            **place,
            "selfLink": operations.link(cloud, self.tail(document)),
            **self.show(cloud, document),
        }

    def tail(self, document: Document) -> str:
        """Return the name of a resource below its project."""
        return f"{document['scope']}/{self.collection}/{document['name']}"

    def begin(self, cloud: Cloud, verb: str, document: Document) -> Document:
        """Open an operation on a resource."""
        target = self.tail(document)
        return operations.begin(cloud, verb, target, document["scope"], document["id"])

    def methods(self) -> list[Method]:
        """Return the methods of the API for these documents."""
        found: dict[str, Handler] = {f"{self.collection}.aggregatedList": self.aggregated}
        for called in self.places.values():
            found |= {
                f"{called}.list": self.listed,
                f"{called}.insert": self.insert,
                f"{called}.get": self.get,
                f"{called}.delete": self.delete,
            }
        return methods(found)

    def _shelf(self, cloud: Cloud) -> Shelf:
        shelf: Shelf = getattr(cloud.around, self.shelf)
        return shelf

    def _at(self, cloud: Cloud, key: str) -> Document | None:
        found = self._shelf(cloud).get(key)
        return found if found and exists(found, cloud.clock.now()) else None

    def _resource(self, cloud: Cloud, scope: str, name: str) -> str:
        return f"projects/{cloud.project}/{scope}/{self.collection}/{name}"


def kept(wanted: Document, *keys: str) -> Document:
    """Return what a request says of these fields."""
    return {key: wanted[key] for key in keys if key in wanted}


def _key(document: Document) -> str:
    return f"{document['scope']}/{document['name']}"
