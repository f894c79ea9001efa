"""The metadata server of a TPU VM. The address of a request identifies the worker."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import secrets
import time
from ipaddress import IPv4Network
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..errors import ApiError, unauthenticated
from ..google import api as google
from ..model.cloud import Cloud
from ..model.compute import boot_disks
from ..model.compute.metadata import HOSTS, host_bounds
from ..model.compute.records import tags
from ..model.shared import catalog, networks
from ..model.shared.clock import seconds_of
from ..model.shared.records import NodeRecord
from ..model.shared.schema import snake
from ..storage_api.access import Caller
from ..tables._schema.accelerators import API_ENUM, GENERATIONS, parse
from .frontend import FrontEnd
from .storage import StorageApp, of_machines

ROOT = "/computeMetadata/v1"
# How often a waiting request checks for a change.
LOOK_EVERY = 0.5
# Lists that are read as a whole, unlike directories.
LEAVES = ("aliases", "dns-servers", "scopes", "tags")
# Directories whose entries have names of their own.
NAMED = ("attributes", "service-accounts")
HEADERS = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}


def tpu_env(cloud: Cloud, node: NodeRecord, worker: int) -> str:
    """Return the lines of the attribute `tpu-env`."""
    kind = parse(node.body["acceleratorType"])
    chosen = node.body.get("acceleratorConfig", {}).get("topology")
    topology = chosen or (kind.topology if kind else "")
    chips = min(kind.chips // kind.workers, 8) if kind else 0
    chip_bounds = ",".join(map(str, HOSTS.get(chips, ())))
    bounds = host_bounds(topology, chips) if topology else ""
    values = {
        "ACCELERATOR_TYPE": node.body["acceleratorType"],
        "CHIPS_PER_HOST_BOUNDS": chip_bounds,
        "CONSUMER_PROJECT_ID": cloud.project,
        "CONSUMER_PROJECT_NUMBER": cloud.number,
        "HOST_BOUNDS": bounds,
        "NODE_ID": node.name,
        "PREEMPTIBLE": str(node.spot).lower(),
        "RUNTIME_VERSION": node.body.get("runtimeVersion", ""),
        "TOPOLOGY": topology,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": chip_bounds,
        "TPU_PROCESS_BOUNDS": bounds,
        "TYPE": API_ENUM[kind.generation] if kind else "",
        "UID": node.uid,
        "WORKER_ID": str(worker),
        "ZONE": node.zone,
        **_multislice(cloud, node),
    }
    return "".join(f"{key}: '{value}'\n" for key, value in values.items())


def _multislice(cloud: Cloud, node: NodeRecord) -> dict[str, str]:
    """Return the data by which the slices of a multislice find each other."""
    queued = cloud.queued.get(f"{node.zone}/queuedResources/{node.queued_resource}")
    if not node.multislice or queued is None:
        return {}
    names = [order.name for order in queued.orders]
    first = cloud.nodes.get(f"{node.zone}/{names[0]}")
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": first.machines[0]["internal_ip"] if first else "",
        "MEGASCALE_NUM_SLICES": str(len(names)),
        "MEGASCALE_SLICE_ID": str(names.index(node.name)),
    }


def attributes(cloud: Cloud, node: NodeRecord, worker: int) -> dict[str, str]:
    """Return the instance's attributes: the owner's metadata and those of the service."""
    if node.api == "compute":
        # Google writes its keys into the metadata of an instance itself.
        own: dict[str, str] = node.machines[worker]["metadata"]
        return dict(own)
    endpoints = ",".join(
        f"{machine['machine_id']}:{node.uid}:{machine['internal_ip']}" for machine in node.machines
    )
    return {
        **node.body.get("metadata", {}),
        "accelerator-type": node.body["acceleratorType"],
        "agent-worker-number": str(worker),
        "instance-id": node.name,
        "tpu-env": tpu_env(cloud, node, worker),
        "worker-id": str(worker),
        "worker-network-endpoints": endpoints,
    }


def tree(cloud: Cloud, node: NodeRecord, worker: int) -> dict[str, Any]:
    """Return everything that one worker can read; keys are spelled as in paths."""
    machine = node.machines[worker]
    zone = f"projects/{cloud.number}/zones/{node.zone}"
    digest = hashlib.sha256(machine["machine_id"].encode()).digest()
    # An instance has a name and an id of its own; those of a node's machines are made up here.
    name = machine.get("name", machine["machine_id"])
    number = int(machine.get("id") or int.from_bytes(digest[:8], "big") >> 1)
    return {
        "instance": {
            "attributes": attributes(cloud, node, worker),
            "cpu-platform": "Local cloud",
            "disks": _disks(node, worker),
            "hostname": f"{name}.{node.zone}.c.{cloud.project}.internal",
            "id": number,
            "image": node.body.get("runtimeVersion", "") or _image(node),
            "machine-type": f"projects/{cloud.number}/machineTypes/{_machine_type(node)}",
            "maintenance-event": node.maintenance_event,
            "name": name,
            "network-interfaces": [
                {
                    "access-configs": [
                        {"external-ip": machine["external_ip"] or "", "type": "ONE_TO_ONE_NAT"}
                    ],
                    "ip": machine["internal_ip"],
                    **_card(cloud, node, machine["internal_ip"]),
                }
            ],
            "preempted": "TRUE" if node.preempted else "FALSE",
            "scheduling": {
                "automatic-restart": _restarts(node),
                "on-host-maintenance": "TERMINATE",
                "preemptible": str(node.spot).upper(),
            },
            "service-accounts": _accounts(node),
            "tags": tags(node, worker) if node.api == "compute" else node.body.get("tags", []),
            "zone": zone,
            **upcoming_maintenance(node),
        },
        "project": {
            "attributes": cloud.project_metadata,
            "numeric-project-id": int(cloud.number),
            "project-id": cloud.project,
        },
        "universe": {"universe-domain": "googleapis.com"},
    }


def _accounts(node: NodeRecord) -> dict[str, Any]:
    """Return the machine's service account, by its address and by its alias."""
    email, scopes = account(node)
    if not email and node.api != "tpu":
        return {}
    shown = {"aliases": ["default"], "email": email, "scopes": scopes}
    return {**({email: shown} if email else {}), "default": shown}


