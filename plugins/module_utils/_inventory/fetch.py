# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory data: fetched as plain data that a cache can hold, and turned into workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compute.batch import MOST
from .._compute.groups import slice_nodes
from .._compute.slices import ComputeSlices
from .._core import threads
from .._core.errors import PermissionDenied, TpuError
from .._core.ownership import OWNER_LABEL
from .._tpu.model import COMPUTE, TPU, Node, basename
from .._tpu.workers import Worker, unavailable_reason, workers_of
from . import connections, host_keys

if TYPE_CHECKING:
    from .._tpu.client import Client

PARALLEL_CALLS = 16
Listed = tuple[list[Node], list[str]]
NOT_PUBLISHED = "host keys not published yet"
NO_INSTANCE_NAME = "name for the tunnel not published yet"


@dataclass(frozen=True)
class Query:
    """The requested nodes, and how to reach their machines."""

    projects: tuple[str, ...]
    zones: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    accelerator_types: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    connect_with: str = "external_ip"
    host_key_policy: str = host_keys.POLICY_VERIFY
    key_exchange: str = connections.KEX_DEFAULT
    endpoint: str | None = None
    apis: tuple[str, ...] = (TPU, COMPUTE)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as after a round trip through JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def wants(self, node: Node) -> bool:
        """Return whether a node passes the filters."""
        labels = {**self.labels, **({OWNER_LABEL: self.owner} if self.owner else {})}
        return (
            (not self.states or node.state in self.states)
            and (not self.accelerator_types or node.accelerator_type in self.accelerator_types)
            and all(node.labels.get(key) == value for key, value in labels.items())
            # Nodes of the old architecture have no machine to log in to.
            and not str(node.raw.get("apiVersion", "")).startswith("V1")
        )

    @property
    def attribute_path(self) -> str | None:
        """Return the needed guest attributes, if any; empty means all of them."""
        if self.connect_with == "iap":
            return ""
        if self.host_key_policy == host_keys.POLICY_VERIFY:
            return f"{host_keys.NAMESPACE}/"
        return None


@dataclass(frozen=True)
class Host:
    """A worker with what Ansible needs to reach it."""

    worker: Worker
    connection: dict[str, Any]

    @property
    def variables(self) -> dict[str, Any]:
        """Return all its host variables."""
        return {**self.worker.variables, **self.connection}


def fetch(query: Query, open_client: Callable[[str], Client]) -> dict[str, Any]:
    """Read the API; return plain data that a cache can hold."""
    clients = {project: open_client(project) for project in query.projects}
    compute = {project: ComputeSlices(client) for project, client in clients.items()}
    lists: list[Callable[[], Listed | PermissionDenied]] = []
    for project, client in clients.items():
        if TPU in query.apis:
            zones = query.zones or ("-",)
            lists += [partial(_list_or_disabled, client, project, zone) for zone in zones]
        if COMPUTE in query.apis:
            lists.append(partial(_list_compute, compute[project], project, query))
    with threads.pool(PARALLEL_CALLS) as pool:
        answers_of_lists = list(pool.map(lambda listed: listed(), lists))
        listings = _answered(answers_of_lists, alone=COMPUTE not in query.apis)
        nodes = [node for listing in listings for node in listing[0] if query.wants(node)]
        path = query.attribute_path
        asked = [node for node in nodes if path is not None and not unavailable_reason(node)]
        asks: list[Callable[[], dict[str, Any]]] = []
        for project, client in clients.items():
            here = [node for node in asked if node.project == project]
            of_tpu = [node for node in here if node.api != COMPUTE]
            asks += [partial(_attributes, client, node, path) for node in of_tpu]
            machines = [(n, one.instance) for n in here if n.api == COMPUTE for one in n.endpoints]
            asks += [
                partial(_attributes_of, compute[project], machines[first : first + MOST], path)
                for first in range(0, len(machines), MOST)
            ]
        attributes: dict[str, Any] = {}
        for answers in pool.map(lambda ask: ask(), asks):
            for name, answer in answers.items():
                _add(attributes, name, answer)
    return {
        "query": query.to_dict(),
        "nodes": [node.raw for node in nodes],
        "unreachable": sorted({place for listing in listings for place in listing[1]}),
        "attributes": attributes,
    }


def hosts_of(
    data: Mapping[str, Any], query: Query, directory: Path
) -> tuple[list[Host], dict[Path, list[str]]]:
    """Return the hosts in natural order, and the lines of each known_hosts file.

    It makes no difference whether the data is fresh or comes from a cache.
    """
    nodes = [Node.from_api(raw) for raw in data["nodes"]]
    hosts: list[Host] = []
    files: dict[Path, list[str]] = {}
    workers = workers_of(nodes, query.connect_with)
    for _node, of_node in groupby(workers, key=lambda worker: id(worker.node)):
        siblings = list(of_node)
        node = siblings[0].node
        answer = data["attributes"].get(_key(node)) or {}
        published = answer.get("workers") or []
        uid = node.uid or node.raw["name"]
        file = host_keys.known_hosts_path(directory, uid)
        if query.host_key_policy == host_keys.POLICY_VERIFY:
            files[file] = host_keys.known_hosts_lines(uid, [entry["keys"] for entry in published])
        for worker in siblings:
            entry = published[worker.index] if worker.index < len(published) else {}
            reason = _missing(query, answer, entry)
            if reason and worker.usable:
                worker = worker.without(reason)
            connection = _connection(worker, query, entry.get("instance"), uid, file)
            hosts.append(Host(worker, connection))
    return hosts, files


