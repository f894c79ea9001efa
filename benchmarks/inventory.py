#!/usr/bin/env python3
"""How long it takes to list a large fleet, against a static file and google.cloud.gcp_compute.

    .venv/bin/python benchmarks/inventory.py [--workers 10000] [--repeat 5] [--json FILE]

Starts a local cloud without machines, fills it with READY nodes of eight workers each, and runs
`ansible-inventory --list` on it: with host keys verified (one more request for each node), without
(host_key_policy accept_new), and from the inventory cache.

- The first yardstick is a JSON file with the same hosts, variables and groups; that the data is
  the same is checked.
- The second is `google.cloud.gcp_compute` from the package `ansible` (fetched once, into .cache),
  plain and with nine expressions that make the groups and variables which ours has by itself. It
  lists as many instances of a stand-in of the Compute API as ours lists workers of nodes; and the
  same instances of Compute Engine that ours lists, from the same local cloud. Both with 1,000.
- The plugin's own time is that of its `parse` alone, with 1,000 workers: of nodes, and of Compute
  Engine, in as many slices of eight; and in slices of one machine each.

All rows are from one run on one computer, which also runs the servers; medians count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compute_stand_in as compute
from local_api import PROJECT, environment, local_api, populate, populate_compute
from measure import ROOT, Cost, Line, interleaved, measured, medians, promises, record, table

ZONE, COMPUTE_ZONE = "us-central2-b", "us-east5-a"
WORKERS_PER_NODE = 8
# Of eight machines and of one: nodes, and slices of Compute Engine.
ACCELERATOR_TYPE, SMALLEST_TYPE = "v4-64", "v4-8"
COMPUTE_TYPE, SMALLEST_COMPUTE_TYPE = "v6e-32", "v6e-1"
PEER_WORKERS = 1000
NODES, GROUPS = "nodes of eight workers", "groups of eight instances"
SMALL_NODES, ALONE = "nodes of one worker", "instances alone"
OURS, PEER = "tpu.fleet.tpu, keys verified", "gcp_compute, nine expressions"
COMMAND: list[str | Path] = [Path(sys.executable).with_name("ansible-inventory"), "--list", "-i"]


def inventory_file(folder: Path, name: str, address: str, **options: Any) -> Path:
    """Write an inventory of the plugin."""
    path = folder / f"{name}.tpu.yml"
    basics = {"plugin": "tpu.fleet.tpu", "projects": [PROJECT], "api_endpoint": address}
    path.write_text(json.dumps({**basics, **options}))
    return path


def cached(folder: Path) -> dict[str, Any]:
    """Return the options for an inventory that is kept."""
    connection = str(folder / "cache")
    return {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": connection,
    }


def plain(value: Any) -> Any:
    """Take the marks away that ansible-inventory puts around text that came from outside."""
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def content(listing: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the host variables and the groups of a listing."""
    data = json.loads(listing.read_text())
    variables = plain(data.pop("_meta")["hostvars"])
    groups = {name: sorted(group["hosts"]) for name, group in data.items() if group.get("hosts")}
    return variables, groups


def static_file(folder: Path, listing: Path) -> Path:
    """Write the same fleet as a static JSON inventory."""
    variables, groups = content(listing)
    children = {name: {"hosts": dict.fromkeys(hosts)} for name, hosts in groups.items()}
    path = folder / "static.json"
    path.write_text(json.dumps({"all": {"hosts": variables, "children": children}}))
    return path


def lister(folder: Path, file: Path, **env: str) -> Callable[[], Cost]:
    """Return what lists an inventory once, into a file beside it."""
    where = {**environment(folder), **env}
    return lambda: measured([*COMMAND, file], where, folder, file.with_suffix(".out"))