def _machine_type(node: NodeRecord) -> str:
    """Return the machine type; that of a v2 node is not known."""
    named = node.compute.get("machineType")
    if named:
        return str(named)
    kind = parse(node.accelerator_type)
    series = GENERATIONS[kind.generation].series if kind else ""
    if kind is None or not series:
        return "local"
    return f"{series}-{max(1, kind.chips // kind.workers)}t"


def _restarts(node: NodeRecord) -> str:
    """Return whether Google starts the machine again after a maintenance."""
    said = node.compute.get("properties", {}).get("scheduling", {}).get("automaticRestart")
    return str(not node.spot if said is None else said).upper()


def _disks(node: NodeRecord, worker: int) -> list[dict[str, Any]]:
    """Return the boot disk and the data disks of a machine."""
    boot = boot_disks.asked_of(node) or {}
    found = [(str(boot.get("deviceName") or "persistent-disk-0"), "READ_WRITE")]
    for disk in node.body.get("dataDisks") or []:
        if str(worker) in (disk.get("workerIds") or [str(worker)]):
            name = disk.get("deviceName") or f"persistent-disk-{len(found)}"
            found.append((str(name), str(disk.get("mode") or "READ_WRITE")))
    return [
        {"device-name": name, "index": index, "interface": "NVME", "mode": mode,
         "type": "PERSISTENT"}
        for index, (name, mode) in enumerate(found)
    ]  # fmt: skip