def attribute_errors(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Group the nodes with unreadable guest attributes by reason."""
    errors: dict[str, list[str]] = {}
    for name, answer in data["attributes"].items():
        if answer.get("error"):
            errors.setdefault(answer["error"], []).append(basename(name))
    return errors


def _missing(query: Query, answer: Mapping[str, Any], entry: Mapping[str, Any]) -> str | None:
    """Return what a worker must still publish before it can be reached."""
    if query.host_key_policy == host_keys.POLICY_VERIFY and not entry.get("keys"):
        return answer.get("error") or NOT_PUBLISHED
    if query.connect_with == "iap" and not entry.get("instance"):
        return answer.get("error") or NO_INSTANCE_NAME
    return None


def _connection(
    worker: Worker,
    query: Query,
    instance: str | None,
    uid: str,
    file: Path,
) -> dict[str, Any]:
    proxy = None
    address = worker.address
    if query.connect_with == "iap":
        address = instance or worker.host
        if instance:
            proxy = host_keys.iap_proxy_command(instance, worker.node.project, worker.node.zone)
    options = {
        **host_keys.ssh_options(uid, worker.index, file, query.host_key_policy, proxy),
        **connections.connection_options(query.key_exchange),
    }
    variables: dict[str, Any] = {
        "ansible_ssh_common_args": host_keys.ssh_arguments(options),
        "tpu_vm_ssh_options": options,
    }
    if address:
        variables["ansible_host"] = address
        variables["ansible_control_path"] = host_keys.control_path(uid, worker.index, address)
    return variables


def _list_or_disabled(client: Client, project: str, zone: str) -> Listed | PermissionDenied:
    """Return the nodes, or the error that the API is not enabled, so that it has none."""
    try:
        return _list(client, project, zone)
    except PermissionDenied as error:
        if error.flavour != "api_disabled":
            raise
        return error


def _answered(answers: Sequence[Listed | PermissionDenied], alone: bool) -> list[Listed]:
    """Return the lists of APIs that are enabled; raise if the other one has nothing either."""
    listings = [answer for answer in answers if not isinstance(answer, PermissionDenied)]
    found = any(nodes or unreachable for nodes, unreachable in listings)
    for answer in answers:
        if isinstance(answer, PermissionDenied) and (alone or not found):
            raise answer
    return listings


def _list(client: Client, project: str, zone: str) -> tuple[list[Node], list[str]]:
    try:
        listing = client.nodes.list(zone)
    except TpuError as error:
        error.message = f"Project {project}: {error.message}"
        raise
    nodes = [_under(project, node) for node in listing.items]
    return nodes, [f"{project}/{place}" for place in listing.unreachable]


def _under(project: str, node: Node) -> Node:
    """Return a node's name with the requested project id, because answers may have its number."""
    name = f"projects/{project}/locations/{node.zone}/nodes/{node.name}"
    return node if node.raw.get("name") == name else Node.from_api({**node.raw, "name": name})


def _list_compute(slices: ComputeSlices, project: str, query: Query) -> Listed:
    """Return the slices of Compute Engine; none where the other API is all that may be read."""
    try:
        listing = slice_nodes(slices.list(leftovers=False))
    except PermissionDenied as error:
        if TPU in query.apis:
            return [], []
        error.message = f"Project {project}: {error.message}"
        raise
    wanted = set(query.zones)
    nodes = [_under(project, node) for node in listing.items]
    return (
        [node for node in nodes if not wanted or node.zone in wanted],
        [f"{project}/{place}" for place in listing.unreachable if not wanted or place in wanted],
    )


def _key(node: Node) -> str:
    """Return the name of a node, which is unique among the nodes of both APIs."""
    return f"{node.api}/{node.raw['name']}" if node.api == COMPUTE else str(node.raw["name"])


def _attributes(client: Client, node: Node, path: str | None) -> dict[str, Any]:
    """Return the relevant guest attributes of a node's workers, by the name of the node."""
    try:
        entries = client.nodes.guest_attributes(node.zone, node.name, path or "")
    except TpuError as error:
        # A node that is deleted meanwhile must not hide the others.
        return {_key(node): _unreadable(error)}
    return {_key(node): {"workers": [_relevant(entry) for entry in entries]}}


def _attributes_of(
    slices: ComputeSlices, machines: Sequence[tuple[Node, str]], path: str | None
) -> dict[str, Any]:
    """Return the same of machines of Compute Engine, given with their slices, in their order."""
    found: dict[str, Any] = {}
    try:
        asked = [(node.zone, instance) for node, instance in machines]
        entries = slices.guest_attributes_of(asked, path or "")
    except TpuError as error:
        return {_key(node): _unreadable(error) for node, _instance in machines}
    for (node, instance), entry in zip(machines, entries, strict=True):
        # The name of the machine is known, whatever it says of itself.
        one = {**_relevant(entry), "instance": instance}
        _add(found, _key(node), {"workers": [one]})
    return found


def _add(found: dict[str, Any], name: str, answer: dict[str, Any]) -> None:
    """Add what is known of some workers of a node; an error stands for all of them."""
    known = found.get(name)
    if known is None or "error" in answer:
        found[name] = answer
    elif "error" not in known:
        found[name] = {"workers": [*known["workers"], *answer["workers"]]}


def _unreadable(error: TpuError) -> dict[str, Any]:
    return {"error": f"guest attributes cannot be read: {error}"}


def _relevant(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of one worker's attributes matters, which is all that a cache must hold."""
    return {
        "keys": host_keys.published_keys(entry),
        "instance": host_keys.instance_name(entry),
    }
