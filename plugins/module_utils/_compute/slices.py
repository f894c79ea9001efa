# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of slices on Compute Engine: instances with TPUs, and groups of them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from .._core.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    NameTaken,
    NotFound,
    TpuError,
    Unavailable,
    WaitTimeout,
)
from .._core.in_zone import region_of
from .._core.ownership import OWNER_LABEL, require_owned
from .._core.wait import Clock
from .._google.apis import GoogleApis
from .._tpu.client import Client
from .._tpu.model import Listing, Operation, basename, map_in, part_of, text_in, texts_in
from .._wire.transport import Transport
from . import batch
from .changes import Changes
from .client import values_of
from .groups import Group, Mark, Part
from .groups import Seen as SeenLists
from .instance import GOOGLE_METADATA, KEPT_LABELS, SLICE_LABEL, Instance, as_items
from .operations import operation_of
from .slice_bodies import attached_disk

T = TypeVar("T")
Found = TypeVar("Found", Group, Instance)
Alter = Callable[[dict[str, str]], dict[str, str]]

# How long a policy or a template takes at most; a group needs both.
PART_SECONDS = 60.0
# How often a part is recreated that exists and is not the wanted one.
PART_TRIES = 3
TEMPLATES, POLICIES = "instanceTemplates", "resourcePolicies"
GROUPS, INSTANCES = "instanceGroupManagers", "instances"
NIC, ACCESS = "nic0", "external-nat"
PAGE = 500