def _card(cloud: Cloud, node: NodeRecord, address: str) -> dict[str, Any]:
    """Return what Google says of a network card; the machine's own has other values."""
    region = node.zone.rpartition("-")[0]
    return {
        "dns-servers": ["169.254.169.254"],
        "forwarded-ips": [],
        "gateway": str(IPv4Network(catalog.range_in(region))[1]),
        "ip-aliases": [],
        "mac": ":".join(["42", "01", *(f"{int(part):02x}" for part in address.split("."))]),
        "mtu": 1460,
        "network": f"projects/{cloud.number}/networks/{networks.NETWORK}",
        "subnetmask": "255.255.240.0",
        "target-instance-ips": [],
    }


def _image(node: NodeRecord) -> str:
    """Return the image of an instance's boot disk."""
    for disk in node.compute.get("properties", {}).get("disks", []):
        if disk.get("boot"):
            image = str((disk.get("initializeParams") or {}).get("sourceImage", ""))
            return image[max(0, image.find("projects/")) :]
    return ""


def upcoming_maintenance(node: NodeRecord) -> dict[str, dict[str, str]]:
    """Return the announced maintenance as a machine reads it; empty if there is none."""
    if not node.maintenance:
        return {}
    shown = {snake(name): value for name, value in node.maintenance.items()}
    shown["can_reschedule"] = str(shown["can_reschedule"]).lower()
    return {"upcoming-maintenance": shown}


def _no_maintenance(as_json: bool) -> Response:
    text = "no notifications have been received yet, try again later"
    if as_json:
        return Response(
            json.dumps({"error": text}), 503, {**HEADERS, "Content-Type": "application/json"}
        )
    return PlainTextResponse(text, 503, HEADERS)


def camel(value: Any, keep: bool = False) -> Any:
    """Spell keys as `recursive=true` does; names of attributes and accounts stay as they are."""
    if isinstance(value, dict):
        return {
            (key if keep else _camel_word(key)): camel(item, keep or key in NAMED)
            for key, item in value.items()
        }
    return [camel(item, keep) for item in value] if isinstance(value, list) else value


def _camel_word(word: str) -> str:
    first, *rest = word.split("-")
    return first + "".join(part.capitalize() for part in rest)


def find(value: Any, path: list[str]) -> Any:
    """Return the value at a path; raises KeyError."""
    for word in path:
        if isinstance(value, list):
            value = value[int(word)] if word.isdigit() and int(word) < len(value) else None
        elif isinstance(value, dict):
            value = value[word]
        else:
            value = None
        if value is None:
            raise KeyError(word)
    return value


def listing(value: Any) -> str:
    """Return a directory or a value as plain text."""
    if isinstance(value, dict):
        return "".join(
            f"{k}/\n" if isinstance(v, (dict, list)) and k not in LEAVES else f"{k}\n"
            for k, v in value.items()
        )
    if isinstance(value, list):
        if all(isinstance(item, str) for item in value):
            return "\n".join(value)
        return "".join(f"{index}/\n" for index in range(len(value)))
    return str(value)


def lines(value: Any, path: str = "") -> str:
    """Return a whole tree as plain text: a line with path and value for each leaf."""
    if isinstance(value, dict):
        return "".join(lines(item, f"{path}/{key}") for key, item in value.items())
    if isinstance(value, list):
        return "".join(lines(item, f"{path}/{index}") for index, item in enumerate(value))
    return f"{path[1:]} {value}\n"


def account(node: NodeRecord) -> tuple[str, list[str]]:
    """Return the service account that a machine acts as, and its scopes."""
    own = node.body.get("serviceAccount", {})
    return own.get("email", ""), own.get("scope", [])