def against_static(folder: Path, address: str, repeat: int) -> dict[str, list[Cost]]:
    """List the whole fleet in all ways, and check that they say the same."""
    verified = inventory_file(folder, "verified", address)
    lister(folder, verified)()
    listing = verified.with_suffix(".out")
    static = static_file(folder, listing)
    expected = content(listing)
    kept = inventory_file(folder, "cached", address, **cached(folder))
    lister(folder, kept)()
    fresh = inventory_file(folder, "new", address, host_key_policy="accept_new")
    runs = interleaved(
        {
            "static JSON": lister(folder, static),
            OURS: lister(folder, verified),
            "tpu.fleet.tpu, accept_new": lister(folder, fresh),
            "tpu.fleet.tpu, from its cache": lister(folder, kept),
        },
        repeat,
    )
    for file in (static, kept):
        if content(file.with_suffix(".out")) != expected:
            sys.exit(f"{file.name} does not list the same fleet.")
    return runs


def against_peer(
    folder: Path, address: str, theirs: str, expressions: dict[str, Any], repeat: int
) -> dict[str, list[Cost]]:
    """List as many workers with gcp_compute, from the Compute API at `theirs`."""
    folder.mkdir()
    ours = inventory_file(folder, "peer", address)
    place = compute.collections(ROOT / ".cache" / "compute", folder / "theirs", theirs)
    bare = compute.inventory_file(folder, "bare", PROJECT)
    full = compute.inventory_file(folder, "full", PROJECT, **expressions)
    rows = {
        PEER: lister(folder, full, ANSIBLE_COLLECTIONS_PATH=str(place)),
        "gcp_compute, plain": lister(folder, bare, ANSIBLE_COLLECTIONS_PATH=str(place)),
        OURS: lister(folder, ours),
    }
    for run in rows.values():
        run()  # Bytecode, and the known_hosts files.
    runs = interleaved(rows, repeat)
    for file in (bare, full, ours):
        if len(content(file.with_suffix(".out"))[0]) != PEER_WORKERS:
            sys.exit(f"{file.name} does not list {PEER_WORKERS} workers.")
    groups = content(full.with_suffix(".out"))[1]
    if len(groups["leaders"]) != PEER_WORKERS // WORKERS_PER_NODE:
        sys.exit(f"{full.name} does not find the leaders.")
    return runs


def parse_alone(path: str) -> None:
    """Print what the plugin itself takes to read an inventory: in a process of its own."""
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import init_plugin_loader, inventory_loader

    init_plugin_loader([str(ROOT / "collections")])
    plugin = inventory_loader.get("tpu.fleet.tpu")
    inventory = InventoryData()
    wall, cpu = time.monotonic(), time.process_time()
    plugin.parse(inventory, DataLoader(), path, cache=True)
    took = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu}
    with contextlib.suppress(AttributeError):  # there is no cache
        plugin.update_cache_if_changed()
    usable = len(inventory.groups["tpu"].get_hosts())
    if usable != PEER_WORKERS:
        sys.exit(f"{usable} workers of {PEER_WORKERS} are usable.")
    print(json.dumps({**took, "peak_memory": 0.0}))


def plugin_alone(folder: Path, addresses: dict[str, str], repeat: int) -> dict[str, list[Cost]]:
    """Measure the plugin's `parse` of each fleet, without what Ansible does before and after."""
    files: dict[str, Path] = {}
    for fleet, address in addresses.items():
        name = fleet.replace(" ", "-")
        fresh = inventory_file(folder, f"{name}-new", address, host_key_policy="accept_new")
        kept = inventory_file(folder, f"{name}-kept", address, **cached(folder))
        files[f"{fleet}, keys verified"] = inventory_file(folder, name, address)
        files[f"{fleet}, accept_new"] = fresh
        files[f"{fleet}, from its cache"] = kept

    def once(file: Path) -> Cost:
        output = file.with_suffix(".out")
        argv: list[str | Path] = [sys.executable, __file__, "--parse-alone", file]
        measured(argv, environment(folder), folder, output)
        return Cost(**json.loads(output.read_text()))

    for file in files.values():
        once(file)
    rows = {name: (lambda file=file: once(file)) for name, file in files.items()}
    return interleaved(rows, repeat)