class ComputeSlices:
    """The slices of one project on Compute Engine."""

    def __init__(self, client: Client, apis: GoogleApis | None = None) -> None:
        self.project = client.project
        self._apis = apis or GoogleApis(client)
        self._changes = Changes(self._apis)
        self._home = f"projects/{client.project}"

    @property
    def clock(self) -> Clock:
        """Return the clock that measures the waits."""
        return self._apis.clock

    @property
    def transport(self) -> Transport:
        """Return the transport of the Compute API."""
        return self._apis.transport("compute")

    # Reading ----------------------------------------------------------------------------------

    def list(self, leftovers: bool = True) -> SeenLists:
        """Return what the project has; without `leftovers`, only what slices in use need."""
        groups = self._everywhere(GROUPS, Group.from_api)
        # Later than the groups, so that the instances of each are there.
        instances = self._everywhere(INSTANCES, Instance.from_api)
        templates: Listing[Part] = Listing([])
        policies: Listing[Part] = Listing([])
        if groups.items or leftovers:
            templates = self._everywhere(TEMPLATES, lambda raw: Part.from_api(raw, TEMPLATES))
        if leftovers:
            policies = self._everywhere(POLICIES, lambda raw: Part.from_api(raw, POLICIES))
        now = self.transport.server_time()
        seen = SeenLists(groups, instances, templates, policies, now)
        return self._with_members(seen)

    def one(self, zone: str, name: str, several: bool) -> SeenLists:
        """Return what there is of one slice as the lists would, and what else has its name.

        Only for a slice of `several` machines are its machines and its parts looked for.
        """
        group = self.group(zone, name)
        alone = self.instance(zone, name)
        instances = [] if alone is None else [alone]
        parts: dict[str, Listing[Part]] = {TEMPLATES: Listing([]), POLICIES: Listing([])}
        if several:
            path = f"{self._home}/zones/{zone}/{INSTANCES}"
            found = [Instance.from_api(raw) for raw in self._apis.items("compute", path, "items")]
            # The group says which are its own.
            instances += [item for item in found if item.has_tpus and item.name != name]
            for kind, listing in parts.items():
                path = f"regions/{region_of(zone)}/{kind}/{name}"
                if group is not None:
                    path = group.template if kind == TEMPLATES else group.policy
                raw = self._apis.find("compute", f"{self._home}/{path}") if path else None
                listing.items.extend([] if raw is None else [Part.from_api(raw, kind)])
        groups = Listing([] if group is None else [group])
        now = self.transport.server_time()
        seen = SeenLists(groups, Listing(instances), parts[TEMPLATES], parts[POLICIES], now)
        return self._with_members(seen) if several else seen

    def _with_members(self, seen: SeenLists) -> SeenLists:
        """Ask groups of which instances seem to be missing; only they know which are theirs."""
        few = [one.group for one in seen.slices if len(one.members) < one.group.existing]
        groups = [group for group in few if group.zone]
        if not groups:
            return seen
        found = {(one.zone, one.name): one for one in seen.instances.items}
        for group in groups:
            for managed in self._managed(group):
                link = text_in(managed, "instance")
                known = found.get((part_of(link, "zones"), basename(link)))
                if known is not None and not known.group:
                    made_by = {"created-by": f"{group.scope}/{GROUPS}/{group.name}"}
                    found[known.zone, known.name] = replace(
                        known, metadata={**known.metadata, **made_by}
                    )
        instances = Listing([*found.values()], seen.instances.unreachable)
        return SeenLists(seen.groups, instances, seen.templates, seen.policies, seen.at)

    def _managed(self, group: Group) -> builtins.list[dict[str, Any]]:
        path = f"{self._home}/{group.scope}/{GROUPS}/{group.name}/listManagedInstances"
        transport = self.transport
        try:
            answer = transport.repeat(lambda: transport.send("POST", path))
        except NotFound:
            return []  # It was deleted since it was listed.
        return [dict(item) for item in answer.get("managedInstances") or []]

    def group(self, zone: str, name: str) -> Group | None:
        """Return a group, if there is one."""
        raw = self._apis.find("compute", self._path(zone, GROUPS, name))
        return None if raw is None else Group.from_api(raw)

    def instance(self, zone: str, name: str) -> Instance | None:
        """Return an instance, if there is one."""
        raw = self._apis.find("compute", self._path(zone, INSTANCES, name))
        return None if raw is None else Instance.from_api(raw)

    def workers(self, zone: str, name: str, uid: str | None = None) -> builtins.list[Instance]:
        """Return the instances of a slice in the order of its workers."""
        group = _if_meant(self.group(zone, name), uid)
        if group is None:
            alone = _if_meant(self.instance(zone, name), uid)
            return [] if alone is None else [alone]
        names = [basename(text_in(item, "instance")) for item in self._managed(group)]
        found = [self.instance(zone, one) for one in names if one]
        there = [one for one in found if one is not None]
        return sorted(there, key=lambda one: (one.worker is None, one.worker or 0, one.name))

    def operations(self, zone: str) -> builtins.list[Operation]:
        """Return the latest operations of a zone on instances and groups, newest first."""
        path = f"{self._home}/zones/{zone}/operations"
        query = {"maxResults": PAGE, "orderBy": "creationTimestamp desc"}
        page = self.transport.read(path, query)
        # A disk may have the name of a slice.
        ours = [raw for raw in page.get("items") or [] if _collection(raw) in (INSTANCES, GROUPS)]
        return [operation_of(raw, self.project) for raw in ours]

    def refresh(self, operation: Operation) -> Operation:
        """Return an operation's present state; raise its error if it has failed."""
        return self._changes.refresh(operation)

    def guest_attributes(self, zone: str, instance: str, path: str) -> dict[str, Any]:
        """Return the guest attributes of a machine as in the API; empty if there are none yet."""
        return self._attributes_at(
            f"{self._path(zone, INSTANCES, instance)}/getGuestAttributes", path
        )

    def _attributes_at(self, where: str, path: str) -> dict[str, Any]:
        try:
            return self.transport.read(where, {"queryPath": path})
        except NotFound:
            return {}

    def guest_attributes_of(
        self, machines: Sequence[tuple[str, str]], path: str
    ) -> builtins.list[dict[str, Any]]:
        """Return the guest attributes of many machines, given by zone and name, as one by one."""
        paths = [
            f"{self._path(zone, INSTANCES, name)}/getGuestAttributes" for zone, name in machines
        ]
        base, query = urlsplit(self.transport.endpoint).path, urlencode({"queryPath": path})
        asked = batch.request_of([f"{base}{one}?{query}" for one in paths])
        transport = self.transport
        kind, content = transport.repeat(lambda: transport.exchange(batch.PATH, batch.KIND, asked))
        found = []
        for one, (status, data) in zip(
            paths, batch.answers_of(kind, content, len(paths)), strict=True
        ):
            # What was cut off, or refused for the moment, is asked for alone.
            alone = status not in (200, 404)
            found.append(self._attributes_at(one, path) if alone else {} if status == 404 else data)
        return found

    def offers(self, zone: str, machine_type: str) -> bool:
        """Return whether a zone lists a machine type, which does not mean that it has any free."""
        path = f"{self._home}/zones/{zone}/machineTypes/{machine_type}"
        return self._apis.find("compute", path) is not None

    def _everywhere(self, kind: str, build: Callable[[dict[str, Any]], T]) -> Listing[T]:
        """Return a resource of all zones and regions, and those that do not answer."""
        items: builtins.list[T] = []
        unreachable: dict[str, None] = {}
        query = {
            "includeAllScopes": "true",
            "returnPartialSuccess": "true",
            "maxResults": PAGE,
        }
        for page in self.transport.pages(f"{self._home}/aggregated/{kind}", query):
            for scope, found in map_in(page, "items").items():
                items += [build(raw) for raw in found.get(kind) or [] if isinstance(raw, dict)]
                if map_in(found, "warning").get("code") == "UNREACHABLE":
                    unreachable[_scope(scope)] = None
            for scope in page.get("unreachables") or []:
                unreachable[_scope(str(scope))] = None
        return Listing(items, [*unreachable])

    # Creating -----------------------------------------------------------------------------------

    def prepare(self, zone: str, bodies: Mapping[str, Any], patience: float = PART_SECONDS) -> None:
        """Make the policy and the template that a group needs.

        What an earlier attempt left is used if it is the same, and recreated if it is not.
        """
        region = f"regions/{region_of(zone)}"
        with self._or_drop_parts(zone, bodies, patience):
            self._have(f"{region}/{POLICIES}", bodies["policy"], patience)
            self._have(f"{region}/{TEMPLATES}", bodies["template"], patience)

    def create(
        self,
        zone: str,
        bodies: Mapping[str, Any],
        patience: float = PART_SECONDS,
        prepared: bool = False,
    ) -> Operation:
        """Request a slice from the bodies that slice_bodies makes; see there."""
        if "instance" in bodies:
            path = f"{self._home}/zones/{zone}/{INSTANCES}"
            return self._changes.ask("POST", path, bodies["instance"])
        if not prepared:
            self.prepare(zone, bodies, patience)
        with self._or_drop_parts(zone, bodies, patience):
            return self._changes.ask("POST", f"{self._home}/zones/{zone}/{GROUPS}", bodies["group"])

    @contextmanager
    def _or_drop_parts(
        self, zone: str, bodies: Mapping[str, Any], patience: float
    ) -> Iterator[None]:
        """Delete the parts again if there surely is no group that needs them."""
        try:
            yield
        except (Unavailable, AlreadyExists):
            raise  # There may be a group now.
        except TpuError:
            mark = Mark.read(str(bodies["policy"]["description"]))
            owner = mark.owner if mark else None
            self._drop_parts(zone, str(bodies["group"]["name"]), patience, owner)
            raise

    def _have(self, collection: str, body: Mapping[str, Any], patience: float) -> None:
        """Create a part, unless an equal one exists; replace a different one with our mark."""
        path, wanted = f"{self._home}/{collection}", Mark.read(str(body["description"]))
        for _attempt in range(PART_TRIES):
            try:
                self._finish(self._changes.ask("POST", path, body), patience)
                return
            except AlreadyExists:
                raw = self._apis.find("compute", f"{path}/{body['name']}")
            if raw is None:
                continue  # It has just been deleted.
            have = Mark.read(text_in(raw, "description"))
            if have is not None and wanted is not None and have.is_like(wanted):
                return
            if have is None or wanted is None or have.owner != wanted.owner:
                whose = f"belongs to {have.owner!r}" if have else "was not made by this collection"
                raise NameTaken(
                    f"{collection} already has {body['name']}, and it {whose}.",
                    resource=str(body["name"]),
                )
            self._replace(f"{path}/{body['name']}", patience)
        raise Busy(f"The {basename(collection)} {body['name']} is being made by another client.")

    def _replace(self, path: str, patience: float) -> None:
        """Delete a part that is not the wanted one; raise Busy while a group uses it."""
        try:
            self._finish(self._changes.ask("DELETE", path), patience)
        except NotFound:
            return
        except BadRequest as error:
            raise Busy(
                f"{error.message} It was made for another shape of the slice.",
                remedy="Wait until the group that uses it is gone.",
            ) from error

    # Deleting -----------------------------------------------------------------------------------

    def delete(
        self,
        zone: str,
        name: str,
        patience: float = PART_SECONDS,
        owner: str | None = None,
        decided: bool = True,
        uid: str | None = None,
    ) -> Operation:
        """Request the deletion of a slice: its group, then template and policy; or its instance.

        It waits `patience` seconds for the group's end. If that takes longer, template and policy
        stay and are shown as left over, and the next call deletes them. What the caller has not
        decided about has to belong to the owner; so have the parts. With an id only the group or
        the instance of this id goes. Raise NotFound if there is nothing.
        """
        there = self.group(zone, name)
        group = _if_meant(there, uid)
        if group is not None:
            if not decided:
                self._require_owned(f"group {name} in {zone}", self._owner_of(group), owner, name)
            operation = self._changes.ask("DELETE", self._path(zone, GROUPS, name))
            if self._ended(operation, patience):
                self._drop_parts(zone, name, patience, owner)
                return _done(operation)
            return operation
        alone = _if_meant(self.instance(zone, name), uid)
        if alone is not None:
            if not decided:
                what, found = f"instance {name} in {zone}", alone.labels.get(OWNER_LABEL)
                self._require_owned(what, found, owner, name)
            return self._changes.ask("DELETE", self._path(zone, INSTANCES, name))
        # Instances whose group is gone have no id together.
        strays = [] if there or uid else self._strays(zone, name, owner)
        for stray in strays:
            self._changes.ask("DELETE", self._path(zone, INSTANCES, stray.name))
        dropped = self._drop_parts(zone, name, patience, owner)
        if not (strays or dropped):
            raise NotFound(f"There is no slice {name} in {zone}.", resource=name)
        return Operation("", done=True, target=self._target(zone, name), verb="delete")

    def _strays(self, zone: str, name: str, owner: str | None) -> builtins.list[Instance]:
        """Return an owner's instances of a group that is gone."""
        path = f"{self._home}/zones/{zone}/{INSTANCES}"
        found = [Instance.from_api(raw) for raw in self._apis.items("compute", path, "items")]
        return [
            one
            for one in found
            if one.labels.get(SLICE_LABEL) == name and not one.is_single and one.has_tpus
            if OWNER_LABEL in one.labels and owner in (None, one.labels[OWNER_LABEL])
        ]

    def _drop_parts(self, zone: str, name: str, patience: float, owner: str | None) -> bool:
        """Delete an owner's template and policy of a slice, if no group uses them.

        Return whether there were any.
        """
        dropped = False
        for kind in (TEMPLATES, POLICIES):
            path = f"{self._home}/regions/{region_of(zone)}/{kind}/{name}"
            raw = self._apis.find("compute", path)
            mark = None if raw is None else Mark.read(text_in(raw, "description"))
            if mark is None or owner not in (None, mark.owner):
                continue
            try:
                self._finish(self._changes.ask("DELETE", path), patience)
                dropped = True
            except NotFound:
                dropped = True
            except (BadRequest, Busy):
                continue  # A group of another zone uses it, or this one is not quite gone.
        return dropped

    def _owner_of(self, group: Group) -> str | None:
        raw = self._apis.find("compute", f"{self._home}/{group.template}")
        return None if raw is None else Part.from_api(raw, TEMPLATES).labels.get(OWNER_LABEL)

    @staticmethod
    def _require_owned(what: str, found: str | None, owner: str | None, name: str) -> None:
        require_owned(what, found, owner, adopt=False, resource=name)

    # Changing -----------------------------------------------------------------------------------

    def set_labels(self, zone: str, instance: str, alter: Alter) -> Operation | None:
        """Change an instance's labels; return None if nothing is left to change."""

        def body(raw: dict[str, Any]) -> dict[str, Any] | None:
            have = texts_in(raw, "labels")
            wanted = alter(dict(have))
            kept = {key: have[key] for key in have if key in KEPT_LABELS}
            wanted = {**wanted, **kept}
            if wanted == have:
                return None
            return {"labels": wanted, "labelFingerprint": raw.get("labelFingerprint")}

        return self._change(zone, instance, "setLabels", body)

    def set_metadata(self, zone: str, instance: str, alter: Alter) -> Operation | None:
        """Change an instance's metadata, but nothing of what Google wrote there."""

        def body(raw: dict[str, Any]) -> dict[str, Any] | None:
            metadata = map_in(raw, "metadata")
            have = values_of(metadata)
            google = {key: have[key] for key in have if key in GOOGLE_METADATA}
            others = {key: have[key] for key in have if key not in GOOGLE_METADATA}
            changed = alter(dict(others))
            wanted = {key: changed[key] for key in changed if key not in GOOGLE_METADATA}
            if wanted == others:
                return None
            items = as_items({**google, **wanted})
            return {"fingerprint": metadata.get("fingerprint"), "items": items}

        return self._change(zone, instance, "setMetadata", body)

    def set_tags(self, zone: str, instance: str, wanted: builtins.list[str]) -> Operation | None:
        """Replace an instance's network tags."""

        def body(raw: dict[str, Any]) -> dict[str, Any] | None:
            tags = map_in(raw, "tags")
            if sorted(tags.get("items") or []) == sorted(wanted):
                return None
            return {"items": list(wanted), "fingerprint": tags.get("fingerprint")}

        return self._change(zone, instance, "setTags", body)

    def attach_disk(self, zone: str, instance: str, source: str, mode: str) -> Operation:
        """Attach a data disk."""
        path = f"{self._path(zone, INSTANCES, instance)}/attachDisk"
        return self._changes.ask("POST", path, attached_disk(source, mode))

    def detach_disk(self, zone: str, instance: Instance, source: str) -> Operation | None:
        """Detach a data disk; return None if it is not attached."""
        for disk in instance.raw.get("disks") or []:
            if basename(text_in(disk, "source")) == basename(source) and not disk.get("boot"):
                path = f"{self._path(zone, INSTANCES, instance.name)}/detachDisk"
                query = {"deviceName": text_in(disk, "deviceName")}
                return self._changes.ask("POST", path, None, query)
        return None

    def set_external_ip(self, zone: str, instance: Instance, wanted: bool) -> Operation:
        """Give an instance an external address, or take it away."""
        path = self._path(zone, INSTANCES, instance.name)
        if wanted:
            body = {"name": ACCESS, "type": "ONE_TO_ONE_NAT"}
            query = {"networkInterface": NIC}
            return self._changes.ask("POST", f"{path}/addAccessConfig", body, query)
        # The creator of the instance named the configuration.
        query = {"networkInterface": NIC, "accessConfig": instance.access or ACCESS}
        return self._changes.ask("POST", f"{path}/deleteAccessConfig", None, query)

    def start(self, zone: str, name: str, uid: str | None = None) -> Operation:
        """Start a stopped slice of one machine."""
        return self._verb(zone, name, "start", uid)

    def stop(self, zone: str, name: str, uid: str | None = None) -> Operation:
        """Stop a slice of one machine."""
        return self._verb(zone, name, "stop", uid)

    def perform_maintenance(self, zone: str, instance: str) -> Operation:
        """Start the planned maintenance of a machine now, and with it that of its whole slice."""
        return self._verb(zone, instance, "performMaintenance")

    def simulate_maintenance(self, zone: str, instance: str) -> Operation:
        """Ask the service to treat a machine as under maintenance."""
        return self._verb(zone, instance, "simulateMaintenanceEvent")

    def _verb(self, zone: str, name: str, verb: str, uid: str | None = None) -> Operation:
        if verb in ("start", "stop") and _if_meant(self.group(zone, name), uid) is not None:
            raise BadRequest(
                f"The slice {name} in {zone} is a group of machines, which cannot {verb}.",
                case="single_host_only",
                resource=name,
            )
        return self._changes.ask("POST", f"{self._path(zone, INSTANCES, name)}/{verb}")

    def _change(
        self,
        zone: str,
        instance: str,
        method: str,
        body: Callable[[dict[str, Any]], dict[str, Any] | None],
    ) -> Operation | None:
        """Read an instance, alter it, and write it back; begin again after a concurrent change."""
        path = self._path(zone, INSTANCES, instance)
        read = self.transport.read
        return self._changes.change(lambda: read(path), body, f"{path}/{method}")

    # Requests -----------------------------------------------------------------------------------

    def wait(self, operation: Operation, timeout: float = PART_SECONDS) -> Operation:
        """Wait until an operation has ended; raise its error if it has failed."""
        return self._changes.wait(operation, timeout)

    def _ended(self, operation: Operation, patience: float) -> bool:
        """Return whether an operation ends within some seconds."""
        try:
            return self.wait(operation, patience).done
        except WaitTimeout:
            return False

    def _finish(self, operation: Operation, patience: float) -> None:
        """Wait until a short operation has ended, because the next request needs its result."""
        self.wait(operation, max(patience, PART_SECONDS))

    def _path(self, zone: str, kind: str, name: str) -> str:
        return f"{self._home}/zones/{zone}/{kind}/{name}"

    def _target(self, zone: str, name: str) -> str:
        return f"{self._home}/locations/{zone}/nodes/{name}"


def _if_meant(there: Found | None, uid: str | None) -> Found | None:
    """Return what is there if it has this id, or none is given."""
    return there if there is not None and uid in (None, there.uid) else None


def _done(operation: Operation) -> Operation:
    return Operation(operation.name, True, operation.target, operation.verb, operation.create_time)


def _scope(scope: str) -> str:
    """Return a zone by its name, and any other scope as it is."""
    zone = part_of(scope, "zones")
    if zone:
        return zone
    region = part_of(scope, "regions")
    return f"regions/{region}" if region else scope


def _collection(raw: Mapping[str, Any]) -> str:
    """Return what kind of thing an operation is about."""
    return basename(text_in(raw, "targetLink").rpartition("/")[0])