def _base64(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


class Tokens:
    """The tokens of the machines' service accounts, each reused until shortly before its end."""

    LIFE = 3600.0
    EARLY = 300.0

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._given: dict[str, tuple[str, float]] = {}
        self._known: dict[str, tuple[str, list[str], float]] = {}

    def give(self, node: NodeRecord) -> dict[str, Any]:
        """Return a machine's token."""
        now = self._cloud.clock.now()
        token, ends = self._given.get(node.uid, ("", 0.0))
        if ends - now < self.EARLY:
            token, ends = f"ya29.c.{secrets.token_urlsafe(48)}", now + self.LIFE
            self._given[node.uid] = (token, ends)
            self._known[token] = (*account(node), ends)
        return {"access_token": token, "expires_in": int(ends - now), "token_type": "Bearer"}

    @functools.cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(65537, 2048)

    def identity(self, node: NodeRecord, worker: int, audience: str, full: bool) -> str:
        """Return a signed token with a machine's service account; full: and the machine.

        It is like Google's, except for the key, which only the local cloud has.
        """
        cloud, now, email = self._cloud, int(self._cloud.clock.now()), account(node)[0]
        number = str(int.from_bytes(hashlib.sha256(email.encode()).digest()[:8], "big"))
        payload: dict[str, Any] = {
            "aud": audience,
            "azp": number,
            "email": email,
            "email_verified": True,
            "exp": now + int(self.LIFE),
            "iat": now,
            "iss": "https://accounts.google.com",
            "sub": number,
        }
        if full:
            instance = tree(cloud, node, worker)["instance"]
            payload["google"] = {
                "compute_engine": {
                    "instance_creation_timestamp": int(seconds_of(node.created)),
                    "instance_id": str(instance["id"]),
                    "instance_name": instance["name"],
                    "project_id": cloud.project,
                    "project_number": int(cloud.number),
                    "zone": node.zone,
                }
            }
        header = {"alg": "RS256", "kid": f"local-cloud-{cloud.project}", "typ": "JWT"}
        said = b".".join(_base64(json.dumps(part).encode()) for part in (header, payload))
        signature = self._key.sign(said, padding.PKCS1v15(), hashes.SHA256())
        return (said + b"." + _base64(signature)).decode()

    def caller(self, token: str) -> Caller | None:
        """Return the account that a token stands for; None for one that is no machine's."""
        email, scopes, ends = self._known.get(token, ("", [], 0.0))
        valid = ends > self._cloud.clock.now()
        return Caller("account", email, tuple(scopes)) if valid else None

    def who(self, token: str) -> tuple[str, list[str]]:
        """Return the owner of a token; raise if it is invalid or expired."""
        caller = self.caller(token)
        if caller is None:
            raise unauthenticated()
        return caller.email, list(caller.scopes)


class MetadataApp:
    """Answers one cloud's machines."""

    def __init__(self, front: FrontEnd) -> None:
        self.cloud = cloud = front.cloud
        self.tokens = Tokens(cloud)
        self.identify = of_machines(self.tokens.caller)
        self.closing = False
        self.asgi = Starlette(
            routes=[
                Route("/", self.root, methods=["GET"]),
                Route(
                    ROOT + "/instance/guest-attributes/{namespace}/{key}", self.put, methods=["PUT"]
                ),
                Route(
                    ROOT + "/instance/service-accounts/{account}/token", self.token, methods=["GET"]
                ),
                Route(
                    ROOT + "/instance/service-accounts/{account}/identity",
                    self.identity,
                    methods=["GET"],
                ),
                Route("/v1/{path:path}", self.google, methods=["GET"]),
                Route("/storage/v1/{path:path}", StorageApp(front, self.identify)),
                Route(ROOT + "/{path:path}", self.get, methods=["GET"]),
                Route(ROOT, self.get, methods=["GET"]),
            ]
        )

    async def root(self, request: Request) -> Response:
        """Answer a client that checks whether this is a metadata server."""
        return PlainTextResponse("computeMetadata/\n", headers=HEADERS)

    async def token(self, request: Request) -> Response:
        """Give a machine the token of its service account."""
        text = json.dumps(self.tokens.give(self._account_holder(request)[0]))
        return Response(text, headers={**HEADERS, "Content-Type": "application/json"})

    async def identity(self, request: Request) -> Response:
        """Give a machine a token that identifies it to others."""
        found = self._account_holder(request)
        audience = request.query_params.get("audience", "")
        if not audience:
            return PlainTextResponse("non-empty audience parameter required", 400, HEADERS)
        full = request.query_params.get("format") == "full"
        text = await asyncio.to_thread(self.tokens.identity, *found, audience, full)
        return PlainTextResponse(text, headers=HEADERS)

    async def google(self, request: Request) -> Response:
        """Pass a request on to Secret Manager, which machines reach only here."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            email, scopes = self.tokens.who(token if scheme == "Bearer" else "")
            path = request.scope["raw_path"].decode().partition("?")[0]
            answer = await asyncio.to_thread(google.answer_machine, self.cloud, path, email, scopes)
            status = 200
        except ApiError as error:
            status, answer = error.http, error.body()
        return Response(json.dumps(answer, indent=2), status, {"Content-Type": "application/json"})

    async def put(self, request: Request) -> Response:
        """Publish a guest attribute."""
        node, worker = self._asker(request)
        value = (await request.body()).decode(errors="replace")
        names = request.path_params
        await asyncio.to_thread(
            self.cloud.publish, node, worker, names["namespace"], names["key"], value
        )
        return PlainTextResponse("", headers=HEADERS)

    async def get(self, request: Request) -> Response:
        """Return a value, a directory, or a whole tree; on demand only after a change."""
        query = request.query_params
        wait = query.get("wait_for_change", "").lower() == "true"
        limit = float(query.get("timeout_sec") or 0) or 3600.0
        deadline = time.monotonic() + limit
        answer = self._look(request)
        last = query.get("last_etag") or answer.headers.get("ETag", "")
        while (
            wait
            and answer.headers.get("ETag", "") == last
            and time.monotonic() < deadline
            and not self.closing
        ):
            await asyncio.sleep(LOOK_EVERY)
            answer = self._look(request)
        return answer

    def _look(self, request: Request) -> Response:
        node, worker = self._asker(request)
        path = request.path_params.get("path", "")
        words = [word for word in path.split("/") if word]
        alt = request.query_params.get("alt", "")
        if alt not in ("", "json", "text"):
            return PlainTextResponse(f"Invalid alt: {alt}", 400, HEADERS)
        try:
            if words == ["instance", "upcoming-maintenance"] and not node.maintenance:
                return _no_maintenance(alt == "json")
            if words[:2] == ["instance", "guest-attributes"]:
                value = find(node.guest[worker], words[2:])
            else:
                value = find(tree(self.cloud, node, worker), words)
        except KeyError:
            return PlainTextResponse("Not found", 404, HEADERS)
        recursive = request.query_params.get("recursive", "").lower() == "true"
        directory = isinstance(value, (dict, list))
        if directory and alt == "json" and words == ["instance", "upcoming-maintenance"]:
            text, kind = json.dumps(value), "application/json"
        elif directory and recursive and alt == "text":
            text, kind = lines(value), "application/text"
        elif directory and recursive:
            text, kind = json.dumps(camel(value, bool({*NAMED} & {*words}))), "application/json"
        elif words == ["instance", "tags"] and alt != "text":
            text, kind = json.dumps(value), "application/json"
        elif alt == "json":
            text = json.dumps(listing(value).splitlines() if directory else value)
            kind = "application/json"
        else:
            text, kind = listing(value), "application/text"
        etag = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Response(text, headers={**HEADERS, "ETag": etag, "Content-Type": kind})

    def _account_holder(self, request: Request) -> tuple[NodeRecord, int]:
        """Return the machine that asks for its own service account, or refuse."""
        found = self._asker(request)
        email = account(found[0])[0]
        lacks = found[0].api == "compute" and not email
        if lacks or request.path_params["account"] not in ("default", email):
            raise HTTPException(404, "Not found", HEADERS)
        return found

    def _asker(self, request: Request) -> tuple[NodeRecord, int]:
        """Return the machine that asks, or refuse."""
        # A browser or a proxy that an attacker misuses does not send this header.
        google = request.headers.get("Metadata-Flavor") == "Google"
        if not google or "X-Forwarded-For" in request.headers:
            raise HTTPException(403, "Missing Metadata-Flavor:Google header.", HEADERS)
        found = self.cloud.worker_at(request.client.host) if request.client else None
        if found is None:
            raise HTTPException(404, "Unknown machine", HEADERS)
        return found