@contextlib.contextmanager
def fleets(folder: Path) -> Iterator[dict[str, str]]:
    """Serve four fleets of as many workers; give the address of each."""
    with contextlib.ExitStack() as stack:
        nodes, groups, small_nodes, alone = (
            stack.enter_context(local_api(folder / name, clock="immediate"))
            for name in ("nodes", "groups", "small-nodes", "alone")
        )
        slices = PEER_WORKERS // WORKERS_PER_NODE
        populate(nodes, ZONE, slices, ACCELERATOR_TYPE)
        populate_compute(groups, COMPUTE_ZONE, slices, COMPUTE_TYPE)
        populate(small_nodes, ZONE, PEER_WORKERS, SMALLEST_TYPE)
        populate_compute(alone, COMPUTE_ZONE, PEER_WORKERS, SMALLEST_COMPUTE_TYPE)
        yield {NODES: nodes, GROUPS: groups, SMALL_NODES: small_nodes, ALONE: alone}


def cpu_ratio(runs: dict[str, list[Cost]]) -> float:
    """Return the CPU of our plugin as a part of that of gcp_compute."""
    return medians(runs[OURS]).cpu / medians(runs[PEER]).cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=10_000, help="for the static file")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--parse-alone", metavar="FILE", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.parse_alone:
        parse_alone(asked.parse_alone)
        return
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        folder = Path(name)
        with fleets(folder) as addresses:
            alone = plugin_alone(folder, addresses, asked.repeat)
            print(f"The plugin alone, {PEER_WORKERS} workers; medians of {asked.repeat}")
            print(table(alone, f"{NODES}, keys verified"), flush=True)
            with compute.compute_api(PROJECT, ZONE, PEER_WORKERS) as theirs:
                peer = against_peer(
                    folder / "peer", addresses[NODES], theirs, compute.EXPRESSIONS, asked.repeat
                )
            print(f"\nansible-inventory --list, {PEER_WORKERS} workers of nodes")
            print(table(peer, PEER), flush=True)
            there = addresses[GROUPS]
            same = against_peer(
                folder / "same", there, there.rstrip("/"), compute.OF_GROUPS, asked.repeat
            )
            print(f"\nansible-inventory --list, the same {PEER_WORKERS} instances")
            print(table(same, PEER), flush=True)
        with local_api(folder / "many", clock="immediate") as address:
            populate(address, ZONE, asked.workers // WORKERS_PER_NODE, ACCELERATOR_TYPE)
            static = against_static(folder, address, asked.repeat)
            print(f"\nansible-inventory --list, {asked.workers} workers")
            print(table(static, "static JSON"))

    many, file = medians(static[OURS]), medians(static["static JSON"])
    own = {fleet: medians(alone[f"{fleet}, keys verified"]).cpu for fleet in addresses}
    lines = [
        Line("CPU against gcp_compute with nine expressions", cpu_ratio(peer), 0.2),
        Line("the same, both of the same instances of Compute Engine", cpu_ratio(same), 0.2),
        Line(f"CPU s of the plugin, {PEER_WORKERS} workers, keys verified", own[NODES], 0.25),
        Line(f"CPU, {GROUPS} against {NODES}", own[GROUPS] / own[NODES], 1.2),
        Line(f"CPU, {ALONE} against {SMALL_NODES}", own[ALONE] / own[SMALL_NODES], 1.2),
        Line("wall time against static JSON", many.wall / file.wall, 1.5),
        Line("memory against static JSON", many.peak_memory / file.peak_memory, 1.5),
    ]
    print(f"\n{promises(lines)}")
    runs = {
        **alone,
        **{f"{PEER_WORKERS}: {name}": costs for name, costs in peer.items()},
        **{f"the same instances: {name}": costs for name, costs in same.items()},
        **{f"{asked.workers}: {name}": costs for name, costs in static.items()},
    }
    record(asked.json, "inventory", runs, lines, workers=asked.workers, peer=compute.PACKAGE)


if __name__ == "__main__":
    main()
